package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/redlock"
)

// permits is how many holders the semaphores of the benchmarks have.
const permits = 8

// kinds are the kinds of locks, as operations. The first is the mutex that the others are compared
// to.
var kinds = []scenario{
	{name: "mutex", nodes: 5, operation: lockUnlock},
	{name: "permit", nodes: 5, operation: permitUnlock},
	{name: "read", nodes: 5, operation: readUnlock},
}

// permitUnlock acquires and releases one of several permits. Nobody else wants one.
func permitUnlock(ctx context.Context, locker *redlock.Locker, name string) error {
	semaphore, err := locker.Semaphore(name, permits)
	if err != nil {
		return err
	}
	permit, err := semaphore.TryAcquire(ctx)
	if err != nil {
		return err
	}
	return permit.Unlock(ctx)
}

// readUnlock acquires and releases the lock of a reader. Nobody else wants it.
func readUnlock(ctx context.Context, locker *redlock.Locker, name string) error {
	lock, err := locker.TryRLock(ctx, name)
	if err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

// kindTurns is how many turns the kinds take.
const kindTurns = 7

// BenchmarkKinds compares the kinds of locks that nobody else wants to the mutex, in turns:
//
//	permit/mutex  time of a permit and its release, divided by that of a lock and its unlock: the
//	              median of the turns; likewise for the other kinds
func BenchmarkKinds(b *testing.B) {
	c := newCluster(b, kinds[0].nodes)
	for _, goroutines := range []int{1, 256} {
		b.Run(fmt.Sprintf("backend=%s/nodes=%d/goroutines=%d", c.backend, kinds[0].nodes, goroutines), func(b *testing.B) {
			locker := c.locker(b, kinds[0].options()...)
			operations := min(2000*goroutines, 20_000)
			took := make([][]time.Duration, len(kinds))
			turn := func(warm bool) {
				for k := range kinds {
					began := time.Now()
					if err := perform(b.Context(), &kinds[k], locker, goroutines, operations, nil); err != nil {
						b.Fatal(err)
					}
					if !warm {
						took[k] = append(took[k], time.Since(began))
					}
				}
			}
			turn(true) // connections and scripts
			for b.Loop() {
				for range kindTurns {
					turn(false)
				}
			}
			b.ReportMetric(0, "ns/op")
			for k := 1; k < len(kinds); k++ {
				ratios := make([]float64, len(took[k]))
				for i := range ratios {
					ratios[i] = float64(took[k][i]) / float64(took[0][i])
				}
				slices.Sort(ratios)
				b.ReportMetric(ratios[len(ratios)/2], kinds[k].name+"/mutex")
			}
		})
	}
}

// contendedKinds are the kinds of locks under contention.
var contendedKinds = []struct {
	name  string
	mutex string // see TestMain
	set   func(s *contention.Scenario)
}{
	{"mutex", "redquorum", func(*contention.Scenario) {}},
	{fmt.Sprint("permits=", permits), "permits", func(s *contention.Scenario) { s.Permits = permits }},
	{"reads=0.9", "redquorum", func(s *contention.Scenario) { s.Reads = 0.9 }},
	{"reads=1", "redquorum", func(s *contention.Scenario) { s.Reads = 1 }},
}

// BenchmarkContendedKinds is BenchmarkContention with the kinds of locks, by 8 processes of 8
// goroutines, which hold what they get for 2 ms:
//
//	go test -run '^$' -bench ContendedKinds -benchtime 1x ./bench
//
// It has the same flags, but not those of sizes.
func BenchmarkContendedKinds(b *testing.B) {
	servers := startContention(b)
	for _, kind := range contendedKinds {
		b.Run(fmt.Sprintf("nodes=%d/kind=%s", contentionNodes, kind.name), func(b *testing.B) {
			f := contentionFlags
			s := contention.Scenario{
				Mutex: kind.mutex, Servers: servers, Processes: 8, Goroutines: 8,
				Hold: max(f.Hold, 2*time.Millisecond), TTL: f.TTL, WarmUp: f.WarmUp, Window: f.Window,
			}
			kind.set(&s)
			var r *contention.Result
			var err error
			for range b.N {
				if r, err = s.Run(); err != nil {
					b.Fatal(err)
				}
			}
			reportContention(b, r)
		})
	}
}

// TestKindsOfLocksCanBeMeasured does what the benchmarks of the kinds do, at a size that takes a
// moment.
func TestKindsOfLocksCanBeMeasured(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kinds[0].nodes)
	locker := c.locker(t, kinds[0].options()...)
	for k := range kinds {
		require.NoError(t, perform(t.Context(), &kinds[k], locker, 2, 10, nil), kinds[k].name)
	}
	servers := startContention(t)
	for _, kind := range contendedKinds {
		s := contention.Scenario{
			Mutex: kind.mutex, Servers: servers, Processes: 2, Goroutines: 6, TTL: 10 * time.Second, Patience: patience,
			Hold: time.Millisecond, WarmUp: 50 * time.Millisecond, Window: time.Second,
		}
		kind.set(&s)
		r, err := s.Run()
		require.NoError(t, err, kind.name)
		assert.Positive(t, r.Acquisitions, kind.name)
		assert.Zero(t, r.UnlockErrors, r.UnlockError)
		assert.Zero(t, r.Counters["lost"], kind.name)
	}
}
