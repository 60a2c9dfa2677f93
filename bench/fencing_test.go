package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// fencedLockUnlock is lockUnlock with a fencing token.
func fencedLockUnlock(ctx context.Context, locker *redlock.Locker, name string) error {
	lock, err := locker.TryLock(ctx, name, redlock.WithFencing())
	if err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

// fencingTurns is how many turns locks with and without a token take. Ratios of two that run in
// succession are more stable than figures that are minutes apart.
const fencingTurns = 7

// BenchmarkFencing compares locks with a fencing token to locks without, in turns:
//
//	fenced/plain     time of a lock and its unlock with a token, divided by that without: the
//	                 median of the turns
//	second-rounds-%  of the locks with a token, how many took a second round to get it
func BenchmarkFencing(b *testing.B) {
	c := newCluster(b, 5)
	plain := &scenario{nodes: 5, operation: lockUnlock}
	fenced := &scenario{nodes: 5, operation: fencedLockUnlock}
	b.Run(plain.title(c), func(b *testing.B) {
		for _, goroutines := range []int{1, 256} {
			b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
				locker := c.locker(b, plain.options()...)
				operations := min(2000*goroutines, 20_000) // about a fifth of a second
				turn := func(s *scenario) time.Duration {
					took := make([]time.Duration, operations)
					began := time.Now()
					if err := perform(b.Context(), s, locker, goroutines, operations, took); err != nil {
						b.Fatal(err)
					}
					return time.Since(began)
				}
				turn(plain) // connections and scripts
				turn(fenced)
				before := locker.Stats()
				var ratios []float64
				for b.Loop() {
					ratios = ratios[:0]
					for range fencingTurns {
						without := turn(plain)
						ratios = append(ratios, float64(turn(fenced))/float64(without))
					}
				}
				after := locker.Stats()
				slices.Sort(ratios)
				b.ReportMetric(ratios[len(ratios)/2], "fenced/plain")
				acquired := float64(after.Acquired-before.Acquired) / 2
				b.ReportMetric(100*float64(after.SecondRounds-before.SecondRounds)/acquired, "second-rounds-%")
			})
		}
	})
}
