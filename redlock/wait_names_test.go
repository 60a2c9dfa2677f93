package redlock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock"
)

// A name may contain any bytes, and any number of nodes can form a quorum: the lock is handed over
// and fenced all the same, and the keys beside it expire.
func TestALockOfAnyNameOnAnyNumberOfNodesIsHandedOver(t *testing.T) {
	names := []string{"a", "redis:|\x00\r\n\xff\xfe", strings.Repeat("\xff", 4096)}
	for _, nodes := range []int{1, 2, 4, 64} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			inBubble(t, nodes, func(t *testing.T, c *cluster) {
				c.slow(time.Millisecond)
				opts := []redlock.Option{redlock.WithFencing(), redlock.WithKeyPrefix("p|:\x00")}
				holder, waiter := c.locker(opts...), c.locker(opts...)
				for _, name := range names {
					lock, err := holder.Lock(ctx, name)
					require.NoError(t, err)
					for range 4 {
						got := acquiring(t, waiter, name)
						time.Sleep(20 * time.Millisecond)
						require.NoError(t, lock.Unlock(ctx))
						next := <-got
						require.NotNil(t, next)
						assert.Greater(t, next.Fence(), lock.Fence(), "%.20q", name)
						lock, holder, waiter = next, waiter, holder
					}
					require.NoError(t, lock.Unlock(ctx))
				}
				assert.Zero(t, holder.Stats().Polls+waiter.Stats().Polls)
				assert.Equal(t, uint64(12), holder.Stats().Woken+waiter.Stats().Woken)
				time.Sleep(time.Second)
				for _, server := range c.servers {
					for _, key := range server.Keys() {
						if key == pipeline.MemoryKey {
							continue
						}
						_, left, _ := server.Get(key)
						assert.Positive(t, left, "%.20q", key)
						assert.Contains(t, key, "redquorum:fence:")
					}
				}
			})
		})
	}
}

func TestKeysOfTheLibraryItselfCannotBeLocked(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		for _, test := range []struct {
			prefix, name string
			refused      bool
		}{
			{"", "redquorum:fence:a", true},
			{"", "redquorum:", true},
			{"red", "quorum:wait:a", true},
			{"redquorum:", "a", true},
			{"redquorum:x", "a", true},
			{"", "redquorum", false},
			{"a", "redquorum:fence:a", false},
			{"redq", "redquorum:fence:a", false},
		} {
			lock, err := c.locker(redlock.WithKeyPrefix(test.prefix)).TryLock(ctx, test.name)
			if test.refused {
				require.ErrorIs(t, err, redlock.ErrInvalid, "%q %q", test.prefix, test.name)
				continue
			}
			require.NoError(t, err, "%q %q", test.prefix, test.name)
			require.NoError(t, lock.Unlock(ctx))
		}
	})
}

// A message that begins with "?" tells a waiter to ask again. A value may begin with "?", too.
func TestAWaiterIsWokenWhateverItsValueBeginsWith(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.locker(), c.locker(redlock.WithRetry(5*time.Second, 10*time.Second))
		lock, err := a.Lock(ctx, "a")
		require.NoError(t, err)
		got := acquiring(t, b, "a", redlock.WithValue("?x"))
		time.Sleep(100 * time.Millisecond)
		began := c.clock.Now()
		require.NoError(t, lock.Unlock(ctx))
		next := <-got
		assert.Less(t, c.clock.Now().Sub(began), time.Second)
		require.NoError(t, next.Unlock(ctx))
	})
}
