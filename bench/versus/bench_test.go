package versus

import (
	"fmt"
	"testing"
)

// BenchmarkVersus runs every peer on the same servers, one after the other. For ratios, TestReport
// is better, because it takes turns. An operation is a lock and its unlock.
func BenchmarkVersus(b *testing.B) {
	contestants := openPeers(b, startServers(b), peers, manyGoroutines)
	for _, goroutines := range []int{1, manyGoroutines} {
		for i := range contestants {
			c := &contestants[i]
			b.Run(fmt.Sprintf("peer=%s/goroutines=%d", c.name, goroutines), func(b *testing.B) {
				b.ReportAllocs()
				b.ResetTimer()
				s, err := measure(b.Context(), c, goroutines, newQuota(b.N))
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(s.elapsed)/float64(b.N), "ns/op") // without the GC before
				b.ReportMetric(s.locksPerSecond(), "locks/s")
				if cpuKnown {
					b.ReportMetric(s.cpuPerLock(), "cpu-µs/lock")
				}
				if serverCPUKnown {
					b.ReportMetric(s.serversPerLock(), "server-cpu-µs/lock")
				}
				if goroutines == 1 {
					b.ReportMetric(s.p50(), "p50-µs")
					b.ReportMetric(s.p99(), "p99-µs")
				}
			})
		}
	}
}
