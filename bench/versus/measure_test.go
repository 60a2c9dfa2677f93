package versus

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/load"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// manyGoroutines is the load under which throughput is measured. namesPerPeer is a multiple of it.
const manyGoroutines = 256

func startServers(tb testing.TB) []*redistest.Server {
	tb.Helper()
	return redistest.Start(tb, 5)
}

// sample is what one peer did.
type sample struct {
	load.Sample
	servers time.Duration // the CPU time of all servers together
}

func (s *sample) serversEach() float64 { return load.Micros(s.servers) / float64(s.Done) }

// settling is how long servers get, after the last lock, for what the peer did not wait for: more
// than the few hundred commands take.
const settling = 5 * time.Millisecond

// measure lets the peer lock with so many goroutines. The load says for how long.
func (c *contestant) measure(ctx context.Context, goroutines int, l load.Load) (sample, error) {
	l.Goroutines = goroutines
	if _, ok := c.peer.(batcher); ok {
		l.Goroutines, l.Each = 1, goroutines
	}
	l.Do = func(ctx context.Context, first, count int) error {
		first %= len(c.names) // a multiple of a batch: none crosses the end
		return c.peer.lockUnlock(ctx, batch{first: first, names: c.names[first : first+count]})
	}
	servers, err := serverCPU(c.servers)
	if err != nil {
		return sample{}, err
	}
	measured, err := l.Measure(ctx)
	if err != nil {
		return sample{}, err
	}
	time.Sleep(settling)
	after, err := serverCPU(c.servers)
	return sample{measured, after - servers}, err
}

// takeTurns lets every contestant measure for a while in every round, and returns the samples by
// contestant and round. A round before the first connects, and does not count.
func takeTurns(tb testing.TB, contestants []contestant, goroutines, rounds int, slice time.Duration) [][]sample {
	tb.Helper()
	samples := make([][]sample, len(contestants))
	for round := -1; round < rounds; round++ {
		for turn := range contestants {
			i := (turn + round + 1) % len(contestants) // none always follows the same one
			s, err := contestants[i].measure(tb.Context(), goroutines, load.Load{Duration: slice})
			require.NoError(tb, err, contestants[i].name)
			if round >= 0 {
				samples[i] = append(samples[i], s)
			}
		}
	}
	return samples
}
