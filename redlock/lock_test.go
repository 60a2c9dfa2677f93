package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/virtual"
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
		runBubble(t, name, 3, func(t *testing.T, c *cluster) {
			c.Instantly()
			lock := c.Lock(c.Locker(), "a", redlock.WithTTL(10*time.Second))
			c.Clock.Suspend(10 * time.Second)
			took := virtual.Elapsed(func() { assert.ErrorIs(t, look(lock), redlock.ErrLost) })
			assert.Zero(t, took)
			assert.LessOrEqual(t, lock.Remaining(), time.Duration(0))
		})
	}
}

// The clock moves and no timer runs, so this is what a look at the clock says.
func TestTheValidityEndsAtItsInstant(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.Lock(c.Locker(), "a", redlock.WithTTL(10*time.Second))
		c.Clock.Suspend(lock.Remaining() - 1)
		require.NoError(t, lock.Err())
		assert.Equal(t, time.Nanosecond, lock.Remaining())
		c.Clock.Suspend(1)
		require.ErrorIs(t, lock.Err(), redlock.ErrLost)
		assert.Zero(t, lock.Remaining())
	})
}

func TestConcurrentUseOfOneLock(t *testing.T) {
	for i := range 200 {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			delay := func() time.Duration { return rand.N(3 * time.Millisecond) }
			c.Each(func(n *fakeredis.Node) {
				n.Delay(delay, delay)
				if rand.N(4) == 0 {
					n.CutAfterWrite(5 + rand.N(10))
				}
			})
			l := c.Locker(redlock.WithTTL(100 * time.Millisecond))
			if i%2 == 0 {
				l = c.Renewing(redlock.WithTTL(100*time.Millisecond), redlock.WithMaxHold(300*time.Millisecond))
			}
			time.Sleep(10 * time.Millisecond)
			lock, err := l.TryLock(ctx, "a")
			if err != nil {
				return
			}
			var all sync.WaitGroup
			for _, use := range []func(){
				func() { virtual.EndsOnly(lock.Extend(ctx, 50*time.Millisecond+rand.N(110*time.Millisecond))) },
				func() { virtual.EndsOnly(lock.Verify(ctx)) },
				func() {
					time.Sleep(20 * time.Millisecond)
					virtual.EndsOnly(lock.Unlock(ctx))
				},
			} {
				for _, most := range []time.Duration{110 * time.Millisecond, 55 * time.Millisecond} {
					all.Go(func() {
						time.Sleep(rand.N(most))
						use()
					})
				}
			}
			<-lock.Context(ctx).Done()
			all.Wait()
			require.Error(t, lock.Err())
			c.LeavesNothing(30 * time.Millisecond)
		})
	}
}

func TestATTLIsCheckedInTheWholeMillisecondsThatNodesCount(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithDrift(0, 10500*time.Microsecond))
		_, err := l.TryLock(ctx, "a", redlock.WithTTL(10900*time.Microsecond))
		require.ErrorIs(t, err, redlock.ErrInvalid)
		lock := c.Lock(l, "a")
		require.ErrorIs(t, lock.Extend(ctx, 10900*time.Microsecond), redlock.ErrInvalid)
		require.NoError(t, lock.Err())
	})
}

type keyOfTest struct{}

// ways derive a context that ends together with its parent.
var ways = map[string]func(parent context.Context) context.Context{
	"itself": func(parent context.Context) context.Context { return parent },
	"value":  func(parent context.Context) context.Context { return context.WithValue(parent, keyOfTest{}, "v") },
	"types":  func(parent context.Context) context.Context { return uncomparable{Context: parent} },
}

// uncomparable is a context that cannot be a map key.
type uncomparable struct {
	context.Context //nolint:containedctx // it is a context itself

	_ []int
}

