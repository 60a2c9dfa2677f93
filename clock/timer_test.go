package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/clock/clocktest"
)

func TestTimerFiresExactlyAtItsTime(t *testing.T) {
	for _, d := range []time.Duration{-1, 0, 1, time.Millisecond, clock.MaxNap, clock.MaxNap + 1, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			clk := clocktest.New()
			start := clk.Now()
			var fired clock.Instant = -1
			clk.AfterFunc(d, func() { fired = clk.Now() })
			time.Sleep(max(d, 1)) // a timer that is due at once takes a nanosecond
			synctest.Wait()
			assert.Equal(t, start.Add(max(d, 1)), fired, "%v", d)
		})
	}
}

func TestTimerNoticesASuspendWithinOneNap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		start := clk.Now()
		fired := false
		clk.AfterFunc(time.Hour, func() { fired = true })
		time.Sleep(time.Minute)
		clk.Suspend(2 * time.Hour)
		assert.Equal(t, 2*time.Hour+time.Minute, clk.Now().Sub(start))
		time.Sleep(clock.MaxNap)
		synctest.Wait()
		assert.True(t, fired)
	})
}

func TestStoppedTimerDoesNotFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		fired := 0
		timer := clk.AfterFunc(10*time.Second, func() { fired++ })
		time.Sleep(9 * time.Second) // into a later nap
		assert.True(t, timer.Stop())
		assert.False(t, timer.Stop())
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Zero(t, fired)
	})
}

func TestResetMovesATimerBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		start := clk.Now()
		var fired []time.Duration
		timer := clk.AfterFunc(time.Hour, func() { fired = append(fired, clk.Now().Sub(start)) })
		timer.Reset(time.Second)
		time.Sleep(2 * time.Second)
		timer.Reset(time.Minute) // it has fired, and fires again
		time.Sleep(time.Second)
		timer.Reset(2 * time.Minute)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, []time.Duration{time.Second, 3*time.Second + 2*time.Minute}, fired)
	})
}

func TestSystemClockAdvancesWithTime(t *testing.T) {
	clk := clock.System()
	before := clk.Now()
	wall := clk.Wall()
	fired := make(chan clock.Instant, 1)
	clk.AfterFunc(5*time.Millisecond, func() { fired <- clk.Now() })
	after := <-fired
	assert.GreaterOrEqual(t, after.Sub(before), 5*time.Millisecond)
	assert.WithinDuration(t, time.Now(), wall, time.Minute)
	assert.Equal(t, after.Sub(before) > 0, before.Before(after))
}
