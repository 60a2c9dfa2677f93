package survey

import (
	"context"
	"sync"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Following is masters of which those of a list are the first, and the others are members that the
// list lacks.
type Following struct {
	Nodes      []*pool.Node // close them with [CloseAll]
	Locker     *redlock.Locker
	Membership admin.Membership // zero if no majority of the members tells it
	Flaws      []Flaw           // of the list
}

// Follow opens a Locker over nodes and over the members that they lack, which are reached as those
// of a Locker are ([redlock.WithMemberCredentials]). It waits until it is known which of them vote.
func Follow(ctx context.Context, clk clock.Clock, nodes []*pool.Node, opts ...redlock.Option) (Following, error) {
	locker, err := redlock.NewFromNodes(nodes, opts...)
	if err != nil {
		return Following{Nodes: nodes}, err
	}
	f := Following{Nodes: nodes, Locker: locker}
	AwaitVotes(ctx, clk, locker)
	if f.Membership, err = admin.Of(locker).Cluster().Members(ctx); err != nil {
		return f, nil // whoever asks about a lock learns why
	}
	stats := locker.Stats()
	f.Flaws = CompareList(&f.Membership, &stats)
	list := make([]*pipeline.Node, len(nodes))
	for i, node := range nodes {
		list[i] = (*pipeline.Node)(node)
	}
	for _, one := range f.Membership.Members {
		if one.Listed {
			continue
		}
		if node, err := pipeline.NewMember(list, pipeline.WithServerName(one.Endpoint, one.ServerName)); err == nil {
			f.Nodes = append(f.Nodes, (*pool.Node)(node))
		}
	}
	if len(f.Nodes) == len(nodes) {
		return f, nil
	}
	_ = locker.Close() //nolint:errcheck // it holds no locks
	if f.Locker, err = redlock.NewFromNodes(f.Nodes, opts...); err == nil {
		AwaitVotes(ctx, clk, f.Locker)
	}
	return f, err
}

// CloseAll closes nodes, all at once: one that hangs takes its time.
func CloseAll(nodes []*pool.Node) {
	var all sync.WaitGroup
	for _, node := range nodes {
		all.Go(func() { _ = node.Close() }) //nolint:errcheck // always nil
	}
	all.Wait()
}
