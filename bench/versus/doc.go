// Package versus measures this library beside its peers: in one run, on the same redis-servers, in turns, because
// absolute figures drift on any machine and ratios hold. It is a module of its own, so that nobody who uses the library
// gets the peers with it.
//
//	go test -run TestReport -v .          a table of medians and ratios, 25 s
//	go test -run '^$' -bench Versus .     the same work as benchmarks, for benchstat
//
// The peers, each with the settings that suit it best where nobody else wants the lock:
//
//	redquorum              one pipelined connection per server, a Locker's defaults
//	redsync-redigo         redsync v4 over redigo: idle connections for all goroutines, no test on borrow, no wait for one
//	redsync-goredis        redsync v4 over go-redis: as many connections as goroutines
//	redsync-rueidis        redsync v4 over rueidis: multiplexed, no client-side cache
//	redsync-rueidis-tuned  the same with one connection per server, always pipelined, and a flush delay of 20 µs
//	limit                  no library at all: prebuilt bytes of SET NX PX and EVALSHA, one write per server and batch;
//	                       every reply is compared. Where the others have n goroutines, a batch is n locks. It waits
//	                       for a quorum.
//
// redsync gets one attempt per lock and its own defaults for the rest. Its WithFailFast is left out: it is faster with one
// goroutine, but gives up what it does not wait for, so SETs are never sent and keys stay until they expire. That is
// less work, and TestEveryPeerSetsAndDeletesEachKeyOnce refuses it. A new peer is an implementation of the interface
// peer, and a line in the table peers.
//
// What is measured per lock, which is a lock and its unlock: throughput with 256 goroutines, latency with one, and the
// CPU time and allocations of this process for either.
package versus
