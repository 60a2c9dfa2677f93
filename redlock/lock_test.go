package redlock_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

func TestSuspendedHolderSaysLostAtTheFirstLook(t *testing.T) {
	looks := map[string]func(lock *redlock.Lock) error{
		"Err": func(lock *redlock.Lock) error { return lock.Err() },
		"Remaining": func(lock *redlock.Lock) error {
			assert.LessOrEqual(t, lock.Remaining(), time.Duration(0))
			return lock.Err()
		},
		"Done":    func(lock *redlock.Lock) error { <-lock.Done(); return lock.Err() },
		"Context": func(lock *redlock.Lock) error { return context.Cause(lock.Context(ctx)) },
		"Extend":  func(lock *redlock.Lock) error { return lock.Extend(ctx, 10*time.Second) },
		"Verify":  func(lock *redlock.Lock) error { return lock.Verify(ctx) },
		"Unlock":  func(lock *redlock.Lock) error { return lock.Unlock(ctx) },
	}
	for name, look := range looks {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				c.instantly()
				lock, err := c.locker().TryLock(ctx, "a", redlock.WithTTL(10*time.Second))
				require.NoError(t, err)
				c.clock.Suspend(10 * time.Second)
				took := elapsed(func() { assert.ErrorIs(t, look(lock), redlock.ErrLost) })
				assert.Zero(t, took)
				assert.LessOrEqual(t, lock.Remaining(), time.Duration(0))
			})
		})
	}
}

// The clock moves and no timer runs, so this is what a look at the clock says.
func TestTheValidityEndsAtItsInstant(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock, err := c.locker().TryLock(ctx, "a", redlock.WithTTL(10*time.Second))
		require.NoError(t, err)
		c.clock.Suspend(lock.Remaining() - 1)
		require.NoError(t, lock.Err())
		assert.Equal(t, time.Nanosecond, lock.Remaining())
		c.clock.Suspend(1)
		require.ErrorIs(t, lock.Err(), redlock.ErrLost)
		assert.Zero(t, lock.Remaining())
	})
}

func TestDoneClosesWithinASecondAfterASuspension(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock, err := c.locker().TryLock(ctx, "a", redlock.WithTTL(10*time.Second))
		require.NoError(t, err)
		done := lock.Done()
		work := lock.Context(ctx)
		c.clock.Suspend(time.Hour)
		took := elapsed(func() { <-done; <-work.Done() })
		assert.LessOrEqual(t, took, time.Second)
		assert.ErrorIs(t, context.Cause(work), redlock.ErrLost)
	})
}

func TestAReleasedLockSaysSo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock, err := c.locker().TryLock(ctx, "a")
		require.NoError(t, err)
		assert.Equal(t, "a", lock.Name())
		require.NoError(t, lock.Err())
		done, work := lock.Done(), lock.Context(ctx)
		require.NoError(t, work.Err())
		require.NoError(t, lock.Unlock(ctx))
		<-done
		<-work.Done()
		require.ErrorIs(t, context.Cause(work), redlock.ErrReleased)
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		require.ErrorIs(t, lock.Extend(ctx, time.Second), redlock.ErrReleased)
		require.ErrorIs(t, lock.Verify(ctx), redlock.ErrReleased)
		require.ErrorIs(t, context.Cause(lock.Context(ctx)), redlock.ErrReleased)
		assert.LessOrEqual(t, lock.Remaining(), time.Duration(0))
		require.NoError(t, lock.Unlock(ctx), "a second call returns the same, and sends nothing")
		settle()
		assert.Zero(t, c.keys())
		for _, server := range c.servers {
			releases := 0
			for _, command := range server.Commands() {
				if command.Args[0] == "EVALSHA" && !ofHandshake(command.Args) {
					releases++
				}
			}
			assert.Equal(t, 1, releases)
		}
	})
}

func TestConcurrentUseOfOneLock(t *testing.T) {
	for seed := range uint64(200) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			random := rand.New(rand.NewPCG(seed, 0))
			for _, server := range c.servers {
				random := rand.New(rand.NewPCG(seed, random.Uint64()))
				var mu sync.Mutex
				delay := func() time.Duration {
					mu.Lock()
					defer mu.Unlock()
					return time.Duration(random.IntN(3000)) * time.Microsecond
				}
				server.Delay(delay, delay)
				if random.IntN(4) == 0 {
					server.CutAfterWrite(5 + random.IntN(10))
				}
			}
			l := c.locker(redlock.WithTTL(100 * time.Millisecond))
			if seed%2 == 0 {
				l = c.renewing(redlock.WithTTL(100*time.Millisecond), redlock.WithMaxHold(300*time.Millisecond))
			}
			time.Sleep(10 * time.Millisecond)
			lock, err := l.TryLock(ctx, "a")
			if err != nil {
				return
			}
			var all sync.WaitGroup
			for i := range 6 {
				pause := time.Duration(random.IntN(110_000)) * time.Microsecond
				all.Go(func() {
					time.Sleep(pause / time.Duration(1+i%2))
					switch i % 3 {
					case 0:
						endsOnly(lock.Extend(ctx, 50*time.Millisecond+pause))
					case 1:
						endsOnly(lock.Verify(ctx))
					case 2:
						time.Sleep(20 * time.Millisecond)
						endsOnly(lock.Unlock(ctx))
					}
				})
			}
			<-lock.Context(ctx).Done()
			all.Wait()
			require.Error(t, lock.Err())
			time.Sleep(30 * time.Millisecond)
			synctest.Wait()
			assert.Zero(t, c.keys(), "seed %d", seed)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestATTLIsCheckedInTheWholeMillisecondsThatNodesCount(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithDrift(0, 10500*time.Microsecond))
		_, err := l.TryLock(ctx, "a", redlock.WithTTL(10900*time.Microsecond))
		require.ErrorIs(t, err, redlock.ErrInvalid)
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		require.ErrorIs(t, lock.Extend(ctx, 10900*time.Microsecond), redlock.ErrInvalid)
		require.NoError(t, lock.Err())
	})
}
