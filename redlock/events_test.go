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

func TestHooksReportEventsInOrder(t *testing.T) {
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
		settle() // wait until the lock is undone
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

func TestAHookThatHangsBlocksNothing(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.instantly()
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

// A wait goes on through failures, and Failed tells of each what Lock would return.
func TestHookTellsWhyALockIsStillWaitedFor(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		var mu sync.Mutex
		var failures []error
		l := c.locker(redlock.WithHooks(redlock.Hooks{Failed: func(name string, err error) {
			mu.Lock()
			defer mu.Unlock()
			assert.Equal(t, "a", name)
			failures = append(failures, err)
		}}))
		require.NoError(t, l.Ready(ctx))
		require.NoError(t, l.Do(ctx, "a", func(context.Context, *redlock.Lock) error { return nil }))
		mu.Lock()
		assert.Empty(t, failures, "not waited for")
		mu.Unlock()
		for _, s := range c.servers {
			s.RefuseWith("OOM command not allowed when used memory > 'maxmemory'.", "set", "evalsha", "eval")
		}
		soon, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := l.Lock(soon, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		settle()
		mu.Lock()
		defer mu.Unlock()
		require.NotEmpty(t, failures)
		require.ErrorIs(t, failures[0], redlock.ErrNoQuorum)
		assert.ErrorContains(t, failures[0], "OOM")
	})
}