func TestContextsThatAreNoLongerUsedCostNothing(t *testing.T) {
	const n = 50_000
	type way func(main context.Context) (parent context.Context, end func())
	parents := map[string]way{
		"cancelled parents": func(main context.Context) (context.Context, func()) {
			parent, cancel := context.WithCancel(main)
			cancel()
			return parent, cancel
		},
		"parents that end": func(main context.Context) (context.Context, func()) {
			parent, cancel := context.WithCancel(main)
			return parent, func() { cancel(); synctest.Wait() }
		},
		"parent without an end": func(context.Context) (context.Context, func()) {
			return context.WithValue(ctx, keyOfTest{}, 1), func() {}
		},
	}
	for name, derive := range ways {
		parents[name] = func(main context.Context) (context.Context, func()) { return derive(main), func() {} }
	}
	for name, from := range parents {
		runBubble(t, name, 1, func(t *testing.T, c *cluster) {
			lock := c.Lock(c.Locker(), "a")
			main, stop := context.WithCancel(ctx)
			defer stop()
			before := heap()
			for range n {
				parent, end := from(main)
				work, cancel := context.WithCancel(lock.Context(parent))
				_ = work.Done()
				cancel()
				end()
			}
			virtual.Settle()
			assert.Less(t, (heap()-before)/n, int64(20), "bytes for each unused context")
			require.NoError(t, lock.Err())
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestContextsThatShareAParentBehaveLikeAnyContext(t *testing.T) {
	why := errors.New("why")
	ends := map[string]struct {
		end        func(cancel context.CancelCauseFunc, lock *redlock.Lock)
		err, cause error
	}{
		"parent": {func(cancel context.CancelCauseFunc, _ *redlock.Lock) { cancel(why) }, context.Canceled, why},
		"deadline": {
			func(context.CancelCauseFunc, *redlock.Lock) { time.Sleep(time.Second) },
			context.DeadlineExceeded, context.DeadlineExceeded,
		},
		"released": {
			func(_ context.CancelCauseFunc, lock *redlock.Lock) { virtual.EndsOnly(lock.Unlock(ctx)) },
			context.Canceled, redlock.ErrReleased,
		},
	}
	for end, e := range ends {
		for name, way := range ways {
			runBubble(t, fmt.Sprint(end, " ", name), 1, func(t *testing.T, c *cluster) {
				lock := c.Lock(c.Locker(), "a")
				limited, stop := context.WithTimeout(ctx, time.Second)
				defer stop()
				main, cancel := context.WithCancelCause(limited)
				defer cancel(nil)
				first := lock.Context(context.WithValue(main, keyOfTest{}, "of the first"))
				work := lock.Context(way(main))
				if name == "value" {
					assert.Equal(t, "v", work.Value(keyOfTest{}))
				} else {
					assert.Nil(t, work.Value(keyOfTest{}))
				}
				deadline, _ := work.Deadline()
				expected, _ := limited.Deadline()
				assert.Equal(t, expected, deadline)
				child, cancelChild := context.WithCancel(work)
				defer cancelChild()
				called := make(chan struct{})
				context.AfterFunc(work, func() { close(called) })
				for _, ctx := range []context.Context{first, work, child} {
					require.NoError(t, ctx.Err())
					require.NoError(t, context.Cause(ctx))
				}
				e.end(cancel, lock)
				<-called
				for _, ctx := range []context.Context{first, work, child, lock.Context(way(main))} {
					<-ctx.Done()
					require.ErrorIs(t, ctx.Err(), e.err)
					require.ErrorIs(t, context.Cause(ctx), e.cause)
				}
			})
		}
	}
}

func TestContextsOfDifferentParentsEndSeparately(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		lock := c.Lock(c.Locker(), "a")
		one, stop := context.WithCancel(ctx)
		a, b, d := lock.Context(one), lock.Context(ctx), lock.Context(context.WithoutCancel(one))
		stop()
		<-a.Done()
		virtual.Settle()
		require.NoError(t, b.Err())
		require.NoError(t, d.Err())
		c.Unlock(lock)
		<-b.Done()
		<-d.Done()
		require.ErrorIs(t, context.Cause(d), redlock.ErrReleased)
	})
}

func TestDoReturnsEveryError(t *testing.T) {
	failure := errors.New("out of stock")
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		ctx := c.Within(time.Minute) // if one keeps the lock, the next need not wait for ever
		l := c.Renewing(redlock.WithTTL(time.Second))
		require.NoError(t, l.Do(ctx, "a", func(ctx context.Context, lock *redlock.Lock) error {
			assert.Equal(t, "a", lock.Name())
			time.Sleep(10 * time.Second)
			return ctx.Err()
		}))
		err := l.Do(ctx, "a", func(context.Context, *redlock.Lock) error { return failure })
		require.ErrorIs(t, err, failure)
		assert.NotErrorIs(t, err, redlock.ErrLost)

		err = l.Do(ctx, "a", func(ctx context.Context, _ *redlock.Lock) error {
			c.Del("a")
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
			return failure
		})
		require.ErrorIs(t, err, failure)
		require.ErrorIs(t, err, redlock.ErrLost)

		assert.PanicsWithValue(t, "boom", func() {
			virtual.EndsOnly(l.Do(ctx, "a", func(context.Context, *redlock.Lock) error { panic("boom") }))
		})
		c.LeavesNothing(0) // a panic releases the lock

		err = l.Do(ctx, "a", func(context.Context, *redlock.Lock) error {
			c.Each(virtual.Stop, 0, 1)
			return failure
		})
		require.ErrorIs(t, err, failure)
		require.ErrorIs(t, err, redlock.ErrNoQuorum, "the release could not be confirmed")
		c.Each(virtual.Resume, 0, 1)

		require.NoError(t, l.Do(ctx, "a", func(_ context.Context, lock *redlock.Lock) error { return lock.Unlock(ctx) }))
		cancelled, cancel := context.WithCancel(ctx)
		require.NoError(t, l.Do(cancelled, "a", func(ctx context.Context, _ *redlock.Lock) error {
			cancel()
			<-ctx.Done()
			return nil
		}), "the lock is released although its context was cancelled")
	})
}

func TestDoTellsThatTheLockerWasClosedAlsoAfterALoss(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithTTL(time.Second))
		var closed <-chan error
		err := l.Do(ctx, "a", func(context.Context, *redlock.Lock) error {
			time.Sleep(2 * time.Second)
			closed = c.Ending(l.Close)
			time.Sleep(100 * time.Millisecond)
			return nil
		})
		require.ErrorIs(t, err, redlock.ErrLost)
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.NoError(t, <-closed)
	})
}

func TestCloseLeavesTheLockOfDoToItsFunction(t *testing.T) {
	for name, test := range map[string]struct {
		takes time.Duration
		err   error
	}{"returns in time": {900 * time.Millisecond, nil}, "does not": {5 * time.Second, redlock.ErrUndelivered}} {
		runBubble(t, name, 3, func(t *testing.T, c *cluster) {
			l, other := c.Connecting(), c.Locker()
			returned := make(chan struct{})
			did := c.Ending(func() error {
				return l.Do(ctx, "a", func(ctx context.Context, _ *redlock.Lock) error {
					<-ctx.Done()
					time.Sleep(test.takes)
					close(returned)
					return nil
				})
			})
			time.Sleep(time.Second)
			closed := c.Ending(l.Close)
			lock, err := other.Lock(ctx, "a")
			require.NoError(t, err)
			select {
			case <-returned:
			default:
				t.Error("the next holder is in before the function has returned")
			}
			synctest.Wait()
			require.ErrorIs(t, <-did, redlock.ErrClosed)
			require.ErrorIs(t, <-closed, test.err)
			c.Unlock(lock)
		})
	}
}
