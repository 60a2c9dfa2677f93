package redlock

import (
	"cmp"
	"context"

	"github.com/redquorum/redquorum/internal/look"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// inspect asks every node who holds a lock. It changes nothing. It returns what the nodes have
// answered by the node timeout or the end of ctx, and if fewer than a quorum did, an error with it.
func (l *Locker) inspect(ctx context.Context, name string) (look.Answers[look.Inspection], error) {
	return inspectWith(ctx, l, name, wire.Inspect, wire.ReadInspect)
}

// inspectPermits asks every node who holds the permits of a semaphore, like inspect.
func (l *Locker) inspectPermits(ctx context.Context, name string) (look.Answers[look.Permits], error) {
	return inspectWith(ctx, l, name, wire.InspectPermits, wire.ReadPermits)
}

func inspectWith[T any](
	ctx context.Context, l *Locker, name string, question func(key string) pipeline.Request, read func(reply any) (T, bool),
) (told look.Answers[T], err error) {
	cfg, err := l.config.lockConfig(ctx, name, nil)
	if err != nil {
		return told, err
	}
	if !l.life.enter() {
		return told, ErrClosed
	}
	defer l.life.leave()
	replies, r, err := l.askEach(ctx, question(l.config.keyPrefix+name), name, l.config.timeout(cfg.ttl))
	nodes := r.Nodes()
	told = look.Answers[T]{Nodes: make([]look.Answer[T], len(nodes)), Quorum: l.members.View().Need()}
	for i, node := range nodes {
		n := &told.Nodes[i]
		n.Endpoint = node.Endpoint()
		switch n.Told, n.Answered = read(replies[i]); {
		case !n.Answered:
			n.Err = l.members.Explain(i, cmp.Or(r.Err(i), pool.ErrTimeout))
		case !r.GrantCounts(i):
			n.Err = l.members.Explain(i, r.Err(i))
		}
	}
	return told, err
}
