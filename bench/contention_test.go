package bench

import (
	"os"
	"testing"
	"time"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/load"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// TestMain is also the main function of the processes that contend.
func TestMain(m *testing.M) {
	contention.Play(map[string]contention.Opener{
		"redquorum": contention.OpenRedquorum, "permits": contention.OpenPermits,
	})
	os.Exit(m.Run())
}

// contendedHold is how long a lock is held.
const contendedHold = 2 * time.Millisecond

// servers returns the masters, on which processes contend.
func (c *cluster) servers(tb testing.TB) []*redistest.Server {
	tb.Helper()
	if !contention.Supported {
		tb.Skip("processes share no clock here")
	}
	return c.Masters
}

// contend measures what several processes do for one name.
func contend(kind contention.Scenario) measurement {
	return func(tb testing.TB, c *cluster, size *size) map[string]float64 {
		s := size.scenario
		s.Servers, s.Mutex, s.Permits, s.Reads, s.Hold = c.servers(tb), kind.Mutex, kind.Permits, kind.Reads, contendedHold
		var r *contention.Result
		repeat(tb, func() { r = s.Run(tb) })
		if r.UnlockErrors > 0 {
			tb.Logf("%d unlocks failed: %s", r.UnlockErrors, r.UnlockError)
		}
		tb.Logf("counted by the Lockers: %v", r.Counters)
		metrics := map[string]float64{
			"locks/s":             r.AcquisitionsPerSecond(),
			"goroutine-changes/s": r.GoroutineChangesPerSecond(),
			"wait-mean-ms":        load.Millis(r.MeanWait()),
			"wait-p50-ms":         load.Millis(r.Wait(50)),
			"wait-p99-ms":         load.Millis(r.Wait(99)),
			"wait-max-ms":         load.Millis(r.Wait(100)),
			"unfinished":          float64(r.Unfinished),
			"gap-p50-ms":          load.Millis(r.Gap(50)),
			"gap-p99-ms":          load.Millis(r.Gap(99)),
			"min-process-share":   r.MinProcessShare,
			"unlock-errors":       float64(r.UnlockErrors),
			"keys-left":           float64(r.KeysLeft),
			"lost":                float64(r.Counters["lost"]),
		}
		if len(r.ReadWaits) > 0 {
			metrics["read-wait-mean-ms"] = load.Millis(r.MeanReadWait())
		}
		if r.Acquisitions > 0 {
			metrics["commands/lock"] = r.CommandsPerAcquisition()
		}
		return metrics
	}
}

// repeat does something as often as a benchmark is to do it; the metrics are those of the last
// time.
func repeat(tb testing.TB, do func()) {
	tb.Helper()
	n := 1
	if b, ok := tb.(*testing.B); ok {
		n = b.N
	}
	for range n {
		do()
	}
}
