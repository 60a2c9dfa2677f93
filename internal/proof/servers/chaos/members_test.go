//go:build linux

package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// operators make the spare master a member and remove it again, every few seconds, until ctx ends.
// Often two of them do so at once. A change that a fault holds up is left to whoever comes next.
type operators struct {
	*arena
	spare    *redistest.Server
	lockers  []*redlock.Locker
	complete atomic.Int64 // changes
	left     atomic.Int64 // that were held up
}

func (a *arena) newOperators() *operators {
	o := &operators{arena: a, spare: redistest.StartOne(a.t)}
	for range 2 {
		l, err := newLocker(a.urls())
		require.NoError(a.t, err)
		o.lockers = append(o.lockers, l)
	}
	return o
}

// work returns when ctx ends, and no change is under way.
func (o *operators) work(ctx context.Context) {
	rng := rand.New(rand.NewPCG(o.seed, 3))
	for add := true; ctx.Err() == nil; add = !add {
		var at sync.WaitGroup
		for _, l := range o.lockers[:1+rng.IntN(len(o.lockers))] {
			at.Go(func() { o.change(ctx, l, add) })
		}
		at.Wait()
		pause(ctx, upTo(rng, 2*time.Second))
	}
	for _, l := range o.lockers {
		if err := l.Close(); !errors.Is(err, redlock.ErrUndelivered) {
			assert.NoError(o.t, err)
		}
	}
	o.t.Logf("%d changes of members were complete, %d were held up", o.complete.Load(), o.left.Load())
}

func (o *operators) change(ctx context.Context, l *redlock.Locker, add bool) {
	ctx, cancel := context.WithTimeout(ctx, 5*maxTTL)
	defer cancel()
	err := o.try(ctx, admin.Of(l).Cluster(), add)
	switch {
	case err == nil:
		o.complete.Add(1)
	case errors.Is(err, redlock.ErrNoQuorum), errors.Is(err, redlock.ErrNotMember), ctx.Err() != nil:
		o.left.Add(1)
	default:
		assert.NoError(o.t, err, "a change of members")
	}
}

func (o *operators) try(ctx context.Context, c *admin.Cluster, add bool) error {
	if add {
		return c.Add(ctx, o.spare.URL())
	}
	m, err := c.Members(ctx)
	for _, member := range m.Members {
		if member.Endpoint == o.spare.URL() {
			return c.Remove(ctx, member.ID)
		}
	}
	return err
}
