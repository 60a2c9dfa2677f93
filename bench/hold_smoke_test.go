package bench

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	masters "github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// A TTL that a busy machine can keep.
const (
	smokeTTL     = 4 * time.Second
	smokeHolding = smokeTTL / 2
)

// smokeLocks are more than a Locker may have goroutines. They are few because miniredis takes
// milliseconds to release one under the race detector, and has no more than the TTL for all.
var smokeLocks = map[string]int{"redis": 500, "miniredis": 150}

// TestHoldingIsMeasured does what BenchmarkHold does, with few locks, until all have been renewed.
func TestHoldingIsMeasured(t *testing.T) {
	backends := map[string]func(testing.TB, int) *cluster{"miniredis": newInProcess}
	if redistest.Available() {
		backends["redis"] = newCluster
	}
	for _, backend := range slices.Sorted(maps.Keys(backends)) {
		start := backends[backend]
		t.Run(backend, func(t *testing.T) {
			c, n := start(t, holdNodes), smokeLocks[backend]
			h := startHolding(t, c, n, redlock.WithTTL(smokeTTL), redlock.WithNodeTimeout(patience))
			require.GreaterOrEqual(t, c.keysLeft(t), (holdNodes/2+1)*n, "keys while the locks are held")
			for long := smokeHolding; h.renewals < uint64(n) && long < 10*smokeHolding; long += smokeHolding {
				h.hold(long)
			}
			h.end(t)

			assert.Zero(t, c.keysLeft(t), "keys after Close, %d calls without an answer", h.nodeTimeouts())
			assert.GreaterOrEqual(t, h.renewals, uint64(n), "renewals")
			// Not an exact number: goroutines of an earlier test may have ended meanwhile.
			assert.GreaterOrEqual(t, h.goroutines, holdNodes, "goroutines")
			assert.GreaterOrEqual(t, h.held, smokeHolding)
			assert.Positive(t, h.heapPerLock)
			assert.Positive(t, h.acquiring)
			assert.Positive(t, h.closing)
			if cpuKnown {
				assert.Positive(t, h.cpu)
			}
		})
	}
}

// TestLostLocksEndTheBenchmark checks that a run that lost locks does not pass for one that did
// not.
func TestLostLocksEndTheBenchmark(t *testing.T) {
	t.Parallel()
	c := newInProcess(t, 3)
	h := startHolding(t, c, 10, redlock.WithTTL(smokeTTL), redlock.WithNodeTimeout(patience))
	for _, m := range c.Masters {
		m.(masters.Embedded).SetError("LOADING as after a restart")
	}
	h.hold(smokeTTL + smokeTTL/3)
	for _, m := range c.Masters {
		m.(masters.Embedded).SetError("")
	}
	verdict := &fatal{TB: t}
	ended := make(chan struct{})
	go func() { // Fatalf ends its goroutine
		defer close(ended)
		h.end(verdict)
	}()
	<-ended
	assert.Contains(t, verdict.text, "lost")
}

// fatal records the text that a test would fail with.
type fatal struct {
	testing.TB
	text string
}

func (*fatal) Helper() {}

func (f *fatal) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
