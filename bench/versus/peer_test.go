package versus

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// peer is one way to lock, connected to all servers.
type peer interface {
	// lockUnlock acquires and releases the locks of a batch, which nobody else wants. Many
	// goroutines call it, with one lock each, unless the peer is a batcher.
	lockUnlock(ctx context.Context, locks batch) error
	close() error
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

// entry is a peer that can take part. The kind says in which column of the ratios it counts.
type entry struct {
	name string
	kind kind
	open func(setup) (peer, error)
}

// peers are compared on any number of servers.
var peers = []entry{
	{"redquorum", ours, openRedquorum},
	{"redsync-redigo", redsyncs, openRedigo},
	{"redsync-goredis", redsyncs, openGoRedis},
	{"redsync-goredis-tuned", redsyncs, openGoRedisTuned},
	{"redsync-rueidis", redsyncs, openRueidis},
	{"redsync-rueidis-tuned", redsyncs, openRueidisTuned},
	{"limit", limit, openLimit},
}

// singlePeers lock on one server only.
var singlePeers = []entry{
	{"redislock", singles, openRedislock},
	{"redislock-tuned", singles, openRedislockTuned},
}

// kind is what a peer stands for in the ratios.
type kind int

const (
	ours     kind = iota
	redsyncs      // the best of them counts
	limit
	singles
)

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
	kind  kind
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
	return openOn(tb, addressesOf(servers), servers, entries, goroutines)
}

// openOn connects the peers to the addresses, which lead to the servers.
func openOn(tb testing.TB, addresses []string, servers []*redistest.Server, entries []entry, goroutines int) []contestant {
	tb.Helper()
	var all []contestant
	for i, p := range entries {
		names := makeNames(fmt.Sprintf("versus/%d", i), namesPerPeer)
		opened, err := p.open(setup{addresses: addresses, names: names, goroutines: goroutines})
		if err != nil {
			tb.Fatalf("%s: %v", p.name, err)
		}
		tb.Cleanup(func() {
			if err := opened.close(); err != nil {
				tb.Errorf("%s: %v", p.name, err)
			}
		})
		all = append(all, contestant{name: p.name, kind: p.kind, peer: opened, names: names, servers: servers})
	}
	return all
}
