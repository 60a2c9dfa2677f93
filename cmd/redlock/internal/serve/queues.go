package serve

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/tasks"
	"github.com/redquorum/redquorum/dashboard"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

// queues are those that the page shows.
type queues struct {
	names  []string
	all    []*queue.Queue
	locker *redlock.Locker // nil if there are none
}

// openQueues opens the queues of --queue. Their Locker has connections of its own, and acquires
// nothing unless dead letters may be settled.
func (f *flags) openQueues(cmd *cobra.Command) (_ *queues, err error) {
	q := &queues{names: f.queues}
	if len(f.queues) == 0 {
		return q, nil
	}
	opts := []redlock.Option{redlock.WithTTL(min(usualTTL, f.nodes.MaxTTL)), redlock.WithPool(pool.WithClientName("redlock-serve"))}
	if !f.allowForce {
		opts = append(opts, admin.OnlyLooks())
	}
	for i, name := range f.queues {
		if slices.Contains(f.queues[:i], name) {
			return nil, cli.Usagef("--queue: one of them is given twice")
		}
		if err := cli.CheckName(name); err != nil {
			return nil, err
		}
	}
	store, err := tasks.StoreOf(cmd, f.store)
	if err != nil {
		return nil, err
	}
	if q.locker, err = f.nodes.Open(cmd, opts...); err != nil {
		return nil, err
	}
	for _, name := range f.queues {
		one, err := tasks.OpenAt(q.locker, store, name)
		if err != nil {
			q.close()
			return nil, err
		}
		q.all = append(q.all, one)
	}
	return q, nil
}

func (q *queues) options() (opts []dashboard.Option) {
	for i, one := range q.all {
		opts = append(opts, dashboard.WithQueue(q.names[i], one))
	}
	return opts
}

func (q *queues) close() {
	for _, one := range q.all {
		_ = one.Close() //nolint:errcheck // always nil
	}
	if q.locker != nil {
		_ = q.locker.Close() //nolint:errcheck // a lock that is not released expires
	}
}
