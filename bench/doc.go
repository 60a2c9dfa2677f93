// Package bench measures this library with `go test -bench . ./bench`, on five local redis-servers,
// or as many as the name of the benchmark says.
//
// Metrics besides those of package testing:
//
//	locks/s       operations of all goroutines together, per second of wall time
//	cpu-µs/lock   CPU time of this process per operation, user and system
//	p50-µs p99-µs duration of an operation; only for one goroutine, because with many it would
//	              measure their queue
//
// An operation is a lock and its unlock; in BenchmarkTaken it is an attempt that is refused.
//
// BenchmarkContendedKinds is about locks that others want as well. It starts processes: this test
// binary again.
//
// Compare figures of two runs only if they come from the same machine, with nothing else to do. The
// module in bench/versus has ratios to other libraries, locks that are held, crowds that wait, and
// holders that are killed.
package bench
