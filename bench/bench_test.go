package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/load"
	"github.com/redquorum/redquorum/redlock"
)

// row is one row of the report.
type row struct {
	benchmark string // its name
	title     string // its name within the benchmark
	nodes     int

	// measure returns the metrics by their units.
	measure func(tb testing.TB, c *cluster, s *size) map[string]float64
}

// size is how much is measured.
type size struct {
	operations int // of a load: b.N

	turns, each int // of what is compared: so many turns of so many operations by each goroutine

	scenario contention.Scenario // of contenders, without what they contend for
}

// full is the size of the benchmarks, besides the number of operations.
var full = size{
	turns: 7, each: 2000,
	scenario: contention.Scenario{
		Processes: 8, Goroutines: 8, TTL: 10 * time.Second, WarmUp: 500 * time.Millisecond, Window: 2 * time.Second,
	},
}

// rows are all that is measured.
var rows = slices.Concat(
	loads("TryLock", []int{1, 3, 5, 9}, []int{1, 64, 256}, rate(lockUnlock)),
	loads("Taken", []int{nodes}, []int{1, 256}, rateTaken),
	loads("Fencing", []int{nodes}, []int{1, 256}, compareFencing),
	loads("Kinds", []int{nodes}, []int{1, 256}, compareKinds),
	[]row{
		{"Batch", "goroutines=1", nodes, batches(1)},
		{"Batch", "goroutines=16", nodes, batches(16)},
		{"Batch", "goroutines=64", nodes, batches(64)},
		{"Batch", "goroutines=256", nodes, batches(256)},
		{"Batch", "goroutines=1024", nodes, batches(1024)},
		{"ContendedKinds", "nodes=5/kind=mutex", nodes, contend(contention.Scenario{Mutex: "redquorum"})},
		{"ContendedKinds", "nodes=5/kind=permits=8", nodes, contend(contention.Scenario{Mutex: "permits", Permits: permits})},
		{"ContendedKinds", "nodes=5/kind=reads=0.9", nodes, contend(contention.Scenario{Mutex: "redquorum", Reads: 0.9})},
		{"ContendedKinds", "nodes=5/kind=reads=1", nodes, contend(contention.Scenario{Mutex: "redquorum", Reads: 1})},
	},
)

// nodes is how many servers most rows have.
const nodes = 5

// loads are rows of so many goroutines on so many nodes.
func loads(benchmark string, nodes, goroutines []int, measure func(goroutines int) measurement) (all []row) {
	for _, n := range nodes {
		for _, g := range goroutines {
			all = append(all, row{benchmark, fmt.Sprintf("nodes=%d/goroutines=%d", n, g), n, measure(g)})
		}
	}
	return all
}

type measurement = func(tb testing.TB, c *cluster, s *size) map[string]float64

// run runs the rows of a benchmark.
func run(b *testing.B, benchmark string) {
	b.Helper()
	clusters := map[int]*cluster{}
	for _, r := range rows {
		if r.benchmark != benchmark {
			continue
		}
		if clusters[r.nodes] == nil {
			clusters[r.nodes] = newCluster(b, r.nodes)
		}
		b.Run(r.title, func(b *testing.B) {
			s := full
			s.operations = b.N
			metrics := r.measure(b, clusters[r.nodes], &s)
			b.ReportMetric(0, "ns/op") // hides it, unless it is one of the metrics
			for unit, value := range metrics {
				b.ReportMetric(value, unit)
			}
		})
	}
}

// BenchmarkTryLock acquires and releases locks that nobody else wants.
func BenchmarkTryLock(b *testing.B) { run(b, "TryLock") }

// BenchmarkTaken is refused a lock that is held. The releases that follow each refusal in the
// background are part of its cost.
func BenchmarkTaken(b *testing.B) { run(b, "Taken") }

// BenchmarkFencing compares locks with a fencing token to locks without, in turns:
//
//	fenced/plain     time of a lock and its unlock with a token, divided by that without: the
//	                 median of the turns
//	second-rounds-%  of the locks with a token, how many took a second round to get it
func BenchmarkFencing(b *testing.B) { run(b, "Fencing") }

// BenchmarkHistory shows what the history of names adds to a lock and its unlock ([load.Costs]):
// where each lock has a name of its own, so that most notes are dropped, and those that are sent.
func BenchmarkHistory(b *testing.B) {
	load.Costs(b, load.Variant{Name: "history", Options: []redlock.Option{redlock.WithHistory()}})
}

// BenchmarkKinds compares the kinds of locks that nobody else wants to the mutex, in turns:
//
//	permit/mutex  time of a permit and its release, divided by that of a lock and its unlock: the
//	              median of the turns; likewise for the other kinds
func BenchmarkKinds(b *testing.B) { run(b, "Kinds") }

// BenchmarkBatch shows how full writes, reads and scripts are: commands per write, keys per script,
// writes and reads per lock and node.
func BenchmarkBatch(b *testing.B) { run(b, "Batch") }

// BenchmarkContendedKinds lets 8 processes of 8 goroutines lock one name again and again, and hold
// what they get for 2 ms, for each kind of lock:
//
//	go test -run '^$' -bench ContendedKinds -benchtime 1x ./bench
//
// It fails if two held the name at once. Its metrics:
//
//	locks/s              acquisitions
//	goroutine-changes/s  acquisitions by a different goroutine than the previous one, in any process
//	wait-mean-ms -p50- -p99- -max-
//	                     from asking to having; a wait that the end cut off counts with its
//	                     length so far
//	read-wait-mean-ms    likewise, for readers
//	unfinished           such waits
//	gap-p50-ms -p99-     from when a holder begins to release the name until the next one has it
//	commands/lock        commands sent by all clients to all servers, per acquisition
//	min-process-share    acquisitions of the process that had the fewest, divided by an equal share
//	unlock-errors, lost  unlocks that failed and locks that were lost, of all processes
//	keys-left            on the servers after all processes have ended
//
// The log has what the Lockers of all processes counted (Stats) within the window; -v shows it.
func BenchmarkContendedKinds(b *testing.B) { run(b, "ContendedKinds") }
