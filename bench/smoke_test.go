package bench

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
)

// small is a size that takes a moment.
var small = size{
	operations: 300, // more than there are goroutines in most rows
	turns:      1, each: 10,
	scenario: contention.Scenario{
		Processes: 2, Goroutines: 6, TTL: maxTTL, Patience: patience, WarmUp: 50 * time.Millisecond, Window: 200 * time.Millisecond,
	},
}

// longest is a window in which contenders lock, however busy the machine is.
const longest = 30 * time.Second

// mayBeZero are the metrics that are zero on a good day, or negative by less than clocks tell.
var mayBeZero = []string{"second-rounds-%", "unfinished", "keys-left", "gap-p50-ms", "gap-p99-ms"}

// TestEveryRowIsMeasured measures a little of each row, so one that broke is found before it is
// needed. A row fails by itself if two held a name at once, or waiters left anything behind.
func TestEveryRowIsMeasured(t *testing.T) {
	clusters := map[int]*cluster{}
	for _, r := range rows {
		if clusters[r.nodes] == nil {
			clusters[r.nodes] = newCluster(t, r.nodes)
		}
		c := clusters[r.nodes]
		t.Run(r.benchmark+"/"+r.title, func(t *testing.T) {
			s := small
			metrics := r.measure(t, c, &s)
			for share, contends := metrics["min-process-share"]; contends && share == 0 && s.scenario.Window < longest; {
				s.scenario.Window *= 4 // a process had nothing
				metrics = r.measure(t, c, &s)
				share = metrics["min-process-share"]
			}
			requireMetrics(t, &r, metrics)
		})
		for _, server := range c.Masters {
			require.NoError(t, server.Clear()) // fencing counters, for example
		}
	}
}

func requireMetrics(t *testing.T, r *row, metrics map[string]float64) {
	t.Helper()
	require.NotEmpty(t, metrics)
	for unit, value := range metrics {
		switch {
		case math.IsNaN(value) || math.IsInf(value, 0):
			t.Errorf("%v %s", value, unit)
		case unit == "unlock-errors", unit == "lost", unit == "keys-left" && strings.HasSuffix(r.title, "mutex"): // of others, some go by themselves
			assert.Zero(t, value, unit)
		case strings.HasPrefix(unit, "wait-") && strings.HasSuffix(r.title, "reads=1"): // nobody writes
		case !slices.Contains(mayBeZero, unit):
			assert.Positive(t, value, unit)
		}
	}
}
