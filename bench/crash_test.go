package bench

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

var (
	crashKills   = flag.Int("crash.kills", 20, "how many holders BenchmarkCrash kills, one after the other")
	crashWaiters = flag.Int("crash.waiters", 4, "how many processes wait in BenchmarkCrash")
	crashTTL     = flag.Duration("crash.ttl", time.Second, "time to live of the lock in BenchmarkCrash")
	crashSettle  = flag.Duration("crash.settle", time.Second, "how long a holder lives in BenchmarkCrash at least")
)

// BenchmarkCrash kills the process that holds a lock (SIGKILL), again and again, while others wait
// for it:
//
//	go test -run '^$' -bench Crash ./bench -crash.kills 20 -crash.waiters 4 -crash.ttl 1s
//
// Its metrics:
//
//	late-median-ms -max- -min-  from when the keys of a quorum had expired until the next holder
//	                            had the lock; the servers report the expiry to within 2 ms
//	commands/client/100ms       what a waiting process sent to all servers from the kill until
//	                            then, on average
//	commands/client/100ms-max   the most that one of them sent
func BenchmarkCrash(b *testing.B) {
	benchmarkCrash(b, startContention(b), "redquorum")
}

// benchmarkCrash kills holders of a kind of lock that [TestMain] names.
func benchmarkCrash(b *testing.B, servers []*redistest.Server, mutex string) {
	b.Helper()
	b.Run(fmt.Sprintf("nodes=%d/waiters=%d/ttl=%v/kills=%d", contentionNodes, *crashWaiters, *crashTTL, *crashKills), func(b *testing.B) {
		c := contention.Crash{
			Mutex: mutex, Servers: servers, Waiters: *crashWaiters, Kills: *crashKills, TTL: *crashTTL, Settle: *crashSettle,
		}
		var r *contention.CrashResult
		var err error
		for range b.N {
			if r, err = c.Run(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(millis(percentile(r.Late, 50)), "late-median-ms")
		b.ReportMetric(millis(slices.Max(r.Late)), "late-max-ms")
		b.ReportMetric(millis(slices.Min(r.Late)), "late-min-ms")
		var sum float64
		for _, commands := range r.Commands {
			sum += commands
		}
		b.ReportMetric(sum/float64(len(r.Commands)), "commands/client/100ms")
		b.ReportMetric(slices.Max(r.Commands), "commands/client/100ms-max")
	})
}

// TestNameOfAKilledHolderIsAcquiredAgain does what BenchmarkCrash does, once or twice.
func TestNameOfAKilledHolderIsAcquiredAgain(t *testing.T) {
	t.Parallel()
	c := contention.Crash{
		Mutex: "redquorum", Servers: startContention(t), Waiters: 2, Kills: 2,
		TTL: smokeTTL, Settle: 10 * time.Millisecond,
	}
	r, err := c.Run()
	require.NoError(t, err)
	assert.Len(t, r.Late, 2)
	assert.Len(t, r.Commands, 2*2, "of each waiter and kill")
	for _, server := range c.Servers {
		keys, err := server.Keys()
		require.NoError(t, err)
		assert.Empty(t, keys)
	}
}
