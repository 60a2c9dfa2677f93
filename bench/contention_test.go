package bench

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

const contentionNodes = 5

// The size of BenchmarkCrash.
const (
	crashKills   = 20 // one after the other
	crashWaiters = 4  // processes
	crashTTL     = time.Second
	crashSettle  = time.Second // how long a holder lives at least; up to half a TTL more
)

// TestMain is also the main function of the processes that contend.
func TestMain(m *testing.M) {
	contention.Play(map[string]contention.Opener{
		"redquorum": contention.OpenRedquorum, "permits": contention.OpenPermits, "election": contention.OpenElection,
	})
	os.Exit(m.Run())
}

// contended are the kinds of what is contended for. The first is the mutex.
var contended = []struct {
	name     string
	scenario contention.Scenario // without servers, sizes and times
}{
	{"mutex", contention.Scenario{Mutex: "redquorum"}},
	{fmt.Sprint("permits=", permits), contention.Scenario{Mutex: "permits", Permits: permits}},
	{"reads=0.9", contention.Scenario{Mutex: "redquorum", Reads: 0.9}},
	{"reads=1", contention.Scenario{Mutex: "redquorum", Reads: 1}},
	{"election", contention.Scenario{Mutex: "election"}},
}

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
//	unlock-errors        of all processes
//	keys-left            on the servers after all processes have ended
//
// The log has what the Lockers of all processes counted (Stats) within the window; -v shows it.
func BenchmarkContendedKinds(b *testing.B) {
	servers := startContention(b)
	for _, kind := range contended {
		if kind.name == "election" {
			continue
		}
		s := kind.scenario
		s.Processes, s.Goroutines, s.Hold = 8, 8, 2*time.Millisecond
		contend(b, "kind="+kind.name, servers, s)
	}
}

// BenchmarkElection lets processes lead in turn, 20 ms each:
//
//	go test -run '^$' -bench Election ./bench
//
// The metrics are those of BenchmarkContendedKinds and of BenchmarkCrash: a gap is from the
// resignation until the next one leads, and late is from the expiry of a killed leader's keys until
// then. It fails if two led at once.
func BenchmarkElection(b *testing.B) {
	servers := startContention(b)
	const candidates = 4
	contend(b, fmt.Sprintf("candidates=%d/end=resign", candidates), servers, contention.Scenario{
		Mutex: "election", Processes: candidates, Goroutines: 1, Hold: 20 * time.Millisecond,
	})
	crash(b, servers, "election")
}

// BenchmarkCrash kills the process that holds a lock (SIGKILL), again and again, while others wait
// for it:
//
//	go test -run '^$' -bench Crash ./bench
//
// Its metrics:
//
//	late-median-ms -max- -min-  from when the keys of a quorum had expired until the next holder
//	                            had the lock; the servers report the expiry to within 2 ms
//	commands/client/100ms       what a waiting process sent to all servers from the kill until
//	                            then, on average
//	commands/client/100ms-max   the most that one of them sent
func BenchmarkCrash(b *testing.B) { crash(b, startContention(b), "redquorum") }

func startContention(tb testing.TB) []*redistest.Server {
	tb.Helper()
	if !contention.Supported {
		tb.Skip("processes share no clock here")
	}
	return redistest.Start(tb, contentionNodes)
}

// contend measures a scenario.
func contend(b *testing.B, title string, servers []*redistest.Server, s contention.Scenario) {
	b.Helper()
	s.Servers, s.TTL, s.WarmUp, s.Window = servers, 10*time.Second, 500*time.Millisecond, 2*time.Second
	b.Run(fmt.Sprintf("nodes=%d/%s", contentionNodes, title), func(b *testing.B) {
		var r *contention.Result
		for range b.N {
			r = s.Run(b)
		}
		metrics := map[string]float64{
			"locks/s":             r.AcquisitionsPerSecond(),
			"goroutine-changes/s": r.GoroutineChangesPerSecond(),
			"wait-mean-ms":        contention.Millis(r.MeanWait()),
			"wait-p50-ms":         contention.Millis(r.Wait(50)),
			"wait-p99-ms":         contention.Millis(r.Wait(99)),
			"wait-max-ms":         contention.Millis(r.Wait(100)),
			"unfinished":          float64(r.Unfinished),
			"gap-p50-ms":          contention.Millis(r.Gap(50)),
			"gap-p99-ms":          contention.Millis(r.Gap(99)),
			"min-process-share":   r.MinProcessShare,
			"unlock-errors":       float64(r.UnlockErrors),
			"keys-left":           float64(r.KeysLeft),
		}
		if len(r.ReadWaits) > 0 {
			metrics["read-wait-mean-ms"] = contention.Millis(r.MeanReadWait())
		}
		if r.Acquisitions > 0 {
			metrics["commands/lock"] = r.CommandsPerAcquisition()
		}
		report(b, metrics)
		if r.UnlockErrors > 0 {
			b.Logf("%d unlocks failed: %s", r.UnlockErrors, r.UnlockError)
		}
		b.Logf("counted by the Lockers: %v", r.Counters)
	})
}

// crash kills holders of a kind of lock that [TestMain] names.
func crash(b *testing.B, servers []*redistest.Server, mutex string) {
	b.Helper()
	b.Run(fmt.Sprintf("nodes=%d/waiters=%d/ttl=%v/kills=%d", contentionNodes, crashWaiters, crashTTL, crashKills), func(b *testing.B) {
		c := contention.Crash{
			Mutex: mutex, Servers: servers, Waiters: crashWaiters, Kills: crashKills, TTL: crashTTL, Settle: crashSettle,
		}
		var r *contention.CrashResult
		for range b.N {
			r = c.Run(b)
		}
		var sum float64
		for _, commands := range r.Commands {
			sum += commands
		}
		report(b, map[string]float64{
			"late-median-ms":            contention.Millis(contention.Percentile(r.Late, 500)),
			"late-max-ms":               contention.Millis(slices.Max(r.Late)),
			"late-min-ms":               contention.Millis(slices.Min(r.Late)),
			"commands/client/100ms":     sum / float64(len(r.Commands)),
			"commands/client/100ms-max": slices.Max(r.Commands),
		})
	})
}

// report reports metrics by their units. The time of an operation is not one of them: flags say it.
func report(b *testing.B, metrics map[string]float64) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	for unit, value := range metrics {
		b.ReportMetric(value, unit)
	}
}
