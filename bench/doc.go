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
// Three benchmarks are about locks that others hold. Each documents its metrics at its declaration:
//
//	BenchmarkContendedKinds  goroutines of several processes lock one name, again and again
//	BenchmarkCrash           the process that holds a lock is killed while others wait for it
//	BenchmarkWaiting         many goroutines of one process wait, and leave
//
// The first two start processes: this test binary again.
//
// Compare figures of two runs only if they come from the same machine, with nothing else to do. For
// ratios to other libraries, and locks that are held, see the module in bench/versus.
package bench
