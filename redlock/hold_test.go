package redlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

func TestSetsThatOverlapExcludeEachOther(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l, other := c.renewing(redlock.WithTTL(time.Second)), c.renewing()
		ab, err := l.TryLockAll(ctx, []string{"a", "b"})
		require.NoError(t, err)
		settle() // the votes behind the quorum's
		assert.Equal(t, []string{"a", "b"}, ab.Names())
		assert.Equal(t, "a", ab.Name())
		for _, names := range [][]string{{"b", "c"}, {"c", "b"}, {"a"}, {"c", "d", "a"}} {
			_, err = other.TryLockAll(ctx, names)
			require.ErrorIs(t, err, redlock.ErrTaken)
		}
		_, err = other.TryLock(ctx, "b")
		require.ErrorIs(t, err, redlock.ErrTaken)
		settle()
		assert.Equal(t, 10, c.keys(), "a failed set leaves no key")
		time.Sleep(10 * time.Second)
		require.NoError(t, ab.Err(), "a set is renewed")
		require.NoError(t, ab.Verify(ctx))
		require.NoError(t, ab.Extend(ctx, 2*time.Second))
		settle() // the votes behind the quorum's
		c.do(0, "DEL", "b")
		c.do(1, "DEL", "b")
		c.do(2, "DEL", "b")
		require.ErrorIs(t, ab.Verify(ctx), redlock.ErrLost, "one name of the set is gone")
		require.ErrorIs(t, ab.Unlock(ctx), redlock.ErrLost)
		bc, err := other.LockAll(ctx, []string{"c", "b"})
		require.NoError(t, err)
		require.NoError(t, bc.Unlock(ctx))
		settle()
		assert.Zero(t, c.keys())
	})
}

func TestSetsAreChecked(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.locker()
		for _, names := range [][]string{nil, {""}, {"a", "b", "a"}, make([]string, 257)} {
			_, err := l.TryLockAll(ctx, names)
			require.ErrorIs(t, err, redlock.ErrInvalid)
			_, err = l.LockAll(ctx, names)
			require.ErrorIs(t, err, redlock.ErrInvalid)
		}
		var none context.Context
		for _, err := range []error{l.Do(ctx, "a", nil), l.UnlockAll(none), l.ForceUnlock(ctx, "")} {
			require.ErrorIs(t, err, redlock.ErrInvalid)
		}
		_, err := l.Adopt(ctx, "a", "")
		require.ErrorIs(t, err, redlock.ErrInvalid)
		_, err = l.Inspect(ctx, "")
		require.ErrorIs(t, err, redlock.ErrInvalid)
		assert.Zero(t, c.keys())
	})
}

func TestDoShowsEveryError(t *testing.T) {
	failure := errors.New("out of stock")
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(time.Second))
		require.NoError(t, l.Do(ctx, "a", func(ctx context.Context, lock *redlock.Lock) error {
			assert.Equal(t, "a", lock.Name())
			time.Sleep(10 * time.Second)
			return ctx.Err()
		}))
		err := l.Do(ctx, "a", func(context.Context, *redlock.Lock) error { return failure })
		require.ErrorIs(t, err, failure)
		assert.NotErrorIs(t, err, redlock.ErrLost)

		err = l.Do(ctx, "a", func(ctx context.Context, _ *redlock.Lock) error {
			for i := range c.servers {
				c.do(i, "DEL", "a")
			}
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
			return failure
		})
		require.ErrorIs(t, err, failure)
		require.ErrorIs(t, err, redlock.ErrLost)

		assert.PanicsWithValue(t, "boom", func() {
			_ = l.Do(ctx, "a", func(context.Context, *redlock.Lock) error { panic("boom") }) //nolint:errcheck // it panics
		})
		settle()
		assert.Zero(t, c.keys(), "a panic releases the lock")

		err = l.Do(ctx, "a", func(context.Context, *redlock.Lock) error {
			c.servers[0].Stop()
			c.servers[1].Stop()
			return failure
		})
		require.ErrorIs(t, err, failure)
		require.ErrorIs(t, err, redlock.ErrNoQuorum, "the release could not be confirmed")
		c.servers[0].Continue()
		c.servers[1].Continue()

		cancelled, cancel := context.WithCancel(ctx)
		require.NoError(t, l.Do(cancelled, "a", func(ctx context.Context, _ *redlock.Lock) error {
			cancel()
			<-ctx.Done()
			return nil
		}), "a cancelled context does not keep the lock from being released")
	})
}

