package bench

import (
	"fmt"
	"testing"
)

// BenchmarkTryLock acquires and releases locks that nobody else wants.
func BenchmarkTryLock(b *testing.B) { benchmark(b, "TryLock") }

// BenchmarkTaken is refused a lock that is held. The releases that follow each refusal in the
// background are part of its cost.
func BenchmarkTaken(b *testing.B) { benchmark(b, "Taken") }

// BenchmarkMinorityDown is BenchmarkTryLock while two of five servers do not answer. The outage
// begins right before it.
func BenchmarkMinorityDown(b *testing.B) { benchmark(b, "MinorityDown") }

func benchmark(b *testing.B, name string) {
	b.Helper()
	for i := range benchmarks[name] {
		s := &benchmarks[name][i]
		c := newCluster(b, s.nodes)
		b.Run(s.title(c), func(b *testing.B) {
			locker := c.locker(b, s.options()...)
			if s.prepare != nil {
				s.prepare(b, locker)
			}
			c.inflict(b, s.fault, s.faulty)
			for _, goroutines := range s.goroutines {
				b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
					measure(b, s, c, locker, goroutines)
				})
			}
		})
	}
}
