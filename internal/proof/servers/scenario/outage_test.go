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
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// outage is a way for a node to go away and come back.
type outage struct {
	name   string
	begin  func(cluster.Master) error
	end    func(cluster.Master) error
	silent bool // it does not refuse connections, it says nothing
}

var outages = []outage{
	{"stopped", cluster.Master.Stop, cluster.Master.Continue, true},
	{"killed", cluster.Master.Kill, cluster.Master.Restart, false},
}

func onEachOutage(t *testing.T, test func(t *testing.T, c *cluster.Cluster, o outage)) {
	t.Helper()
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			cluster.OnEachKind(t, 5, func(t *testing.T, c *cluster.Cluster) { test(t, c, o) })
		})
	}
}

func (o outage) beginAll(t *testing.T, masters ...cluster.Master) {
	t.Helper()
	for _, m := range masters {
		must(t, o.begin(m))
	}
}

func (o outage) endAll(t *testing.T, masters ...cluster.Master) {
	t.Helper()
	for _, m := range masters {
		must(t, o.end(m))
	}
}

// Not parallel: it asserts how long things take.
func TestTwoNodesOfFiveAwayCostNoTime(t *testing.T) {
	onEachOutage(t, func(t *testing.T, c *cluster.Cluster, o outage) {
		ctx := t.Context()
		l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(4*slack))
		away := []cluster.Master{c.Masters[0], c.Masters[3]}
		o.beginAll(t, away...)
		began := time.Now()
		for i := range 20 {
			lock, err := l.TryLock(ctx, fmt.Sprint(cluster.LockName(t), i))
			require.NoError(t, err)
			require.NoError(t, lock.Extend(ctx, longTTL))
			require.NoError(t, lock.Verify(ctx))
			require.NoError(t, lock.Unlock(ctx))
		}
		took := time.Since(began)
		t.Logf("20 × lock, extend, verify, unlock: %v", took)
		assert.Less(t, took, 4*slack, "not even one call may wait for the nodes that are away")
		cluster.RequireClean(t, c.Masters[1], c.Masters[2], c.Masters[4])
		o.endAll(t, away...)
		cluster.RequireClean(t, c.Masters...)
	})
}

func TestThreeNodesOfFiveAwayAreNoQuorumAndEveryGrantIsUndone(t *testing.T) {
	onEachOutage(t, func(t *testing.T, c *cluster.Cluster, o outage) {
		const nodeTimeout = 300 * time.Millisecond
		l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(nodeTimeout))
		away := []cluster.Master{c.Masters[0], c.Masters[2], c.Masters[4]}
		want := []string{c.Masters[0].URL(), c.Masters[2].URL(), c.Masters[4].URL()}
		slices.Sort(want)
		o.beginAll(t, away...)
		for range 3 {
			began := time.Now()
			_, err := l.TryLock(t.Context(), cluster.LockName(t))
			assert.Less(t, time.Since(began), nodeTimeout+slack)
			t.Log(err)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.NotErrorIs(t, err, redlock.ErrTaken)
			var failure *redlock.QuorumError
			require.ErrorAs(t, err, &failure)
			assert.Equal(t, "acquire", failure.Op)
			assert.Equal(t, cluster.LockName(t), failure.Name)
			assert.Equal(t, 3, failure.Need)
			assert.LessOrEqual(t, failure.Granted, 2, "as many as had answered when it was decided")
			assert.Zero(t, failure.Refused)
			assert.Equal(t, want, endpointsOf(failure))
			cluster.RequireClean(t, c.Masters[1], c.Masters[3])
		}
		o.endAll(t, away...)
		cluster.RequireClean(t, c.Masters...)
	})
}

func TestHolderKeepsItsLockWhileNoQuorumAnswers(t *testing.T) {
	onEachOutage(t, func(t *testing.T, c *cluster.Cluster, o outage) {
		if o.name == "killed" {
			t.Skip("three nodes that lost their keys have lost the lock")
		}
		ctx := t.Context()
		l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(time.Second))
		lock, err := l.TryLock(ctx, cluster.LockName(t))
		require.NoError(t, err)
		away := c.Masters[:3]
		o.beginAll(t, away...)
		require.ErrorIs(t, lock.Extend(ctx, longTTL), redlock.ErrNoQuorum)
		require.ErrorIs(t, lock.Verify(ctx), redlock.ErrNoQuorum)
		require.NoError(t, lock.Err(), "unknown answers neither renew nor lose")
		o.endAll(t, away...)
		cluster.Eventually(t, cluster.CleanWithin, func() string {
			if err := lock.Verify(ctx); err != nil {
				return err.Error()
			}
			return ""
		})
		o.beginAll(t, away...)
		err = lock.Unlock(ctx)
		t.Log(err)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		o.endAll(t, away...)
		cluster.RequireClean(t, c.Masters...)
	})
}

