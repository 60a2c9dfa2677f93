package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// bootSlack bounds each of the two errors of a bootClock: how far offset may be too small, and
	// how far the gap may move unnoticed. A measurement takes a microsecond; one that took longer
	// than this was preempted, and serves nobody else.
	bootSlack = 50 * time.Microsecond

	// bootMaxAge bounds how long a measurement serves, on CLOCK_MONOTONIC. One system call in a
	// millisecond costs next to nothing, and a process that is paused for a millisecond between a
	// reading and its use is nothing new.
	bootMaxAge = time.Millisecond
)

// bootClock computes CLOCK_BOOTTIME from the wall clock and CLOCK_MONOTONIC, which the runtime
// reads without a system call. The runtime does not read CLOCK_BOOTTIME, and to call the vDSO
// ourselves would take assembly that switches stacks. A timerfd can report that the wall clock
// jumped, but only to a goroutine that may run too late.
//
// The offset, boottime - monotonic, changes only when the machine wakes: before it runs any
// process, the kernel adds the length of the suspend to CLOCK_BOOTTIME and to the wall clock at
// once (__timekeeping_inject_sleeptime). Slewing changes the rate of all three clocks alike. So
// wall - boottime changes only when the wall clock is set, and the gap, wall - monotonic, changes
// then and when the machine wakes.
//
// Now and then, measure finds the offset by a system call. In between, a reading is monotonic +
// offset if the gap is still the measured one (S28, docs/safety.md):
//
//   - It is not late. Each measured offset is a lower bound, and offsets never shrink.
//   - It is not early by more than twice the slack. Its monotonic part is at least wall - gap -
//     bootSlack, and wall - gap + offset was the boottime, to bootSlack, when wall was read. So it
//     does not matter whether the process was preempted, or the machine slept, in mid-reading.
//   - It never goes back, because neither monotonic nor offset does.
//
// So the time between two readings is too short by twice the slack at most, and only if the machine
// slept in between.
//
// The second point needs a wall clock that was not set back since the measurement. If it was, by as
// long as the machine slept (to bootSlack), the gap is the same and the suspend is missed. The
// error is at most the step, and it ends when the measurement is bootMaxAge old. So both must
// happen between two readings, and within bootMaxAge of the time that the machine is awake. If the
// clock is set right after waking, to the true time, it hides the suspend only if it was ahead by
// as much before.
type bootClock struct {
	offset   atomic.Int64 // a lower bound of boottime - monotonic; never falls
	gap      atomic.Int64 // wall - monotonic just before offset was measured
	measured atomic.Int64 // when gap was read, on CLOCK_MONOTONIC

	measuring sync.Mutex // guards writes of gap and measured; only ever tried, so nobody waits
}

// wallMono is one reading of two clocks. The wall clock is read first.
type wallMono struct{ wall, mono int64 }

func (r wallMono) gap() int64 { return r.wall - r.mono }

// newBootClock returns a clock that has measured nothing yet. Readings of CLOCK_MONOTONIC must not
// be negative, or above CLOCK_BOOTTIME.
func newBootClock() *bootClock {
	c := &bootClock{}
	c.measured.Store(-int64(bootMaxAge))
	return c
}

// at returns the boottime of a reading, or false if that takes a new measurement.
//
// The loads are in the reverse order of the stores in measure. So gap and offset belong to the
// measurement whose age is checked, or to a later one, which is as good. So is one that is later
// than the reading.
func (c *bootClock) at(r wallMono) (Instant, bool) {
	age := time.Duration(r.mono - c.measured.Load())
	moved := time.Duration(r.gap() - c.gap.Load())
	if age >= bootMaxAge || moved < -bootSlack || moved > bootSlack {
		return 0, false
	}
	return Instant(r.mono + c.offset.Load()), true
}

// measure reads the boottime between the reading that at turned down and a new one of
// CLOCK_MONOTONIC, and returns the boottime of the latter.
//
// The gap comes from the earlier reading. If the machine slept after it, the next reading's gap is
// larger, so the suspend cannot be missed.
func (c *bootClock) measure(before wallMono, boottime, mono func() int64) Instant {
	alone := c.measuring.TryLock()
	if alone {
		defer c.measuring.Unlock()
	}
	boot := boottime()
	after := mono()
	offset := c.raise(boot - after) // later than boottime was read, so a lower bound
	if alone && before.mono >= c.measured.Load() && time.Duration(after-before.mono) <= bootSlack {
		c.gap.Store(before.gap())
		c.measured.Store(before.mono)
	}
	return Instant(after + offset)
}

// raise makes offset at least bound, and returns it.
func (c *bootClock) raise(bound int64) int64 {
	for {
		offset := c.offset.Load()
		if offset >= bound || c.offset.CompareAndSwap(offset, bound) {
			return max(offset, bound)
		}
	}
}
