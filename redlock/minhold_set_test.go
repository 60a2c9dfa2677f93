package redlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock"
)

// A set beside busy names takes them one after the other. Each of these parts is a lock that ends
// at once when the set gives it back; the set as a whole has the minimum hold.
func TestOnlyAWholeSetHasAMinimumHold(t *testing.T) {
	const d = 2 * time.Second
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		var mu sync.Mutex
		had := map[string][]clock.Instant{}
		limited, cancel := context.WithCancel(ctx)
		var all sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			for range 3 {
				l := c.renewing()
				all.Go(func() {
					for {
						lock, err := l.Lock(limited, name)
						if err != nil {
							return
						}
						mu.Lock()
						had[name] = append(had[name], c.clock.Now())
						mu.Unlock()
						time.Sleep(20 * time.Millisecond)
						assert.NoError(t, lock.Unlock(ctx))
					}
				})
			}
		}
		time.Sleep(time.Second)
		l := c.renewing(redlock.WithTTL(time.Second), redlock.WithMinHold(d))
		lock, err := l.LockAll(ctx, []string{"a", "b"})
		require.NoError(t, err)
		since := c.clock.Now()
		require.NoError(t, lock.Unlock(ctx))
		time.Sleep(d + 500*time.Millisecond)
		mu.Lock()
		for name, times := range had {
			after := 0
			for _, at := range times {
				if at >= since {
					assert.GreaterOrEqual(t, at, since.Add(d-50*time.Millisecond), "%s: the set's round took less", name)
					after++
				}
			}
			assert.Positive(t, after, name)
		}
		mu.Unlock()

		// It gives up while it has one of the names.
		other, err := c.renewing().Lock(ctx, "b")
		require.NoError(t, err)
		short, stop := context.WithTimeout(ctx, 20*time.Second)
		defer stop()
		_, err = l.LockAll(short, []string{"a", "b"}, redlock.WithMinHold(time.Minute))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
		all.Wait()
		require.NoError(t, other.Unlock(ctx))
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, []string{""}, uniq(append(c.holders("a"), c.holders("b")...)))
	})
}
