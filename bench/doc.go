// Package bench measures this library with `go test -bench . ./bench`: five local redis-servers (or as many as the
// name of the benchmark says) where there is a redis-server in PATH, miniredis over TCP otherwise. Each
// benchmark's name tells which: backend=redis or backend=miniredis.
//
// Metrics beside those of package testing:
//
//	locks/s       operations of all goroutines together, per second of wall time
//	cpu-µs/lock   CPU time of this process per operation, user and system; where the servers are processes of their own
//	p50-µs p99-µs how long an operation took; for one goroutine only, since with many it is their queue that is measured
//
// An operation is a lock and its unlock; in BenchmarkTaken it is an attempt that is refused. With miniredis the servers
// live in this process, so allocations and times include theirs.
//
// Figures of two runs compare only on one machine with nothing else to do. For ratios to other libraries see
// the module in bench/versus.
package bench
