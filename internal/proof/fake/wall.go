package fake

import (
	"time"

	"github.com/redquorum/redquorum/clock"
)

// wall is a node's own wall clock: it showed shown at since, and has run at rate from then on.
type wall struct {
	base  clock.Clock
	since clock.Instant
	shown int64 // Unix nanoseconds
	rate  float64
}

// newWall returns a clock that is now offset ahead of the base's wall clock, and runs at rate.
func newWall(base clock.Clock, offset time.Duration, rate float64) wall {
	return wall{base: base, since: base.Now(), shown: base.Wall().UnixNano() + int64(offset), rate: rate}
}

// micros returns the Unix time in whole microseconds, as Redis reads it.
func (w *wall) micros() int64 {
	elapsed := w.base.Now().Sub(w.since)
	if w.rate != 1 { // exact if the clock is right
		elapsed = time.Duration(float64(elapsed) * w.rate)
	}
	return (w.shown + int64(elapsed)) / int64(time.Microsecond)
}
