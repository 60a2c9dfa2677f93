package load

import (
	"runtime"
	"time"
)

// Percentile returns the shortest of the sorted durations that at least so many per mille of them
// do not exceed, 0 < permille <= 1000, or 0 if there are none.
func Percentile(sorted []time.Duration, permille int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*permille+999)/1000-1]
}

// Millis returns a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Micros returns a duration in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// LiveHeap returns the bytes of the heap in use.
func LiveHeap() float64 {
	var stats runtime.MemStats
	for range 2 { // the second collection frees what the first one found in a pool
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}
