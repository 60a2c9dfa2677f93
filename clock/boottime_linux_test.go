package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// machine has the clocks of a machine, and a bootClock that reads them. They stand still unless a
// test moves them.
type machine struct {
	wall, mono, boot int64
	moved            moves
	clock            *bootClock

	measured    moves  // what had moved when the wall clock of the last measurement was read
	systemCalls int    // readings of boot
	disturb     func() // called before and after each reading
}

// moves are sums of what has happened to a machine.
type moves struct{ slept, setBack time.Duration }

func newMachine() *machine {
	const noon = 1_800_000_000 * int64(time.Second)
	return &machine{wall: noon, boot: int64(time.Hour), clock: newBootClock(), disturb: func() {}}
}

func (m *machine) pass(d time.Duration) {
	m.wall += int64(d)
	m.mono += int64(d)
	m.boot += int64(d)
}

func (m *machine) suspend(d time.Duration) {
	m.wall += int64(d)
	m.boot += int64(d)
	m.moved.slept += d
}

func (m *machine) set(by time.Duration) {
	m.wall += int64(by)
	m.moved.setBack += max(-by, 0)
}

func (m *machine) now() Instant {
	now, _ := m.read()
	return now
}

// read does what systemNow does, and returns how much of a suspend the wall clock may have hidden.
func (m *machine) read() (now Instant, hidden time.Duration) {
	m.disturb()
	r, moved := wallMono{wall: m.wall}, m.moved
	r.mono = m.readMono()
	since := m.measured
	if now, ok := m.clock.at(r); ok {
		return now, min(m.moved.slept-since.slept, m.moved.setBack-since.setBack)
	}
	before := m.clock.measured.Load()
	now = m.clock.measure(r, m.readBoot, m.readMono)
	if after := m.clock.measured.Load(); after != before && after == r.mono {
		m.measured = moved
	}
	return now, 0
}

func (m *machine) readMono() int64 {
	m.disturb()
	defer m.disturb()
	return m.mono
}

func (m *machine) readBoot() int64 {
	m.disturb()
	defer m.disturb()
	m.systemCalls++
	return m.boot
}

func TestReadingsWithinAMillisecondShareOneSystemCall(t *testing.T) {
	m := newMachine()
	for range 10 {
		assert.Equal(t, Instant(m.boot), m.now())
		m.pass(bootMaxAge / 10)
	}
	assert.Equal(t, 1, m.systemCalls)
	assert.Equal(t, Instant(m.boot), m.now())
	assert.Equal(t, 2, m.systemCalls, "the measurement is too old")
}

func TestFirstReadingAfterASuspendCountsIt(t *testing.T) {
	for _, slept := range []time.Duration{bootSlack + 1, time.Second, 1000 * time.Hour} {
		m := newMachine()
		m.now()
		m.suspend(slept)
		assert.Equal(t, Instant(m.boot), m.now(), "%v", slept)
		m.suspend(slept)
		assert.Equal(t, Instant(m.boot), m.now(), "again %v", slept)
	}
}

func TestSettingTheWallClockCostsASystemCallAndNothingElse(t *testing.T) {
	m := newMachine()
	for calls, by := range []time.Duration{0, time.Second, -time.Second, -24 * time.Hour, bootSlack + 1} {
		m.set(by)
		for range 3 {
			assert.Equal(t, Instant(m.boot), m.now())
		}
		assert.Equal(t, calls+1, m.systemCalls)
	}
}

// This is the limit of the method (docs/safety.md).
func TestSuspendThatASetClockHidesIsMissedForAMillisecond(t *testing.T) {
	events := []func(*machine){
		func(m *machine) { m.suspend(time.Hour); m.set(-time.Hour) },
		func(m *machine) { m.set(-time.Hour); m.suspend(time.Hour) },
	}
	for _, hide := range events {
		m := newMachine()
		m.now()
		hide(m)
		m.pass(bootMaxAge - 1)
		assert.Equal(t, Instant(m.boot).Add(-time.Hour), m.now())
		m.pass(1)
		assert.Equal(t, Instant(m.boot), m.now())
	}

	m := newMachine()
	m.now()
	m.set(-time.Hour)
	m.now()
	m.suspend(time.Hour)
	assert.Equal(t, Instant(m.boot), m.now(), "a reading in between tells the two apart")

	m.suspend(time.Hour)
	m.set(-time.Hour + bootSlack + 1)
	assert.Equal(t, Instant(m.boot), m.now(), "the step is not the suspend")
}

func TestMeasurementDoesNotReplaceOneThatBeganLater(t *testing.T) {
	m := newMachine()
	earlier := wallMono{m.wall, m.mono}
	m.pass(bootSlack / 2)
	m.now()
	later := m.mono
	m.clock.measure(earlier, m.readBoot, m.readMono)
	assert.Equal(t, later, m.clock.measured.Load())
}

// A goroutine may stop anywhere in a reading while others go on. So in mid-reading, disturb moves
// the clocks, and reads for others.
func TestReadingsFollowTheBoottimeWhateverHappens(t *testing.T) {
	lengths := rapid.OneOf(
		rapid.Int64Range(0, int64(2*bootSlack)),
		rapid.Int64Range(0, int64(2*bootMaxAge)),
		rapid.SampledFrom([]int64{int64(time.Second), int64(time.Hour)}), // so that sums cancel
	)
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		var latest Instant
		readers := 0
		read := func() {
			readers++
			defer func() { readers-- }()
			began, floor := Instant(m.boot), latest
			now, hidden := m.read()
			if now < floor {
				t.Fatalf("went back by %v", floor.Sub(now))
			}
			if late := now.Sub(Instant(m.boot)); late > 0 {
				t.Fatalf("late by %v", late)
			}
			if early := began.Sub(now); early > 2*bootSlack+hidden {
				t.Fatalf("early by %v, of which the wall clock hides %v", early, hidden)
			}
			latest = max(latest, now)
		}
		act := func() {
			length := time.Duration(lengths.Draw(t, "length"))
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0:
				m.suspend(length)
			case 1:
				m.set(length)
			case 2:
				m.set(-length)
			case 3:
				m.pass(length)
			case 4:
				if readers < 3 {
					read()
				}
			}
		}
		m.disturb = func() {
			m.pass(100) // a reading takes time
			if rapid.IntRange(0, 9).Draw(t, "disturbed") == 0 {
				act()
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			act()
			read()
		}
	})
}