func TestAdoptTakesALockOver(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		first, second := c.renewing(redlock.WithTTL(3*time.Second)), c.renewing(redlock.WithTTL(3*time.Second))
		old, err := first.TryLock(ctx, "a", redlock.WithOwner("a"))
		require.NoError(t, err)
		settle()
		adopted, err := second.Adopt(ctx, "a", old.Value(), redlock.WithOwner("b"))
		require.NoError(t, err)
		assert.NotEqual(t, old.Value(), adopted.Value())
		settle()
		assert.Equal(t, []string{adopted.Value()}, uniq(c.holders("a")))
		took := elapsed(func() { <-old.Done() })
		assert.LessOrEqual(t, took, time.Second, "at its next round")
		require.ErrorIs(t, old.Err(), redlock.ErrLost)
		require.ErrorIs(t, old.Unlock(ctx), redlock.ErrLost)
		time.Sleep(30 * time.Second)
		require.NoError(t, adopted.Err(), "renewed like any")
		require.NoError(t, adopted.Unlock(ctx))
		settle()
		assert.Zero(t, c.keys())
	})
}

func TestAFailedAdoptLeavesTheHolderItsLock(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(20 * time.Second))
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		settle()
		_, err = l.Adopt(ctx, "a", "wrong")
		require.ErrorIs(t, err, redlock.ErrLost)
		_, err = l.Adopt(ctx, "free", lock.Value())
		require.ErrorIs(t, err, redlock.ErrLost)

		for _, server := range c.servers[:3] {
			server.Stop()
		}
		_, err = l.Adopt(ctx, "a", lock.Value(), redlock.WithTTL(time.Second))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		for _, server := range c.servers[:3] {
			server.Continue()
		}
		settle()
		assert.Equal(t, []string{lock.Value()}, uniq(c.holders("a")), "swapped back where it was swapped, late ones too")
		for _, server := range c.servers {
			_, left, _ := server.Get("a")
			assert.Greater(t, left, 18*time.Second, "not shortened by the try")
		}
		time.Sleep(time.Minute)
		require.NoError(t, lock.Err())
	})
}

func TestOfTwoThatAdoptOneAtMostWins(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker()
		for i := range 50 {
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			var mu sync.Mutex
			var winners []*redlock.Lock
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					if adopted, err := l.Adopt(ctx, "a", lock.Value()); err == nil {
						mu.Lock()
						defer mu.Unlock()
						winners = append(winners, adopted)
					}
				})
			}
			all.Wait()
			assert.LessOrEqual(t, len(winners), 1, "try %d", i)
			for _, winner := range winners {
				require.NoError(t, winner.Unlock(ctx))
			}
			endsOnly(lock.Unlock(ctx))
			settle()
			require.Zero(t, c.keys())
		}
	})
}

func TestInspectAndForceUnlock(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithKeyPrefix("p:"))
		status, err := l.Inspect(ctx, "a")
		require.NoError(t, err)
		assert.True(t, status.Free)
		lock, err := l.TryLock(ctx, "a", redlock.WithOwner("worker 7"))
		require.NoError(t, err)
		settle()
		c.servers[0].Stop()
		c.do(1, "SET", "p:a", "someone|else")
		status, err = l.Inspect(ctx, "a")
		require.NoError(t, err)
		assert.Equal(t, lock.Value(), status.Value)
		assert.Equal(t, "worker 7", status.Owner)
		assert.False(t, status.Free)
		assert.Equal(t, 3, status.Quorum)
		require.Len(t, status.Nodes, 5)
		require.Error(t, status.Nodes[0].Err)
		assert.Equal(t, "else", status.Nodes[1].Owner)
		assert.Negative(t, status.Nodes[1].TTL)
		assert.Equal(t, "redis://node2:6379", status.Nodes[2].Endpoint)
		assert.InDelta(t, 10, status.Nodes[2].TTL.Seconds(), 0.1)
		c.servers[0].Continue()

		require.NoError(t, l.ForceUnlock(ctx, "a"))
		settle()
		assert.Zero(t, c.keys())
		took := elapsed(func() { <-lock.Done() })
		assert.LessOrEqual(t, took, 4*time.Second)
		require.ErrorIs(t, lock.Err(), redlock.ErrLost)
		for _, server := range c.servers[:3] {
			server.Kill()
		}
		time.Sleep(time.Second)
		_, err = l.Inspect(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, l.ForceUnlock(ctx, "a"), redlock.ErrNoQuorum)
	})
}

