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

func TestSleepEndsWithItsTimeOrItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		began := clk.Now()
		assert.True(t, clock.Sleep(t.Context(), clk, time.Second))
		assert.Equal(t, time.Second, clk.Now().Sub(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.False(t, clock.Sleep(ctx, clk, time.Minute))
		assert.Equal(t, 2*time.Second, clk.Now().Sub(began))
	})
}

func TestAfterClosesItsChannelWhenTheTimeHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		began := clk.Now()
		over, timer := clock.After(clk, time.Minute)
		<-over
		<-over // it is closed, so any number of goroutines may wait for it
		assert.Equal(t, time.Minute, clk.Now().Sub(began))
		assert.False(t, timer.Stop())

		for _, d := range []time.Duration{0, -time.Second} {
			over, _ = clock.After(clk, d)
			<-over
		}
		assert.Equal(t, time.Minute+2, clk.Now().Sub(began), "at once, which takes a nanosecond each")
	})
}

func TestAfterLeavesTheChannelOfAStoppedTimerOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		over, timer := clock.After(clk, time.Second)
		assert.True(t, timer.Stop())
		time.Sleep(time.Hour)
		select {
		case <-over:
			t.Error("the channel was closed")
		default:
		}
	})
}
