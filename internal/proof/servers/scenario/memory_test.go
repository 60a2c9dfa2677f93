package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// world is three masters, and another server. A reaches the last two masters, B the first and the
// last.
type world struct {
	*cluster.Cluster
	other cluster.Master
	urls  map[string][]string // of A and B
	proxy map[string][]*redistest.Proxy
}

func newWorld(t *testing.T, f forgetfulness) *world {
	t.Helper()
	w := &world{Cluster: cluster.Start(t, 3), urls: map[string][]string{}, proxy: map[string][]*redistest.Proxy{}}
	if f.other {
		w.other = redistest.StartOne(t)
	}
	if f.before != nil {
		f.before(t, w)
	}
	for _, who := range []string{"A", "B"} {
		w.proxy[who], w.urls[who] = w.BehindProxies(t)
	}
	return w
}

func (w *world) last() cluster.Master { return w.Masters[2] }

// forgetfulness is a way for the last of three masters to forget the lock that it granted.
type forgetfulness struct {
	name    string
	before  func(t *testing.T, w *world) // the lock is acquired; may be nil
	forget  func(t *testing.T, w *world)
	other   bool // it needs another server
	more    bool // like another one to a client: make prove tries it
	remains bool // it does not forget: it has a vote, and refuses
}

func restart(args ...string) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) { must(t, w.last().RestartWith(args...)) }
}

// restartBefore restarts the master with arguments before the lock is acquired, so that it votes.
func restartBefore(args ...string) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) {
		restart(args...)(t, w)
		w.Meet(t)
	}
}

func command(name string, args ...any) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) { do(t, w.last(), name, args...) }
}

// follow makes a server a replica until it has the data of the other, and then a master again.
func follow(t *testing.T, m, other cluster.Master) {
	t.Helper()
	replicate(t, m, other)
	do(t, m, "REPLICAOF", "NO", "ONE")
}

var durable = []string{"--appendonly", "yes", "--appendfsync", "always", "--aof-load-truncated", "no"}

var forgetfulnesses = []forgetfulness{
	{name: "kill -9, empty", forget: restart()},
	{name: "kill -9, an older snapshot", more: true, before: command("SAVE"), forget: restart()},
	{name: "durable since the restart", more: true, forget: restart(durable...)},
	{name: "durable all the time", remains: true, before: restartBefore(durable...), forget: restart()},
	{name: "durable, and the disk is lost", before: restartBefore(durable...), forget: func(t *testing.T, w *world) {
		restart("--dir", t.TempDir())(t, w)
	}},
	{name: "FLUSHALL", forget: command("FLUSHALL")},
	{name: "FLUSHDB", more: true, forget: command("FLUSHDB", "ASYNC")},
	{name: "SWAPDB", more: true, forget: command("SWAPDB", 0, 1)},
	{name: "DEBUG RELOAD", more: true, remains: true, before: restartBefore("--enable-debug-command", "yes"), forget: command("DEBUG", "RELOAD")},
	{name: "REPLICAOF an empty one, and back", other: true, forget: func(t *testing.T, w *world) { follow(t, w.last(), w.other) }},
	{name: "REPLICAOF another master, and back", more: true, forget: func(t *testing.T, w *world) { follow(t, w.last(), w.Masters[0]) }},
	// It was cut off before the lock was acquired, and becomes the master of its former master.
	{
		name: "REPLICAOF an old replica, and back", other: true,
		before: func(t *testing.T, w *world) { follow(t, w.other, w.last()) },
		forget: func(t *testing.T, w *world) { follow(t, w.last(), w.other) },
	},
}

// hold has A acquire the lock on the last two masters.
func (w *world) hold(t *testing.T, opts []redlock.Option) *redlock.Lock {
	t.Helper()
	a := cluster.NewConnected(t, w.urls["A"], opts...)
	leave(w.proxy["A"][0])
	awaitUp(t, a, 1, 2)
	lock, err := a.Lock(t.Context(), cluster.LockName(t), redlock.WithoutRenewal())
	require.NoError(t, err)
	await(t, "the last master has the lock", func() bool {
		return cluster.Holder(t, w.last(), cluster.LockName(t)) == lock.Value()
	})
	return lock
}

