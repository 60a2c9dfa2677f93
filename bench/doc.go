// Package bench measures this library with `go test -bench . ./bench`, on five local redis-servers,
// or as many as the name of the benchmark says.
//
// Metrics besides those of package testing:
//
//	locks/s       operations of all goroutines together, per second of wall time
//	cpu-µs/lock   CPU time of this process per operation, user and system
//	allocs/lock   objects that an operation allocates, and bytes (B/lock)
//	p50-µs p99-µs duration of an operation; only for one goroutine, because with many it would
//	              measure their queue
//
// An operation is a lock and its unlock; of kind=taken it is an attempt that is refused, and the
// releases that follow it in the background are part of its cost.
//
// Compare figures of two runs only if they come from the same machine, with nothing else to do:
//
//	go test -run '^$' -bench Kinds -count 10 ./bench | tee kinds.txt
//	go run golang.org/x/perf/cmd/benchstat@latest -col /kind kinds.txt
//
// The module in bench/versus has ratios to other libraries, names that many want, locks that are
// held, crowds that wait, and holders that are killed.
package bench
