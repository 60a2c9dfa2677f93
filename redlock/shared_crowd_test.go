package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// crowd lets readers of one Locker wait for a name, and returns their locks as they get them.
func crowd(t *testing.T, l *redlock.Locker, readers int) <-chan *redlock.Lock {
	t.Helper()
	got := make(chan *redlock.Lock, readers)
	for range readers {
		go func() {
			lock, err := l.RLock(ctx, "a")
			assert.NoError(t, err)
			got <- lock
		}()
	}
	return got
}

// A process polls for its readers as for the waiters of a mutex: one of them does.
func TestOneOfTheReadersOfAProcessPollsForAll(t *testing.T) {
	const readers = 50
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		writer, err := c.renewing().TryLock(ctx, "a")
		require.NoError(t, err)
		got := crowd(t, c.renewing(), readers)
		time.Sleep(time.Second)
		began := c.clock.Now()
		time.Sleep(time.Minute)
		most, _ := c.sent(began)
		assert.Less(t, most, 120, "one waiter of a mutex asks 80 times")
		require.NoError(t, writer.Unlock(ctx))
		for range readers {
			require.NoError(t, (<-got).Unlock(ctx))
		}
	})
}

// No message tells them, or their pilot is gone: those that do not poll get the lock with the one
// that does.
func TestReadersThatDoNotPollGetTheLockWithoutMessages(t *testing.T) {
	const readers = 50
	for _, silent := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			c.slow(time.Millisecond)
			if silent {
				for _, server := range c.servers {
					server.RefuseWith("NOPERM this user has no permissions to run this command", "PUBLISH")
				}
			}
			l := c.renewing()
			writer, err := c.renewing().TryLock(ctx, "a")
			require.NoError(t, err)
			got := crowd(t, l, readers)
			time.Sleep(3 * time.Second)
			if !silent {
				for i := range c.servers {
					if n, _ := c.do(i, "ZCARD", "redquorum:wait:a").(int64); n > 0 {
						c.servers[i].Stop()
						defer c.servers[i].Continue()
					}
				}
			}
			require.NoError(t, writer.Unlock(ctx))
			began := c.clock.Now()
			for range readers {
				lock := <-got
				defer func() { require.NoError(t, lock.Unlock(ctx)) }()
			}
			t.Log(c.clock.Now().Sub(began))
			assert.Less(t, c.clock.Now().Sub(began), 2500*time.Millisecond)
		})
	}
}

// The one that polls gives up, and another takes its place.
func TestTheNextReaderPollsWhenTheOneThatPolledGivesUp(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for _, server := range c.servers {
			server.RefuseWith("NOPERM this user has no permissions to run this command", "PUBLISH")
		}
		c.slow(time.Millisecond)
		writer, err := c.renewing().TryLock(ctx, "a")
		require.NoError(t, err)
		l := c.renewing()
		ending, cancel := context.WithCancel(ctx)
		gone := make(chan error, 1)
		go func() {
			_, err := l.RLock(ending, "a")
			gone <- err
		}()
		time.Sleep(time.Second)
		got := crowd(t, l, 3)
		time.Sleep(time.Second)
		cancel()
		require.ErrorIs(t, <-gone, context.Canceled)
		time.Sleep(time.Second)
		require.NoError(t, writer.Unlock(ctx))
		began := c.clock.Now()
		for range 3 {
			lock := <-got
			defer func() { require.NoError(t, lock.Unlock(ctx)) }()
		}
		assert.Less(t, c.clock.Now().Sub(began), 1500*time.Millisecond)
	})
}

// A process that has just released a lock does not overtake the writer that its release handed the
// lock to.
func TestAReaderDoesNotOvertakeTheWriterThatItsProcessHandedTheLockTo(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		inBubble(t, nodes, func(t *testing.T, c *cluster) {
			c.slow(2 * time.Millisecond)
			a, b := c.renewing(), c.renewing()
			for range 10 {
				first, err := a.TryLock(ctx, "a")
				require.NoError(t, err)
				got := waitingFor(t, b.Lock)
				require.NoError(t, first.Unlock(ctx))
				next := make(chan *redlock.Lock)
				go func() {
					lock, err := a.RLock(ctx, "a")
					assert.NoError(t, err)
					next <- lock
				}()
				select {
				case writer := <-got:
					time.Sleep(10 * time.Millisecond)
					require.NoError(t, writer.Unlock(ctx))
					first = <-next
				case first = <-next:
					t.Error("it was faster")
					go func() { assert.NoError(t, (<-got).Unlock(ctx)) }()
				}
				require.NoError(t, first.Unlock(ctx))
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
}
