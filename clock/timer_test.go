package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/clock/clocktest"
)

// inBubble runs a test in virtual time. passed returns how much of it has passed on the clock.
func inBubble(t *testing.T, test func(clk *clocktest.Clock, passed func() time.Duration)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		clk := clocktest.New()
		start := clk.Now()
		test(clk, func() time.Duration { return clk.Now().Sub(start) })
	})
}

func TestTimerFiresExactlyAtItsTime(t *testing.T) {
	for _, d := range []time.Duration{-1, 0, 1, time.Millisecond, clock.MaxNap, clock.MaxNap + 1, time.Hour} {
		inBubble(t, func(clk *clocktest.Clock, passed func() time.Duration) {
			fired := time.Duration(-1)
			clk.AfterFunc(d, func() { fired = passed() })
			time.Sleep(max(d, 1)) // a timer that is due at once takes a nanosecond
			synctest.Wait()
			assert.Equal(t, max(d, 1), fired, "%v", d)
		})
	}
}

func TestTimerNoticesASuspendWithinOneNap(t *testing.T) {
	inBubble(t, func(clk *clocktest.Clock, passed func() time.Duration) {
		fired := false
		clk.AfterFunc(time.Hour, func() { fired = true })
		time.Sleep(time.Minute)
		clk.Suspend(2 * time.Hour)
		assert.Equal(t, 2*time.Hour+time.Minute, passed())
		time.Sleep(clock.MaxNap)
		synctest.Wait()
		assert.True(t, fired)
	})
}

func TestStoppedTimerDoesNotFire(t *testing.T) {
	inBubble(t, func(clk *clocktest.Clock, _ func() time.Duration) {
		timer := clk.AfterFunc(10*time.Second, func() { t.Error("fired") })
		time.Sleep(9 * time.Second) // into a later nap
		assert.True(t, timer.Stop())
		assert.False(t, timer.Stop())
		over, stopped := clock.After(clk, time.Second)
		assert.True(t, stopped.Stop())
		time.Sleep(time.Minute)
		select {
		case <-over:
			t.Error("the channel was closed")
		default:
		}
	})
}

func TestResetMovesATimerBothWays(t *testing.T) {
	inBubble(t, func(clk *clocktest.Clock, passed func() time.Duration) {
		var fired []time.Duration
		timer := clk.AfterFunc(time.Hour, func() { fired = append(fired, passed()) })
		timer.Reset(time.Second)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		timer.Reset(time.Minute) // it has fired, and fires again
		time.Sleep(time.Second)
		timer.Reset(2 * time.Minute)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, []time.Duration{time.Second, 3*time.Second + 2*time.Minute}, fired)
	})
}

func TestSleepEndsWithItsTimeOrItsContext(t *testing.T) {
	inBubble(t, func(clk *clocktest.Clock, passed func() time.Duration) {
		assert.True(t, clock.Sleep(context.Background(), clk, time.Second))
		assert.Equal(t, time.Second, passed())

		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		assert.False(t, clock.Sleep(ctx, clk, time.Minute))
		assert.Equal(t, 2*time.Second, passed())
	})
}

func TestAfterClosesItsChannelWhenTheTimeHasPassed(t *testing.T) {
	inBubble(t, func(clk *clocktest.Clock, passed func() time.Duration) {
		over, timer := clock.After(clk, time.Minute)
		<-over
		<-over // it is closed, so any number of goroutines may wait for it
		assert.Equal(t, time.Minute, passed())
		assert.False(t, timer.Stop())
		for _, d := range []time.Duration{0, -time.Second} {
			over, _ = clock.After(clk, d)
			<-over
		}
		assert.Equal(t, time.Minute+2, passed(), "at once, which takes a nanosecond each")
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
	assert.True(t, before.Before(after))
}

func TestBackoffDoublesToItsLongestAndStaysInTheUpperHalf(t *testing.T) {
	b := clock.Backoff{Shortest: 10 * time.Millisecond, Longest: 65 * time.Millisecond}
	for range 100 {
		for _, want := range []time.Duration{10, 20, 40, 65, 65, 65} {
			want *= time.Millisecond
			got := b.Next()
			assert.LessOrEqual(t, got, want)
			assert.GreaterOrEqual(t, got, want/2)
		}
		b.Reset()
	}
}
