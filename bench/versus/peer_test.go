package versus

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/load"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// peer is one way to lock, connected to all servers.
type peer interface {
	// lockUnlock acquires and releases the locks of a batch, which nobody else wants. Many
	// goroutines call it, with one lock each, unless the peer is a batcher.
	lockUnlock(ctx context.Context, locks batch) error
	Close() error
}

// batcher is a peer that works for all goroutines at once: one goroutine calls it, with a batch of
// that many locks.
type batcher interface {
	peer
	batches()
}

// batch is a run of the names that a peer locks.
type batch struct {
	first int      // the index of the first one among the peer's names
	names []string // never empty
}

// entry is a peer that can take part.
type entry struct {
	name string
	open func(setup) (peer, error)
}

// peers are compared on any number of servers.
var peers = []entry{
	{"redquorum", openRedquorum},
	{"redsync-redigo", openRedigo},
	{"redsync-goredis", openGoRedis},
	{"redsync-goredis-tuned", openGoRedisTuned},
	{"redsync-rueidis", openRueidis},
	{"redsync-rueidis-tuned", openRueidisTuned},
	{"limit", openLimit},
}

// singlePeers lock on one server only.
var singlePeers = []entry{
	{"redislock", openRedislock},
	{"redislock-tuned", openRedislockTuned},
}

// setup is what a peer is made with.
type setup struct {
	addresses  []string // host:port of the servers
	names      []string // what it will lock; all have the same length
	goroutines int      // how many will call it, at most

	// dial makes the connections; nil for the peer's own way. Not every peer uses it.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// contestant is a peer that takes part.
type contestant struct {
	name  string
	peer  peer
	names []string

	servers []*redistest.Server // that it locks on
}

// namesPerPeer are so many that none is asked for again while its release is under way. It is a
// multiple of every batch.
const namesPerPeer = 1 << 14

func makeNames(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s/%06d", prefix, i)
	}
	return names
}

// openPeers connects the peers for so many goroutines, and closes them at the end of the test. Each
// has names of its own, so no peer waits for what another is still releasing.
func openPeers(tb testing.TB, servers []*redistest.Server, entries []entry, goroutines int) []contestant {
	tb.Helper()
	var all []contestant
	for i, p := range entries {
		names := makeNames(fmt.Sprintf("versus/%d", i), namesPerPeer)
		opened, err := p.open(setup{addresses: contention.AddressesOf(servers), names: names, goroutines: goroutines})
		require.NoError(tb, err, p.name)
		tb.Cleanup(func() { assert.NoError(tb, opened.Close(), p.name) })
		all = append(all, contestant{name: p.name, peer: opened, names: names, servers: servers})
	}
	return all
}

// TestEveryPeerSetsAndDeletesEachKeyOnce is what the figures rest on: all peers make every server
// do the same work.
func TestEveryPeerSetsAndDeletesEachKeyOnce(t *testing.T) {
	for servers, entries := range map[int][]entry{5: peers, 1: slices.Concat(peers, singlePeers)} {
		for _, c := range openPeers(t, redistest.Start(t, servers), entries, manyGoroutines) {
			t.Run(fmt.Sprintf("%d/%s", servers, c.name), func(t *testing.T) {
				var executed []func() []string
				for _, server := range c.servers {
					executed = append(executed, monitor(t, server))
				}
				const goroutines, locks = 4, 10
				s, err := c.measure(t.Context(), load.Load{Goroutines: goroutines, Operations: locks})
				require.NoError(t, err)
				assert.Equal(t, locks, s.Done)
				for i, lines := range executed {
					for _, name := range c.names[:locks] {
						awaitOnce(t, lines, "set", name)
						awaitOnce(t, lines, "del", name)
					}
					keys, err := c.servers[i].Keys()
					require.NoError(t, err)
					assert.Empty(t, keys)
				}
			})
		}
	}
}

// monitor returns a function for what a server has executed since, as MONITOR shows it, but in
// lower case.
func monitor(t *testing.T, server *redistest.Server) func() []string {
	t.Helper()
	conn, err := redis.Dial("tcp", server.Addr(), redis.DialReadTimeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, conn.Close()) })
	_, err = conn.Do("MONITOR")
	require.NoError(t, err)
	var lines []string
	return func() []string {
		_, err := server.Do("ECHO", "the end")
		require.NoError(t, err)
		for {
			line, err := redis.String(conn.Receive())
			require.NoError(t, err)
			if strings.Contains(line, `"ECHO" "the end"`) {
				return lines
			}
			lines = append(lines, strings.ToLower(line))
		}
	}
}

// awaitOnce waits until the server has executed the command with the key, among others if it takes
// several, which a peer that has its quorum does not wait for. It fails if the server did so more
// than once.
func awaitOnce(t *testing.T, executed func() []string, command, key string) {
	t.Helper()
	cluster.Eventually(t, time.Minute, func() string {
		lines := executed()
		times := 0
		for _, line := range lines {
			if strings.Contains(line, `] "`+command+`" `) && strings.Contains(line, ` "`+key+`"`) {
				times++
			}
		}
		require.LessOrEqual(t, times, 1, "%s %s:\n%s", command, key, strings.Join(lines, "\n"))
		if times == 0 {
			return command + " " + key
		}
		return ""
	})
}
