package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

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
	parents := map[string]func(main context.Context) context.Context{
		"cancelled parents": func(main context.Context) context.Context {
			parent, cancel := context.WithCancel(main)
			cancel()
			return parent
		},
		"parent without an end": func(context.Context) context.Context { return context.WithValue(ctx, keyOfTest{}, 1) },
	}
	maps.Copy(parents, ways)
	for name, parent := range parents {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, c *cluster) {
				lock, err := c.locker().TryLock(ctx, "a")
				require.NoError(t, err)
				main, stop := context.WithCancel(ctx)
				defer stop()
				before := heap()
				for range n {
					work, cancel := context.WithCancel(lock.Context(parent(main)))
					_ = work.Done()
					cancel()
				}
				settle()
				assert.Less(t, (heap()-before)/n, int64(20), "bytes for each unused context")
				require.NoError(t, lock.Err())
			})
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
			//nolint:errcheck // the test looks at the contexts
			func(_ context.CancelCauseFunc, lock *redlock.Lock) { _ = lock.Unlock(ctx) },
			context.Canceled, redlock.ErrReleased,
		},
	}
	for end, e := range ends {
		for name, way := range ways {
			t.Run(fmt.Sprint(end, " ", name), func(t *testing.T) {
				inBubble(t, 1, func(t *testing.T, c *cluster) {
					lock, err := c.locker().TryLock(ctx, "a")
					require.NoError(t, err)
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
			})
		}
	}
}

func TestContextsOfDifferentParentsEndSeparately(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		lock, err := c.locker().TryLock(ctx, "a")
		require.NoError(t, err)
		one, stop := context.WithCancel(ctx)
		a, b, d := lock.Context(one), lock.Context(ctx), lock.Context(context.WithoutCancel(one))
		stop()
		<-a.Done()
		settle()
		require.NoError(t, b.Err())
		require.NoError(t, d.Err())
		require.NoError(t, lock.Unlock(ctx))
		<-b.Done()
		<-d.Done()
		require.ErrorIs(t, context.Cause(d), redlock.ErrReleased)
	})
}

func TestContextsThatHaveEndedAreForgotten(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		lock, err := c.renewing().TryLock(ctx, "a")
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range 20_000 {
			parent, cancel := context.WithCancel(ctx)
			work := lock.Context(parent)
			cancel()
			<-work.Done()
			synctest.Wait()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(2<<20))
		work := lock.Context(ctx)
		require.NoError(t, lock.Unlock(ctx))
		<-work.Done()
	})
}
