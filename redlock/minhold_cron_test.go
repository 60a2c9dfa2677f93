package redlock_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// cron runs a job of a second at each full minute of a machine's clock, under a lock of a new
// Locker, as `redlock run --no-wait` does. It reports the minutes in which it ran.
func (c *cluster) cron(machine *skewed, minutes int, ran func(minute int64), opts ...redlock.Option) {
	for range minutes {
		wall := machine.Wall()
		next := wall.Truncate(time.Minute).Add(time.Minute)
		time.Sleep(next.Sub(wall))
		l, err := redlock.New(c.servers.Endpoints(), append([]redlock.Option{
			redlock.WithClock(machine), redlock.WithPool(pool.WithDialer(c.dialer())), redlock.WithTTL(30 * time.Second),
		}, opts...)...)
		assert.NoError(c.t, err)
		assert.NoError(c.t, l.Ready(ctx))
		lock, err := l.TryLock(ctx, "job")
		if err == nil {
			ran(next.Unix() / 60)
			time.Sleep(time.Second)
			assert.NoError(c.t, lock.Unlock(ctx))
		} else if !errors.Is(err, redlock.ErrTaken) {
			assert.NoError(c.t, err)
		}
		assert.NoError(c.t, l.Close())
	}
}

// A lock keeps two jobs from running at once. A job that is over before the other machine starts it
// needs a minimum hold to run once.
func TestTwoMachinesWhoseClocksDifferRunAJobOncePerMinute(t *testing.T) {
	const minutes = 100
	for d, want := range map[time.Duration]int{0: 2, 55 * time.Second: 1} {
		for _, late := range []time.Duration{-3 * time.Second, 3 * time.Second} {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				c.slow(10 * time.Millisecond)
				var mu sync.Mutex
				runs := map[int64]int{}
				ran := func(minute int64) {
					mu.Lock()
					defer mu.Unlock()
					runs[minute]++
				}
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(90 * time.Second)))
				var machines sync.WaitGroup
				for _, machine := range []*skewed{{c.clock, 0}, {c.clock, -late}} {
					machines.Go(func() { c.cron(machine, minutes, ran, redlock.WithMinHold(d)) })
				}
				machines.Wait()
				require.Len(t, runs, minutes)
				for minute, times := range runs {
					assert.Equal(t, want, times, "minute %d with a minimum hold of %v", minute, d)
				}
			})
		}
	}
}
