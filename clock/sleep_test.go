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
