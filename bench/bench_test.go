package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/load"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// BenchmarkTryLock acquires and releases locks that nobody else wants.
func BenchmarkTryLock(b *testing.B) {
	for _, nodes := range []int{1, 3, 5, 9} {
		urls := cluster.Start(b, nodes).URLs()
		for _, goroutines := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("nodes=%d/goroutines=%d", nodes, goroutines), func(b *testing.B) {
				measure(b, newLocker(b, urls), goroutines, kinds[0].operation)
			})
		}
	}
}

// BenchmarkKinds acquires and releases each kind of lock that nobody else wants.
func BenchmarkKinds(b *testing.B) {
	urls := cluster.Start(b, usualNodes).URLs()
	for _, kind := range kinds {
		for _, goroutines := range []int{1, 256} {
			b.Run(fmt.Sprintf("kind=%s/goroutines=%d", kind.name, goroutines), func(b *testing.B) {
				locker := newLocker(b, urls)
				if kind.name == "taken" {
					hold(b, newLocker(b, urls))
				}
				before := locker.Stats()
				measure(b, locker, goroutines, kind.operation)
				after := locker.Stats()
				b.ReportMetric(100*float64(after.SecondRounds-before.SecondRounds)/float64(b.N), "second-rounds-%")
			})
		}
	}
}

// BenchmarkHistory shows what the history of names adds to a lock and its unlock ([load.Costs]):
// where each lock has a name of its own, so that most notes are dropped, and those that are sent.
func BenchmarkHistory(b *testing.B) {
	load.Costs(b, load.Variant{Name: "history", Options: []redlock.Option{redlock.WithHistory()}})
}

// BenchmarkBatch shows how full writes, reads and scripts are: commands per write, keys per script,
// writes and reads per lock and node.
func BenchmarkBatch(b *testing.B) {
	urls := cluster.Start(b, usualNodes).URLs()
	for _, goroutines := range []int{1, 16, 64, 256, 1024} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			counts := &contention.Traffic{}
			locker := newLocker(b, urls, redlock.WithPool(pool.WithDialer(counts.Dial)))
			perform(b, locker, goroutines, goroutines, kinds[0].operation) // the first run of each script loads it
			counts.Reset()
			measure(b, locker, goroutines, kinds[0].operation)
			each := float64(b.N) * usualNodes // of which each has one release
			b.ReportMetric(float64(counts.Commands.Load())/float64(counts.Writes.Load()), "commands/write")
			b.ReportMetric(each/float64(counts.Scripts.Load()), "keys/script")
			b.ReportMetric(float64(counts.Writes.Load())/each, "writes/lock")
			b.ReportMetric(float64(counts.Reads.Load())/each, "reads/lock")
			b.ReportMetric(float64(counts.Commands.Load())/each, "commands/lock")
		})
	}
}

// TestEveryBenchmarkRuns runs each once, so one that broke is found before it is needed.
func TestEveryBenchmarkRuns(t *testing.T) {
	times := flag.Lookup("test.benchtime")
	before := times.Value.String()
	require.NoError(t, times.Value.Set("1x"))
	defer func() { require.NoError(t, times.Value.Set(before)) }()
	for name, benchmark := range map[string]func(*testing.B){
		"TryLock": BenchmarkTryLock, "Kinds": BenchmarkKinds, "Batch": BenchmarkBatch,
	} {
		failed := false
		testing.Benchmark(func(b *testing.B) {
			b.Cleanup(func() { failed = failed || b.Failed() })
			benchmark(b)
		})
		assert.False(t, failed, name)
	}
}

// usualNodes is how many servers most benchmarks have.
const usualNodes = 5

// newLocker returns a Locker that is connected to every node, and every node votes, so no benchmark
// measures a dial. With the default node timeout of half a second, a machine that is busy with
// something else for that long would fail the benchmark. A longer one changes nothing else, because
// every node answers.
func newLocker(b *testing.B, urls []string, opts ...redlock.Option) *redlock.Locker {
	b.Helper()
	locker := cluster.NewLocker(b, urls, append(opts, redlock.WithNodeTimeout(10*time.Second))...)
	cluster.RequireUp(b, locker, func(node redlock.NodeStats) bool { return node.Barred == nil })
	return locker
}

// operation is what a load does. Nobody else wants its name.
type operation func(ctx context.Context, l *redlock.Locker, name string) error

// kinds are the operations that are measured. The first is the mutex.
var kinds = []struct {
	name      string
	operation operation
}{
	{"mutex", acquire((*redlock.Locker).TryLock)},
	{"fenced", acquire((*redlock.Locker).TryLock, redlock.WithFencing())},
	{"read", acquire((*redlock.Locker).TryRLock)},
	{"permit", func(ctx context.Context, l *redlock.Locker, name string) error {
		semaphore, err := l.Semaphore(name, 8)
		if err != nil {
			return err
		}
		permit, err := semaphore.TryAcquire(ctx)
		if err != nil {
			return err
		}
		return permit.Unlock(ctx)
	}},
	{"taken", func(ctx context.Context, l *redlock.Locker, _ string) error {
		_, err := l.TryLock(ctx, takenName)
		switch {
		case err == nil:
			return errors.New("a lock that is held was granted")
		case errors.Is(err, redlock.ErrTaken):
			return nil
		default:
			return err
		}
	}},
}

// acquire acquires and releases a lock.
func acquire(
	lock func(*redlock.Locker, context.Context, string, ...redlock.LockOption) (*redlock.Lock, error), opts ...redlock.LockOption,
) operation {
	return func(ctx context.Context, l *redlock.Locker, name string) error {
		held, err := lock(l, ctx, name, opts...)
		if err != nil {
			return err
		}
		return held.Unlock(ctx)
	}
}

// takenName is the lock that kind=taken asks for, and hold holds.
const takenName = "bench/taken"

// hold holds the lock for as long as the benchmark lasts.
func hold(b *testing.B, locker *redlock.Locker) {
	b.Helper()
	lock, err := locker.TryLock(b.Context(), takenName)
	require.NoError(b, err)
	b.Cleanup(func() {
		assert.NoError(b, lock.Unlock(context.WithoutCancel(b.Context())), "the lock did not last until the end")
	})
}

// names are locked one after the other. There are so many that none is asked for again while it is
// held, and they are made once, so no benchmark measures that.
var names = func() (all [1 << 16]string) {
	for i := range all {
		all[i] = fmt.Sprintf("bench/%05d", i)
	}
	return all
}()

// perform does the operation n times, by so many goroutines.
func perform(b *testing.B, locker *redlock.Locker, goroutines, n int, do operation) load.Sample {
	b.Helper()
	l := load.Load{Goroutines: goroutines, Operations: n, Timed: b, Do: func(ctx context.Context, i, _ int) error {
		return do(ctx, locker, names[i%len(names)])
	}}
	before := locker.Stats()
	s, err := l.Measure(b.Context())
	require.NoError(b, err)
	after := locker.Stats()
	require.EqualValues(b, n, after.Acquired+after.Taken-before.Acquired-before.Taken, "rounds that were won or refused")
	require.Equal(b, before.Held, after.Held, "locks held")
	return s
}

// measure performs b.N operations and reports what they took, without what testing itself does.
func measure(b *testing.B, locker *redlock.Locker, goroutines int, do operation) {
	b.Helper()
	s := perform(b, locker, goroutines, b.N, do)
	s.Report(b)
}
