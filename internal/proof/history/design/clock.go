package design

import (
	"time"

	"github.com/redquorum/redquorum/clock"
)

// A moment is true time, in microseconds since the history began. Nobody in it knows it.
type moment = int64

const (
	millisecond = int64(1000)
	second      = 1000 * millisecond
	million     = 1_000_000

	// epoch is what a right clock shows when a history begins, so that no clock is below zero.
	epoch = 10_000 * second
)

// maxTTL is the largest time to live, in milliseconds, and how long a node has no vote after it
// forgot (WithMaxTTL).
const maxTTL = 60_000

// drifts is the allowance of the library, by default: 1 % and 2 ms.
var drifts = func() clock.Drift {
	d, err := clock.NewDrift(0.01, 2*time.Millisecond)
	if err != nil {
		panic(err)
	}
	return d
}()

// driftOf returns the allowance for a TTL, in microseconds, rounded up.
func driftOf(ttlMillis int64) int64 {
	d := drifts.Of(time.Duration(ttlMillis) * time.Millisecond)
	return int64((d + time.Microsecond - 1) / time.Microsecond)
}

// timeoutOf returns how long a round waits for nodes, in microseconds: a twentieth of the TTL, from
// 20 to 500 ms.
func timeoutOf(ttlMillis int64) int64 {
	return min(max(ttlMillis*millisecond/20, 20*millisecond), 500*millisecond)
}

// watch is the clock of one machine.
type watch struct {
	offset int64 // from a right clock, in microseconds
	ppm    int64 // by how many millionths it is too fast
}

// fastest is the largest rate of a clock that is right: two of them drift apart by less than 1 %.
const fastest = 4900

func (c watch) at(t moment) int64 { return epoch + c.offset + t + t*c.ppm/million }

// when returns the first moment at which the clock shows at least x.
func (c watch) when(x int64) moment {
	t := (x - epoch - c.offset) * million / (million + c.ppm)
	for c.at(t) >= x {
		t--
	}
	for c.at(t) < x {
		t++
	}
	return t
}