func TestThreeRefusalsAreTakenWithoutWaitingForTheOtherTwo(t *testing.T) {
	onEachOutage(t, func(t *testing.T, c *cluster.Cluster, o outage) {
		l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(4*slack))
		for _, m := range c.Masters[2:] {
			_, err := m.Do("SET", cluster.LockName(t), "another's")
			must(t, err)
		}
		away := c.Masters[:2]
		o.beginAll(t, away...)
		began := time.Now()
		for range 20 {
			_, err := l.TryLock(t.Context(), cluster.LockName(t))
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.NotErrorIs(t, err, redlock.ErrNoQuorum)
		}
		assert.Less(t, time.Since(began), 4*slack)
		o.endAll(t, away...)
		cluster.RequireClean(t, away...)
		assert.Equal(t, 3, c.Holding(t, cluster.LockName(t), "another's"))
	})
}

// A node that is silent for so long that its connection is given up still has the SET in its
// socket. When it continues, the release must come behind that SET, although it goes out on another
// connection.
func TestGrantOfAConnectionThatWasGivenUpIsUndone(t *testing.T) {
	c := cluster.Start(t, 5)
	const short = 100 * time.Millisecond
	l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(short),
		redlock.WithPool(pool.WithStallTimeout(short), pool.WithDialTimeout(short)))
	o, away := outages[0], c.Masters[:3]
	for range 3 {
		o.beginAll(t, away...)
		_, err := l.TryLock(t.Context(), cluster.LockName(t))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		cluster.Eventually(t, 10*time.Second, func() string { return statesOtherThan(l, 3, pool.Down) })
		_, err = l.TryLock(t.Context(), cluster.LockName(t))
		t.Log(err)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		o.endAll(t, away...)
		cluster.RequireClean(t, c.Masters...)
		require.NoError(t, l.Ready(t.Context()))
	}
}

// statesOtherThan describes those of the first n nodes that are not in the state.
func statesOtherThan(l *redlock.Locker, n int, state pool.State) (other string) {
	for _, node := range l.Stats().Nodes[:n] {
		if node.State != state {
			other += fmt.Sprintf("%s is %v, not %v; ", node.Endpoint, node.State, state)
		}
	}
	return other
}

// A program uses errors.Is to tell its own deadline from that of a node. The timeouts of nodes must
// not look like its own.
func TestTimeoutsOfNodesAreNotTheCallersDeadline(t *testing.T) {
	const short = 50 * time.Millisecond
	timeouts := []redlock.Option{
		redlock.WithTTL(longTTL), redlock.WithNodeTimeout(short), redlock.WithPool(pool.WithStallTimeout(short), pool.WithDialTimeout(short)),
	}
	isNot := func(t *testing.T, l *redlock.Locker) {
		_, err := l.TryLock(t.Context(), cluster.LockName(t))
		t.Log(err)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.NotErrorIs(t, err, context.DeadlineExceeded, "the caller's ctx has no deadline")
		assert.NotErrorIs(t, err, context.Canceled)
	}
	t.Run("call and connection", func(t *testing.T) {
		c, o := cluster.Start(t, 5), outages[0]
		l := cluster.NewConnected(t, c.URLs(), timeouts...)
		o.beginAll(t, c.Masters[:3]...)
		isNot(t, l)
		cluster.Eventually(t, 10*slack, func() string { return statesOtherThan(l, 3, pool.Down) })
		isNot(t, l)
		o.endAll(t, c.Masters[:3]...)
		cluster.RequireClean(t, c.Masters...)
	})
	t.Run("dial", func(t *testing.T) {
		l := cluster.NewLocker(t, []string{impostors[0].atOnce(t)}, timeouts...)
		isNot(t, l)
		cluster.Eventually(t, 10*slack, func() string { return statesOtherThan(l, 1, pool.Down) })
		isNot(t, l)
	})
}
