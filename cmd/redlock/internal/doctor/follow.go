package doctor

import (
	"context"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// following is masters of which those of a list are the first, and the others are members that the
// list lacks.
type following struct {
	nodes      []*pool.Node // close them with [masters.CloseAll]
	locker     *redlock.Locker
	membership admin.Membership // zero if no majority of the members tells it
	flaws      []survey.Flaw    // of the list
}

// follow opens a Locker over nodes and over the members that they lack, which are reached as those
// of a Locker are ([redlock.WithMemberCredentials]). It waits until it is known which of them vote.
func follow(ctx context.Context, nodes []*pool.Node, opts ...redlock.Option) (following, error) {
	locker, err := redlock.NewFromNodes(nodes, opts...)
	if err != nil {
		return following{nodes: nodes}, err
	}
	f := following{nodes: nodes, locker: locker}
	admin.Of(locker).AwaitVotes(ctx)
	if f.membership, err = admin.Of(locker).Cluster().Members(ctx); err != nil {
		return f, nil // whoever asks about a lock learns why
	}
	stats := locker.Stats()
	f.flaws = survey.CompareList(&f.membership, &stats)
	list := make([]*pipeline.Node, len(nodes))
	for i, node := range nodes {
		list[i] = (*pipeline.Node)(node)
	}
	for _, one := range f.membership.Members {
		if one.Listed {
			continue
		}
		if node, err := pipeline.NewMember(list, pipeline.WithServerName(one.Endpoint, one.ServerName)); err == nil {
			f.nodes = append(f.nodes, (*pool.Node)(node))
		}
	}
	if len(f.nodes) == len(nodes) {
		return f, nil
	}
	_ = locker.Close() //nolint:errcheck // it holds no locks
	if f.locker, err = redlock.NewFromNodes(f.nodes, opts...); err == nil {
		admin.Of(f.locker).AwaitVotes(ctx)
	}
	return f, err
}