func TestUnlockAllTellsWhatItCouldNotRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing()
		for i := range 100 {
			_, err := l.TryLock(ctx, fmt.Sprint(i))
			require.NoError(t, err)
		}
		require.NoError(t, l.UnlockAll(ctx))
		settle()
		assert.Zero(t, c.keys())
		assert.Zero(t, l.Stats().Held)
		_, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		c.servers[0].Kill()
		c.servers[1].Kill()
		require.ErrorIs(t, l.UnlockAll(ctx), redlock.ErrNoQuorum)
	})
}

func TestHooksTellInOrderWhatHappened(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		var mu sync.Mutex
		var told []string
		tell := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf(format, args...))
		}
		var log bytes.Buffer
		l := c.renewing(redlock.WithTTL(3*time.Second), redlock.WithMaxTTL(5*time.Second),
			redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			redlock.WithHooks(redlock.Hooks{
				Acquired: func(lock *redlock.Lock) { tell("acquired %s", lock.Name()) },
				Waited:   func(lock *redlock.Lock, d time.Duration) { tell("waited %s %t", lock.Name(), d > time.Second) },
				Refused:  func(name string, err error) { tell("refused %s %t", name, errors.Is(err, redlock.ErrTaken)) },
				Renewed:  func(lock *redlock.Lock) { tell("renewed %s", lock.Name()) },
				Lost:     func(lock *redlock.Lock, err error) { tell("lost %s %v", lock.Name(), err) },
				Released: func(lock *redlock.Lock) { tell("released %s", lock.Name()) },
				Node:     func(endpoint string, err error) { tell("node %s %t", endpoint, err == nil) },
			}))
		require.NoError(t, l.Ready(ctx))
		settle()
		mu.Lock()
		assert.ElementsMatch(t, []string{"node redis://node0:6379 true", "node redis://node1:6379 true", "node redis://node2:6379 true"}, last(told, 3))
		told = nil
		mu.Unlock()
		a, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		time.AfterFunc(1500*time.Millisecond, func() { assert.NoError(t, a.Unlock(ctx)) })
		again, err := l.Lock(ctx, "a", redlock.WithRetry(time.Second, time.Second))
		require.NoError(t, err)
		require.NoError(t, l.ForceUnlock(ctx, "a"))
		<-again.Done()
		settle() // it is undone
		c.servers[0].Kill()
		time.Sleep(time.Second)
		require.NoError(t, l.Close())
		mu.Lock()
		defer mu.Unlock()
		text := strings.Join(told, "\n")
		assert.Regexp(t, `(?s)^acquired a\nrefused a true\n.*renewed a\n.*released a\n.*acquired a\nwaited a true\n.*lost a redlock: lock lost.*\nnode redis://node0:6379 false`, text)
		assert.Contains(t, log.String(), `msg="lock lost" name=a`)
		assert.Contains(t, log.String(), `msg="node down" endpoint=redis://node0:6379`)
		assert.Contains(t, log.String(), `msg="node up" endpoint=redis://node0:6379`)
		assert.NotContains(t, log.String(), "acquired")
	})
}

func last(told []string, n int) []string { return told[max(0, len(told)-n):] }

func TestAHookThatHangsHoldsNothingUp(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		release := make(chan struct{})
		l := c.renewing(redlock.WithHooks(redlock.Hooks{Acquired: func(*redlock.Lock) { <-release }}))
		took := elapsed(func() {
			for range 5000 {
				lock, err := l.TryLock(ctx, "a")
				require.NoError(t, err)
				require.NoError(t, lock.Unlock(ctx))
			}
		})
		assert.Zero(t, took)
		assert.Positive(t, l.Stats().HooksDropped)
		close(release)
		synctest.Wait()
	})
}
