// Package bench measures this library with `go test -bench . ./bench`: on five local redis-servers
// (or as many as the name of the benchmark says) if redis-server is in PATH, otherwise on miniredis
// over TCP. The name of each benchmark says which: backend=redis or backend=miniredis.
//
// Metrics besides those of package testing:
//
//	locks/s       operations of all goroutines together, per second of wall time
//	cpu-µs/lock   CPU time of this process per operation, user and system; only with servers in
//	              processes of their own
//	p50-µs p99-µs duration of an operation; only for one goroutine, because with many it would
//	              measure their queue
//
// BenchmarkFencing compares the same with and without a fencing token, in turns; once is enough
// (-benchtime 1x).
//
// An operation is a lock and its unlock; in BenchmarkTaken it is an attempt that is refused. With
// miniredis the servers live in this process, so allocations and times include theirs.
//
// Three benchmarks are about locks that others hold. Each documents its metrics at its declaration:
//
//	BenchmarkContention  goroutines of several processes lock one name, again and again
//	BenchmarkCrash       the process that holds a lock is killed while others wait for it
//	BenchmarkWaiting     many goroutines of one process wait, and leave
//
// The first two start processes (this test binary again) and need redis-server. To run all of them,
// half a minute each:
//
//	go test -run '^$' -bench 'Contention|Crash|Waiting' -v ./bench
//
// Their flags:
//
//	-contention.processes 1,2,8,16  how many processes want the name, one size after the other
//	-contention.goroutines 1,8      how many goroutines of each
//	-contention.hold 0s             how long each holds it
//	-contention.ttl 10s             time to live of the lock
//	-contention.warmup 500ms        how long they run before the window
//	-contention.window 2s           how long to measure
//	-crash.kills 20                 how many holders are killed
//	-crash.waiters 4                processes that wait
//	-crash.ttl 1s                   time to live of the lock
//	-crash.settle 1s                how long a holder lives at least; up to half a TTL more
//	-waiters 10000                  goroutines that wait
//	-waited-for 1000                names that they wait for
//	-waiters-settle 3s              how long they wait before they are measured
//
// Compare figures of two runs only if they come from the same machine, with nothing else to do. For
// ratios to other libraries see the module in bench/versus.
package bench
