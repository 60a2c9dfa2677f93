package scenario_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// memoryTTL is the TTL and the maximum TTL where masters forget: long enough to find a second
// holder before the validity of the first ends.
const memoryTTL = 8 * time.Second

var memoryOptions = []redlock.Option{redlock.WithTTL(memoryTTL), redlock.WithMaxTTL(memoryTTL), redlock.WithNodeTimeout(memoryTTL / 4), redlock.WithoutRenewal()}

// forgetfulness is a way for the last of three masters to forget the lock that it granted.
type forgetfulness struct {
	name    string
	before  func(t *testing.T, c *cluster.Cluster) // the lock is acquired; may be nil
	forget  func(t *testing.T, c *cluster.Cluster)
	remains bool // it does not forget: it has a vote, and refuses
}

func restart(t *testing.T, m cluster.Master, args ...string) {
	t.Helper()
	must(t, m.(*redistest.Server).RestartWith(args...))
}

var forgetfulnesses = []forgetfulness{
	{name: "kill -9, empty", forget: func(t *testing.T, c *cluster.Cluster) { restart(t, c.Masters[2]) }},
	{
		name:   "kill -9, an older snapshot",
		before: func(t *testing.T, c *cluster.Cluster) { do(t, c.Masters[2], "SAVE") },
		forget: func(t *testing.T, c *cluster.Cluster) { restart(t, c.Masters[2]) },
	},
	{name: "durable since the restart", forget: func(t *testing.T, c *cluster.Cluster) {
		restart(t, c.Masters[2], "--appendonly", "yes", "--appendfsync", "always")
	}},
	{
		name: "durable all the time", remains: true,
		before: func(t *testing.T, c *cluster.Cluster) {
			restart(t, c.Masters[2], "--appendonly", "yes", "--appendfsync", "always")
			c.Meet(t)
		},
		forget: func(t *testing.T, c *cluster.Cluster) { restart(t, c.Masters[2]) },
	},
	{
		name: "durable, and the disk is lost",
		before: func(t *testing.T, c *cluster.Cluster) {
			restart(t, c.Masters[2], "--appendonly", "yes", "--appendfsync", "always")
			c.Meet(t)
		},
		forget: func(t *testing.T, c *cluster.Cluster) { restart(t, c.Masters[2], "--dir", t.TempDir()) },
	},
	{name: "FLUSHALL", forget: func(t *testing.T, c *cluster.Cluster) { do(t, c.Masters[2], "FLUSHALL") }},
	{name: "FLUSHDB", forget: func(t *testing.T, c *cluster.Cluster) { do(t, c.Masters[2], "FLUSHDB", "ASYNC") }},
	{
		name: "DEBUG RELOAD", remains: true,
		before: func(t *testing.T, c *cluster.Cluster) {
			restart(t, c.Masters[2], "--enable-debug-command", "yes")
			c.Meet(t)
		},
		forget: func(t *testing.T, c *cluster.Cluster) { do(t, c.Masters[2], "DEBUG", "RELOAD") },
	},
	{name: "REPLICAOF an empty one, and back", forget: func(t *testing.T, c *cluster.Cluster) {
		follow(t, c.Masters[2], redistest.StartOne(t, redistest.WithArgs("--repl-diskless-sync-delay", "0")))
	}},
	{name: "REPLICAOF another master, and back", forget: func(t *testing.T, c *cluster.Cluster) {
		do(t, c.Masters[0], "CONFIG", "SET", "repl-diskless-sync-delay", "0")
		follow(t, c.Masters[2], c.Masters[0])
	}},
	{name: "SWAPDB", forget: func(t *testing.T, c *cluster.Cluster) { do(t, c.Masters[2], "SWAPDB", 0, 1) }},
}

// follow makes a server a replica until it has the data of the other, and then a master again.
func follow(t *testing.T, m, other cluster.Master) {
	t.Helper()
	replicate(t, m, other)
	do(t, m, "REPLICAOF", "NO", "ONE")
}

// A holds the lock on n1 and n2, n2 forgets it, and B reaches n0 and n2. If n2 had a vote, there
// would be two holders.
func TestMemoryLossOfAMasterMakesNoSecondHolder(t *testing.T) {
	t.Parallel()
	for _, f := range forgetfulnesses {
		for _, mode := range []redlock.Quarantine{redlock.QuarantineAuto, redlock.QuarantineStrict} {
			for _, knew := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/mode %d/knew %v", f.name, mode, knew), func(t *testing.T) {
					t.Parallel()
					c := cluster.Start(t, 3)
					if f.before != nil {
						f.before(t, c)
					}
					requireNoSecondHolder(t, c, f, knew, append(memoryOptions[:len(memoryOptions):len(memoryOptions)], redlock.WithQuarantine(mode)))
				})
			}
		}
	}
}

