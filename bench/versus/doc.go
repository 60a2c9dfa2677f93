// Package versus measures this library and its peers: in one run, on the same redis-servers, in
// turns, because absolute figures drift on any machine and ratios hold. It is a module of its own,
// so users of the library do not get the peers with it.
//
//	make versus    what docs/benchmarks.md has of BenchmarkLock and BenchmarkContention, 6 minutes
//	make recovery  of BenchmarkRecovery: locks per second and the longest waits through faults, 23
//	               minutes
//	make scale     of BenchmarkHeld and BenchmarkContention: a million locks of one process, and ten
//	               thousand waiters, 8 minutes
//
// One thing of many, twice, and compared:
//
//	go test -run '^$' -bench 'Lock/nodes=5/peer=redquorum/goroutines=256' -count 10 . -full >old.txt
//	go run golang.org/x/perf/cmd/benchstat@latest old.txt new.txt
//
// Without -full, all of it takes seconds, as in the tests.
//
// The peers, each with its best settings for locks that nobody else wants:
//
//	redquorum              one pipelined connection per server, a Locker's defaults but for a node
//	                       timeout of 4 s instead of 500 ms
//	redsync-redigo         redsync v4 over redigo: idle connections for all goroutines, no test on
//	                       borrow, no wait for one
//	redsync-goredis        redsync v4 over go-redis: as many connections as goroutines
//	redsync-goredis-tuned  the same with AutoPipeline
//	redsync-rueidis        redsync v4 over rueidis: multiplexed, no client-side cache
//	redsync-rueidis-tuned  the same with one connection per server, always pipelined, and a flush
//	                       delay of 20 µs
//	limit                  no library at all: prebuilt bytes of SET NX PX and EVALSHA, one write per
//	                       server and batch; every reply is compared. Where the others have n
//	                       goroutines, a batch is n locks. It waits for a quorum.
//
// redsync gets one attempt per lock, 4 s for it instead of 400 ms, and its own defaults for the
// rest. Its WithFailFast is left out. It is faster with one goroutine, but gives up what it does
// not wait for, so SETs are never sent and keys stay until they expire. That is less work, and
// TestEveryPeerSetsAndDeletesEachKeyOnce refuses it. A new peer is an implementation of the
// interface peer, and a line in the table peers.
//
// Other libraries lock on one server, so a lock costs the servers a fifth of the work, and survives
// the loss of none. They are compared with the peers above on one server:
//
//	redislock        bsm/redislock over go-redis: as many connections as goroutines
//	redislock-tuned  the same with AutoPipeline
//
// Its SET is in a script, as its DEL is. rueidislock is missing, because the Go module proxy does
// not serve it. It would also do other work: its clients cache each key, and the server tells them
// of every change.
//
// BenchmarkContention is about the opposite, one name that everyone wants. Every peer takes its
// turn, with so many processes of so many goroutines, each of which locks, unlocks and locks again.
// The redsyncs are those over redigo and rueidis as above, with a pause between two attempts of
// their own (50 to 250 ms), of 1 ms, and of 5 ms; they try until the end of the window. It fails if
// two held the name at once. The longest wait is one that the end may have cut off.
package versus