// A holds the lock on n1 and n2, n2 forgets it, and B reaches n0 and n2. If n2 had a vote, there
// would be two holders.
func TestMemoryLossOfAMasterMakesNoSecondHolder(t *testing.T) {
	t.Parallel()
	for i, f := range forgetfulnesses {
		for n, knew := range []bool{true, false} {
			if i%2 != n && !search.Soaking() {
				continue // to a master, both are the same
			}
			t.Run(fmt.Sprintf("%s/knew %v", f.name, knew), func(t *testing.T) {
				t.Parallel()
				if f.more && !virtual.Thorough() {
					t.Skip("make prove tries it, or REDQUORUM_PROVE=1")
				}
				f.makesNoSecondHolder(t, knew)
			})
		}
	}
}

func (f forgetfulness) makesNoSecondHolder(t *testing.T, knew bool) {
	t.Helper()
	w, opts := newWorld(t, f), patiently(redlock.WithMaxTTL(longTTL))
	var b *redlock.Locker
	if knew {
		b = cluster.NewConnected(t, w.urls["B"], opts...)
	}
	up := []int{0, 2}
	// A client that never met n2 believes that the disk is its own if the others have other data.
	// But the members have the names that A has for them: without discovery, B knows no more nodes.
	if f.remains {
		up, opts = []int{0, 1, 2}, append(opts, redlock.WithoutDiscovery())
	} else {
		leave(w.proxy["B"][1])
	}
	held := w.hold(t, opts)
	f.forget(t, w)
	if !knew {
		b = cluster.NewLocker(t, w.urls["B"], opts...)
	}
	var err error
	ask := func() {
		_, err = b.TryLock(t.Context(), cluster.LockName(t))
		require.Error(t, err, "two holders")
		require.NoError(t, held.Err(), "the machine was too slow to ask in time")
	}
	for range 3 {
		ask()
	}
	awaitUp(t, b, up...)
	if !f.remains {
		await(t, "n2 is known to have forgotten", func() bool { // until then, each script finds that out
			return errors.Is(b.Stats().Nodes[2].Barred, pool.ErrQuarantined)
		})
	}
	ask()
	t.Log(err)
	if f.remains {
		require.ErrorIs(t, err, redlock.ErrTaken)
		if knew { // otherwise n2 has another name for B, which may wait for A to vouch for it
			cluster.RequireUp(t, b, func(node redlock.NodeStats) bool { return node.Barred == nil })
		}
		return
	}
	requireNodesSay(t, err, w.urls["B"][2:], "quarantined for another ")
}

// A new cluster votes once its last master is there, and says for whom it waits. Many clients may
// meet it at once.
func TestMemoryOfANewClusterThatManyMeetAtOnce(t *testing.T) {
	t.Parallel()
	c := cluster.StartYoung(t, 5)
	must(t, c.Masters[4].Kill())
	var all []*redlock.Locker
	for range 10 {
		l := cluster.NewLocker(t, c.URLs(), patiently()...)
		awaitUp(t, l, 0, 1, 2, 3)
		all = append(all, l)
	}
	_, err := all[0].TryLock(t.Context(), cluster.LockName(t))
	require.ErrorIs(t, err, pool.ErrQuarantined)
	assert.ErrorContains(t, err, "a new cluster begins when all of its masters are there, also "+c.URLs()[4])
	must(t, c.Masters[4].Restart())
	bounded, cancel := context.WithTimeout(t.Context(), aMinute/2) // quarantines would last longer
	defer cancel()
	var locks sync.WaitGroup
	for i, l := range all {
		locks.Go(func() {
			lock, err := l.Lock(bounded, fmt.Sprint(cluster.LockName(t), i))
			if assert.NoError(t, err) {
				assert.NoError(t, lock.Unlock(bounded))
			}
		})
	}
	locks.Wait()
}

// A holder learns that a majority has lost its keys although it asks nothing of the masters for its
// lock, and no connection breaks.
func TestMemoryLossOfAMajorityIsToldToAnIdleHolder(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	l := connected(t, c.URLs())
	held := take(t, l, cluster.LockName(t), redlock.WithoutRenewal())
	for _, m := range c.Masters[:2] {
		do(t, m, "FLUSHALL")
	}
	await(t, "it has noticed a minority", func() bool {
		nodes := l.Stats().Nodes
		return nodes[0].Barred != nil && nodes[1].Barred != nil
	})
	require.NoError(t, held.Err(), "a minority")
	do(t, c.Masters[3], "FLUSHALL")
	awaitLoss(t, held)
	requireLostBecause(t, held, "a quorum of nodes has restarted or lost its keys")
}
