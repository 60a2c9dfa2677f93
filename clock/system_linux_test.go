package clock

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestSystemClockReadsBoottime(t *testing.T) {
	for range 10_000 {
		readsBoottime(t)
	}
}

func readsBoottime(t *testing.T) {
	t.Helper()
	before := Instant(readBoottime())
	now := System().Now()
	after := Instant(readBoottime())
	if now < before.Add(-2*bootSlack) || now > after {
		t.Fatalf("%d is not in [%d, %d]", now, before, after)
	}
}

func TestSystemClockNeverGoesBackForAnyGoroutine(t *testing.T) {
	var latest atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10_000 {
				floor := latest.Load()
				now := int64(System().Now())
				if now < floor {
					t.Errorf("went back by %d ns", floor-now)
					return
				}
				for !latest.CompareAndSwap(floor, max(floor, now)) {
					floor = latest.Load()
				}
			}
		})
	}
	wg.Wait()
}

// Package time is virtual in a bubble, and must not get into a reading or a measurement.
func TestSystemClockReadsRealTimeInABubble(t *testing.T) {
	readsBoottime(t)
	today := time.Now().Round(0)
	synctest.Test(t, func(t *testing.T) {
		readsBoottime(t)
		time.Sleep(time.Until(today.Add(bootMaxAge / 2)))
		readsBoottime(t)
		time.Sleep(100 * 365 * 24 * time.Hour)
		readsBoottime(t)
	})
	readsBoottime(t)
}

// Without a monotonic reading, Sub compares wall clocks, and the gap never changes.
func TestTimesWithoutAMonotonicReadingAreTold(t *testing.T) {
	now := time.Now()
	assert.True(t, hasMonotonic(now))
	assert.False(t, hasMonotonic(now.Round(0)))
	assert.False(t, hasMonotonic(time.Unix(now.Unix(), 0)))
	assert.True(t, paired)
}

// armed returns what the kernel reports about the alarms of this process.
func armed(t *testing.T) (alarms []string) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && strings.Contains(target, "timerfd") {
			text, err := os.ReadFile("/proc/self/fdinfo/" + filepath.Base(fd))
			require.NoError(t, err)
			alarms = append(alarms, string(text))
		}
	}
	return alarms
}

func TestAlarmGoesByTheClockThatCountsSleep(t *testing.T) {
	timer := WithAlarms(System()).AfterFunc(time.Hour, func() { t.Error("fired within the hour") })
	alarms := armed(t)
	require.Len(t, alarms, 1)
	assert.Contains(t, alarms[0], fmt.Sprintf("clockid: %d\n", unix.CLOCK_BOOTTIME))
	assert.Contains(t, alarms[0], "it_value: (3599, ", "for the whole time, not for one nap")
	timer.Reset(2 * time.Hour)
	alarms = armed(t)
	require.Len(t, alarms, 1)
	assert.Contains(t, alarms[0], "it_value: (7199, ")
	timer.Reset(math.MaxInt64)
	alarms = armed(t)
	require.Len(t, alarms, 1)
	assert.Regexp(t, `it_value: \(\d{10}, `, alarms[0], "never, and not over and over")
	assert.True(t, timer.Stop())
	assert.False(t, timer.Stop())
	assert.Empty(t, armed(t), "no alarm is left")
}

func TestAlarmFiresAtItsTime(t *testing.T) {
	clk := WithAlarms(System())
	for _, d := range []time.Duration{-1, 0, time.Millisecond, minAlarm, 2 * minAlarm} {
		due := clk.Now().Add(d)
		fired := make(chan Instant)
		clk.AfterFunc(d, func() { fired <- clk.Now() })
		assert.GreaterOrEqual(t, <-fired, due)
	}
}

// This is what happens when the machine wakes: the time has passed, and the kernel has not checked
// yet.
func TestAlarmWhoseTimeHasPassedFires(t *testing.T) {
	for _, due := range []Instant{-1, 0, 1, System().Now() - 1} {
		fired := make(chan struct{})
		require.NotNil(t, newAlarm(due, func() { close(fired) }))
		<-fired
	}
}

func TestOnlyTheClockOfTheSystemHasAlarms(t *testing.T) {
	other := WithTimers(systemSource{})
	assert.Same(t, other, WithAlarms(other))
	assert.Same(t, WithAlarms(System()), WithAlarms(WithAlarms(System())))
	timer := System().AfterFunc(time.Hour, func() {})
	defer timer.Stop()
	assert.Empty(t, armed(t))
}