func requireNoSecondHolder(t *testing.T, c *cluster.Cluster, f forgetfulness, knew bool, opts []redlock.Option) {
	t.Helper()
	proxiesA, urlsA := c.BehindProxies(t)
	proxiesB, urlsB := c.BehindProxies(t)
	a := cluster.NewConnected(t, urlsA, opts...)
	var b *redlock.Locker
	if knew {
		b = cluster.NewConnected(t, urlsB, opts...)
	}
	leave(proxiesA[0])
	up := []int{0, 2}
	// A client that never met n2 believes that the disk is its own if the others have other data.
	if f.remains {
		up = []int{0, 1, 2}
	} else {
		leave(proxiesB[1])
	}
	awaitUp(t, a, 1, 2)
	held, err := a.TryLock(t.Context(), cluster.LockName(t))
	require.NoError(t, err)
	cluster.Eventually(t, slack, func() string {
		if cluster.Holder(t, c.Masters[2], cluster.LockName(t)) != held.Value() {
			return "n2 has the lock"
		}
		return ""
	})
	f.forget(t, c)
	if !knew {
		b = cluster.NewLocker(t, urlsB, opts...)
	}
	for range 3 {
		_, err = b.TryLock(t.Context(), cluster.LockName(t))
		skipIfExpired(t, held)
		require.Error(t, err, "two holders")
	}
	awaitUp(t, b, up...)
	_, err = b.TryLock(t.Context(), cluster.LockName(t))
	skipIfExpired(t, held)
	require.Error(t, err, "two holders")
	t.Log(err)
	if f.remains {
		require.ErrorIs(t, err, redlock.ErrTaken)
		cluster.RequireUp(t, b, func(node redlock.NodeStats) bool { return node.Barred == nil })
		return
	}
	require.ErrorIs(t, b.Stats().Nodes[2].Barred, pool.ErrQuarantined)
	require.NoError(t, held.Err())
}

// A replica that was cut off before the lock was acquired becomes the master of its former master,
// which then becomes a master again.
func TestMemoryOfAnOldReplicaMakesNoSecondHolder(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	do(t, c.Masters[2], "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	replica := redistest.StartOne(t, redistest.WithArgs("--repl-diskless-sync-delay", "0"))
	follow(t, replica, c.Masters[2])
	f := forgetfulness{forget: func(t *testing.T, c *cluster.Cluster) { follow(t, c.Masters[2], replica) }}
	requireNoSecondHolder(t, c, f, false, memoryOptions)
}

// A proxy that speaks Redis may move a connection from server to server without a break that a
// client sees.
func TestMemoryOfAServerThatIsSwitchedUnderTheConnection(t *testing.T) {
	t.Parallel()
	for _, knownServer := range []bool{false, true} {
		t.Run(fmt.Sprintf("the other one is known %v", knownServer), func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t, 3)
			other := &cluster.Cluster{Masters: []cluster.Master{redistest.StartOne(t)}, Real: true}
			if knownServer {
				other.Meet(t)
			}
			board := newSwitchboard(t, c.Masters[2].Addr())
			proxiesA, urlsA := c.BehindProxies(t)
			proxiesB, urlsB := c.BehindProxies(t)
			a := cluster.NewConnected(t, []string{urlsA[0], urlsA[1], board.url}, memoryOptions...)
			b := cluster.NewConnected(t, []string{urlsB[0], urlsB[1], board.url}, memoryOptions...)
			leave(proxiesA[0], proxiesB[1])
			awaitUp(t, a, 1, 2)
			awaitUp(t, b, 0, 2)
			held, err := a.TryLock(t.Context(), cluster.LockName(t))
			require.NoError(t, err)
			connects := b.Stats().Nodes[2].Connects
			board.switchTo(t, other.Masters[0].Addr())
			_, err = b.TryLock(t.Context(), cluster.LockName(t))
			skipIfExpired(t, held)
			require.ErrorIs(t, err, redlock.ErrNoQuorum, "two holders")
			t.Log(err)
			_, err = b.TryLock(t.Context(), cluster.LockName(t))
			t.Log(err)
			skipIfExpired(t, held)
			require.ErrorIs(t, err, redlock.ErrNoQuorum, "two holders")
			assert.LessOrEqual(t, b.Stats().Nodes[2].Connects, connects+1)
		})
	}
}
