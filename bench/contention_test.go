package bench

import (
	"flag"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

const contentionNodes = 5

var contentionFlags = contention.NewFlags(flag.CommandLine)

// TestMain is also the main function of the processes that contend.
func TestMain(m *testing.M) {
	contention.RunWorker(map[string]contention.Opener{
		"redquorum": contention.OpenRedquorum, "permits": contention.OpenPermits, "election": contention.OpenElection,
	})
	os.Exit(m.Run())
}

// BenchmarkContention lets goroutines of several processes lock one name, again and again. Flags
// set its sizes and times:
//
//	go test -run '^$' -bench Contention ./bench -contention.processes 1,8 -contention.window 5s
//
// It fails if two held the name at once. Its metrics:
//
//	locks/s              acquisitions
//	goroutine-changes/s  acquisitions by a different goroutine than the previous one, in any process
//	process-changes/s    acquisitions by a different process than the previous one
//	wait-mean-ms -p50- -p99- -max-
//	                     from asking to having; a wait that the end cut off counts with its
//	                     length so far
//	read-wait-mean-ms    likewise, for readers
//	unfinished           such waits
//	gap-p50-ms -p99-     from when a holder begins to release the name until the next one has it
//	commands/lock        commands sent by all clients to all servers, per acquisition
//	commands/goroutine-change commands/process-change
//	                     likewise, per change of holder; left out if there was none
//	min-process-share min-goroutine-share
//	                     acquisitions of the one that had the fewest, divided by an equal share
//	unlock-errors        of all processes
//	keys-left            on the servers after all processes have ended
//
// The log has what the Lockers of all processes counted (Stats) within the window; -v shows it.
func BenchmarkContention(b *testing.B) {
	servers := startContention(b)
	for _, processes := range contentionFlags.Processes {
		for _, goroutines := range contentionFlags.Goroutines {
			b.Run(fmt.Sprintf("nodes=%d/processes=%d/goroutines=%d", contentionNodes, processes, goroutines), func(b *testing.B) {
				f := contentionFlags
				s := contention.Scenario{
					Mutex: "redquorum", Servers: servers, Processes: processes, Goroutines: goroutines,
					Hold: f.Hold, TTL: f.TTL, WarmUp: f.WarmUp, Window: f.Window,
				}
				var r *contention.Result
				var err error
				for range b.N { // once by default; the last run gives the figures
					if r, err = s.Run(); err != nil {
						b.Fatal(err)
					}
				}
				reportContention(b, r)
			})
		}
	}
}

func startContention(tb testing.TB) []*redistest.Server {
	tb.Helper()
	if !contention.Supported {
		tb.Skip("processes share no clock here")
	}
	return redistest.Start(tb, contentionNodes)
}

func reportContention(b *testing.B, r *contention.Result) {
	b.Helper()
	b.ReportMetric(0, "ns/op") // the flags say it
	for _, metric := range []struct {
		unit  string
		value float64
	}{
		{"locks/s", r.AcquisitionsPerSecond()},
		{"goroutine-changes/s", r.GoroutineChangesPerSecond()},
		{"process-changes/s", r.ProcessChangesPerSecond()},
		{"wait-mean-ms", millis(r.MeanWait())},
		{"wait-p50-ms", millis(r.Wait(50))},
		{"wait-p99-ms", millis(r.Wait(99))},
		{"wait-max-ms", millis(r.Wait(100))},
		{"read-wait-mean-ms", meanOrNaN(r.ReadWaits)},
		{"unfinished", float64(r.Unfinished)},
		{"gap-p50-ms", millis(r.Gap(50))},
		{"gap-p99-ms", millis(r.Gap(99))},
		{"commands/lock", r.CommandsPerAcquisition()},
		{"commands/goroutine-change", r.CommandsPerGoroutineChange()},
		{"commands/process-change", r.CommandsPerProcessChange()},
		{"min-process-share", r.MinProcessShare},
		{"min-goroutine-share", r.MinGoroutineShare},
		{"unlock-errors", float64(r.UnlockErrors)},
		{"keys-left", float64(r.KeysLeft)},
	} {
		if !math.IsNaN(metric.value) {
			b.ReportMetric(metric.value, metric.unit)
		}
	}
	if r.UnlockErrors > 0 {
		b.Logf("%d unlocks failed: %s", r.UnlockErrors, r.UnlockError)
	}
	b.Logf("counted by the Lockers: %v", r.Counters)
}

// meanOrNaN returns the mean in milliseconds.
func meanOrNaN(all []time.Duration) float64 {
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	return millis(sum) / float64(len(all))
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// TestContentionExcludesAndReleases does what BenchmarkContention does, at a size that takes a
// moment.
func TestContentionExcludesAndReleases(t *testing.T) {
	s := contention.Scenario{
		Mutex: "redquorum", Servers: startContention(t), Processes: 2, Goroutines: 2, TTL: 10 * time.Second, Patience: patience,
		Hold:   time.Millisecond, // two holders at once are sure to be seen
		WarmUp: 100 * time.Millisecond, Window: 2 * time.Second,
	}
	r, err := s.Run()
	require.NoError(t, err)
	assert.Positive(t, r.Acquisitions)
	assert.Positive(t, r.Commands)
	assert.Positive(t, r.Counters["acquired"])
	assert.Zero(t, r.Counters["lost"])
	assert.Zero(t, r.UnlockErrors, r.UnlockError)
	assert.Zero(t, r.KeysLeft)
}
