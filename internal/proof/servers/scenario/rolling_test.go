package scenario_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// A roll restarts all masters, one at a time, with the pauses of docs/operations.md.
type roll struct {
	masters  string // what they keep
	settings []string
	users    string // the default user
	maxTTL   time.Duration
	cluster.Cluster
}

// Whatever the masters keep, and whatever the default user may load, locks are held all the while,
// others are granted, and a quorum is left at the end, for those that knew the masters and for who
// comes then.
func TestRollingRestartsLeaveAQuorum(t *testing.T) {
	t.Parallel()
	maxTTL := 4 * time.Second // the shortest quarantine
	if virtual.Soaks() {
		maxTTL = 10 * time.Second
	}
	truncated := append(slices.Clone(durable), "--aof-load-truncated", "yes")
	for _, r := range []roll{
		{masters: "durable", settings: durable, users: "on"},
		{masters: "durable", settings: durable, users: "off"},
		{masters: "durable", settings: durable, users: "off, with all rights"},
		{masters: "durable, but for the end of a log", settings: truncated, users: "off"},
		{masters: "forgetful", users: "on"},
		{masters: "forgetful", users: "off"},
	} {
		r.maxTTL = maxTTL
		t.Run(r.masters+", default user "+r.users, func(t *testing.T) {
			t.Parallel()
			if (r.masters != "durable" || r.users != "off") && !virtual.Thorough() {
				t.Skip("three quarantines: make prove tries it, or REDQUORUM_PROVE=1")
			}
			r.leavesAQuorum(t)
		})
	}
}

func (r *roll) leavesAQuorum(t *testing.T) {
	t.Helper()
	for range 3 {
		r.Masters = append(r.Masters, redistest.StartOne(t, users(t, defaultUsers[r.users]), redistest.WithArgs(r.settings...)))
	}
	held := r.holds(t)
	const workers = 2
	turn, stop := cluster.Load(t, r.maxTTL, r.program(t), r.program(t))
	turn.AwaitEach(t, workers, 1)
	for _, m := range r.Masters {
		must(t, m.Kill())
		turn.AwaitEach(t, workers, 1)
		must(t, m.Restart())
		turn.AwaitEach(t, workers, 1)
		time.Sleep(r.maxTTL + r.maxTTL/4)
	}
	turn.AwaitEach(t, workers, 1)
	survived := 0
	for _, lock := range held {
		if assert.NoError(t, lock.Err()) {
			survived++
			give(t, lock)
		}
	}
	id := identity(t, r.Masters[0])
	t.Logf("| %s %s | %s | %s | %d of %d | %v |", id.Product, id.Version, r.masters, r.users, survived, len(held), stop().Round(time.Millisecond))
	l := r.program(t)
	cluster.RequireUp(t, l, func(node redlock.NodeStats) bool { return node.Barred == nil })
	give(t, take(t, l, cluster.LockName(t)+"new"))
}

// program is one that locks.
func (r *roll) program(t *testing.T) *redlock.Locker {
	t.Helper()
	return cluster.NewLocker(t, r.URLs(), redlock.WithTTL(r.maxTTL), redlock.WithMaxTTL(r.maxTTL), redlock.WithNodeTimeout(r.maxTTL/2), redlock.WithFencing())
}

// holds has programs hold a lock of each kind.
func (r *roll) holds(t *testing.T) (held []*redlock.Lock) {
	t.Helper()
	for i, acquire := range []func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error){
		func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
			return l.Lock(ctx, name)
		},
		func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
			return l.RLock(ctx, name)
		},
		func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
			return l.LockAll(ctx, []string{name, name + "too"})
		},
		func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
			s, err := l.Semaphore(name, 2)
			if err != nil {
				return nil, err
			}
			return s.Acquire(ctx)
		},
	} {
		lock, err := acquire(t.Context(), r.program(t), fmt.Sprint(cluster.LockName(t), "held", i))
		require.NoError(t, err)
		held = append(held, lock)
	}
	return held
}
