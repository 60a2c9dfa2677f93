package redlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

func TestHooksReportEventsInOrder(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		var d diary
		hooks := d.calls()
		hooks.Refused = func(name string, err error) { d.note("refused %s %t", name, errors.Is(err, redlock.ErrTaken)) }
		hooks.Lost = func(lock *redlock.Lock, err error) { d.note("lost %s %v", lock.Name(), err) }
		hooks.Node = func(endpoint string, err error) { d.note("node %s %t", endpoint, err == nil) }
		var log bytes.Buffer
		l := c.Renewing(redlock.WithTTL(3*time.Second), redlock.WithMaxTTL(5*time.Second),
			redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), redlock.WithHooks(hooks))
		require.NoError(t, l.Ready(ctx))
		assert.ElementsMatch(t, []string{"node redis://node0:6379 true", "node redis://node1:6379 true", "node redis://node2:6379 true"}, d.take())
		a := c.Lock(l, "a")
		time.AfterFunc(1500*time.Millisecond, func() { assert.NoError(t, a.Unlock(ctx)) })
		again, err := l.Lock(ctx, "a", redlock.WithRetry(time.Second, time.Second))
		require.NoError(t, err)
		require.NoError(t, admin.Of(l).ForceUnlock(ctx, "a"))
		<-again.Done()
		virtual.Settle() // wait until the lock is undone
		c.Servers[0].Kill()
		time.Sleep(time.Second)
		require.NoError(t, l.Close())
		assert.Regexp(t, `(?s)^acquired a\nrefused a true\n.*renewed a\n.*released a\n.*acquired a\nwaited a\n.*lost a redlock: lock lost.*\nnode redis://node0:6379 false`,
			strings.Join(d.take(), "\n"))
		assert.Contains(t, log.String(), `msg="lock lost" name=a`)
		assert.Contains(t, log.String(), `msg="node down" endpoint=redis://node0:6379`)
		assert.Contains(t, log.String(), `msg="node up" endpoint=redis://node0:6379`)
		assert.NotContains(t, log.String(), "acquired")
	})
}

// toldOfNodes returns hooks that tell of nodes, whether each is up and votes.
func (d *diary) toldOfNodes() redlock.Option {
	return redlock.WithHooks(redlock.Hooks{Node: func(endpoint string, err error) { d.note("%s %t", endpoint, err == nil) }})
}

func TestHookTellsOfANodeThatNeverWasThere(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		var d diary
		c.Each(virtual.Kill)
		c.Connecting(d.toldOfNodes())
		time.Sleep(time.Second)
		assert.ElementsMatch(t, []string{virtual.Endpoint(0) + " false", virtual.Endpoint(1) + " false", virtual.Endpoint(2) + " false"}, d.take())
		c.Each(virtual.Restart)
		time.Sleep(2 * time.Minute)
		assert.Subset(t, d.take(), []string{virtual.Endpoint(0) + " true", virtual.Endpoint(1) + " true", virtual.Endpoint(2) + " true"})
	})
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) { // a member that others have added
		var d diary
		operator, l := c.Among([]int{0, 1, 2}), c.Among([]int{0, 1, 2}, d.toldOfNodes(), c.Aliased(3, 0))
		require.NoError(t, l.Ready(ctx))
		d.take()
		require.NoError(t, admin.Of(operator).Cluster().Add(ctx, virtual.Endpoint(3)))
		c.Servers[3].Kill()
		time.Sleep(virtual.MaxTTL)
		assert.Contains(t, d.take(), virtual.Endpoint(3)+" false")
	})
}

// The second is at the position of the first.
func TestHookTellsOfEachNodeAtOnePosition(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		var d diary
		l := c.Among([]int{0, 1, 2}, d.toldOfNodes())
		for _, nobody := range []string{"redis://x:6379", "redis://y:6379"} {
			require.NoError(t, l.Ready(ctx))
			d.take()
			require.Error(t, admin.Of(l).Cluster().Add(c.Within(time.Second), nobody))
			time.Sleep(3 * virtual.MaxTTL)
			assert.Len(t, l.Stats().Nodes, 4)
			assert.Contains(t, d.take(), nobody+" false")
		}
	})
}

func TestAHookThatHangsBlocksNothing(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.Instantly()
		release := make(chan struct{})
		l := c.Renewing(redlock.WithHooks(redlock.Hooks{Acquired: func(*redlock.Lock) { <-release }}))
		took := virtual.Elapsed(func() {
			for range 5000 {
				c.Unlock(c.Lock(l, "a"))
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
		var d diary
		l := c.Locker(redlock.WithHooks(redlock.Hooks{Failed: func(name string, err error) {
			d.note("%s %t %v", name, errors.Is(err, redlock.ErrNoQuorum), err)
		}}))
		require.NoError(t, l.Ready(ctx))
		require.NoError(t, l.Do(ctx, "a", func(context.Context, *redlock.Lock) error { return nil }))
		assert.Empty(t, d.take(), "not waited for")
		c.Each(func(n *fakeredis.Node) { n.RefuseWith("OOM command not allowed", "set", "evalsha", "eval") })
		_, err := l.Lock(c.Within(5*time.Second), "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		failures := d.take()
		require.NotEmpty(t, failures)
		assert.Regexp(t, "^a true .*OOM", failures[0])
	})
}

func TestHookIsNotToldOfAnAttemptThatEndsItsCall(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		var d diary
		l := c.Locker(redlock.WithHooks(redlock.Hooks{Failed: func(name string, err error) { d.note("%s %v", name, err) }}))
		c.Lock(c.Renewing(), "a")
		wait := func(ctx context.Context) <-chan error {
			return c.Ending(func() error { _, err := l.Lock(ctx, "a"); return err })
		}
		first, giveUp := context.WithCancel(ctx)
		gaveUp := wait(first)
		virtual.Settle()
		behind := wait(c.Within(100 * time.Millisecond))
		virtual.Settle()
		c.Each(virtual.Stop)
		d.take()
		giveUp()
		require.ErrorIs(t, <-gaveUp, context.Canceled)
		require.ErrorIs(t, <-behind, context.DeadlineExceeded, "in its first attempt")
		virtual.Settle()
		assert.Empty(t, d.take())
		c.Each(virtual.Resume)
	})
}

// recordingTracer writes down each operation with its parent, when it ends.
type recordingTracer struct {
	mu    sync.Mutex
	ended []string
}

type parentKey struct{}

func (r *recordingTracer) Start(ctx context.Context, op redlock.Operation) (context.Context, func(error)) {
	path := fmt.Sprintf("%s %s", op.Kind, op.Name)
	if parent, ok := ctx.Value(parentKey{}).(string); ok {
		path = parent + " > " + path
	}
	return context.WithValue(ctx, parentKey{}, path), func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended = append(r.ended, fmt.Sprintf("%s: %t", path, err == nil))
	}
}

// take returns what has ended, except for a choice's waits for its single names.
func (r *recordingTracer) take() []string {
	return slices.DeleteFunc(r.takeAll(), func(path string) bool { return strings.Count(path, "> wait") > 1 })
}

func (r *recordingTracer) takeAll() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := r.ended
	r.ended = nil
	return ended
}

func TestTracerSeesOperationsWithTheirParents(t *testing.T) {
	eachKind(t, 5, func(t *testing.T, c *cluster, k kind) {
		r := &recordingTracer{}
		l := c.Locker(redlock.WithTracer(r))
		ctx := context.WithValue(ctx, parentKey{}, "job")
		acquire, release := "job > acquire "+k.asked, "job > release "+k.name

		lock, err := k.try(ctx, l)
		require.NoError(t, err)
		require.NoError(t, lock.Extend(ctx, 5*time.Second))
		require.NoError(t, lock.Unlock(ctx))
		assert.Equal(t, []string{acquire + ": true", "job > extend " + k.name + ": true", release + ": true"}, r.take())

		virtual.Settle()
		held := c.allOf(k, c.Locker())
		_, err = k.try(ctx, l)
		require.ErrorIs(t, err, redlock.ErrTaken)
		assert.Equal(t, []string{acquire + ": false"}, r.take())
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = k.wait(soon, l)
		require.ErrorIs(t, err, redlock.ErrTaken)
		wait := acquire + " > wait " + k.asked
		assert.Equal(t, []string{wait + ": false", acquire + ": false"}, r.take())
		time.AfterFunc(time.Second, func() { assert.NoError(t, held.Unlock(ctx)) })
		lock, err = k.wait(ctx, l)
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ctx))
		assert.Equal(t, []string{wait + ": true", acquire + ": true", "job > release " + lock.Name() + ": true"}, r.take())
	})
}

// Each name has a wait of its own, which ends in any order.
func TestTracerIsToldHowEachWaitOfAChoiceEnded(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		r := &recordingTracer{}
		l, holder := c.Locker(redlock.WithTracer(r)), c.Locker()
		c.Lock(holder, "a")
		held := c.Lock(holder, "b")
		const wait = "acquire a > wait a"
		_, err := l.LockAny(c.Within(time.Second), []string{"a", "b"})
		require.ErrorIs(t, err, redlock.ErrTaken)
		ended := r.takeAll()
		require.Len(t, ended, 4)
		assert.ElementsMatch(t, []string{wait + " > wait a: false", wait + " > wait b: false"}, ended[:2])
		assert.Equal(t, []string{wait + ": false", "acquire a: false"}, ended[2:])

		time.AfterFunc(time.Second, func() { assert.NoError(t, held.Unlock(ctx)) })
		_, err = l.LockAny(c.Within(5*time.Second), []string{"a", "b"})
		require.NoError(t, err)
		ended = r.takeAll()
		require.Len(t, ended, 4)
		assert.ElementsMatch(t, []string{wait + " > wait a: false", wait + " > wait b: true"}, ended[:2])
		assert.Equal(t, []string{wait + ": true", "acquire a: true"}, ended[2:])
	})
}

func TestWithoutATracerNothingIsAllocated(t *testing.T) {
	for _, opts := range [][]redlock.Option{nil, {redlock.WithTracer(&recordingTracer{})}} {
		l, err := redlock.New([]string{"127.0.0.1:1"}, opts...)
		require.NoError(t, err)
		defer l.Close()
		allocated := testing.AllocsPerRun(10_000, func() { assert.NoError(t, l.Trace(t.Context())) })
		assert.Equal(t, opts != nil, allocated > 0, "%v per call with %d options", allocated, len(opts))
	}
}

// Where there is no lock, a name is the first of several.
func TestHooksKnowACallForSeveralNamesByTheFirst(t *testing.T) {
	var mu sync.Mutex
	names := map[string]int{}
	note := func(name string, _ error) { mu.Lock(); names[name]++; mu.Unlock() }
	hooks := redlock.WithHooks(redlock.Hooks{Failed: note, Refused: note})
	told := func() map[string]int {
		virtual.Settle()
		mu.Lock()
		defer mu.Unlock()
		return names
	}
	runBubble(t, "by parts", 5, func(t *testing.T, c *cluster) {
		g := c.gather(c.Within(time.Minute), c.Locker(hooks, redlock.WithTTL(2*time.Second)))
		time.Sleep(3 * time.Second)
		c.Unlock(g.second)
		c.Unlock(g.set())
		assert.NotZero(t, told()["b"])
		assert.Zero(t, told()["a"], "the set is b and a")
	})
	clear(names)
	runBubble(t, "any", 5, func(t *testing.T, c *cluster) {
		a, b := c.Lock(c.Locker(), "a"), c.Lock(c.Locker(), "b")
		_, err := c.Locker(hooks).LockAny(c.Within(3*time.Second), []string{"b", "a"})
		require.ErrorIs(t, err, redlock.ErrTaken)
		assert.NotZero(t, told()["b"])
		assert.Zero(t, told()["a"], "the choice is b or a")
		c.Unlock(a, b)
	})
}

// For one lock: Acquired, then Waited, and finally Released. The waits for the other names of a
// choice end later, and meanwhile the lock may end.
func TestAWaitIsToldBeforeTheEndOfItsLock(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4)) // so that a hook runs beside them
	var names []string
	for i := range 64 {
		names = append(names, fmt.Sprint("n", i))
	}
	for range 20 {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			var d diary
			hooks := d.calls()
			hooks.Acquired = func(lock *redlock.Lock) {
				d.note("acquired %s", lock.Name())
				assert.NoError(t, lock.Unlock(ctx))
			}
			l := c.Locker(redlock.WithHooks(hooks))
			held, err := c.Locker().TryLockAll(ctx, names)
			assert.NoError(t, err)
			got := c.Queued(func() (*redlock.Lock, error) { return l.LockAny(c.Within(virtual.Patience), names) })
			c.Unlock(held)
			name := (<-got).Name()
			assert.Equal(t, []string{"waiting n0", "acquired " + name, "waited " + name, "released " + name}, d.take())
		})
	}
}

// A waiter asks all masters while a client of another library has the lock, and with a place at
// every master.
func TestHooksAndStatsTellEveryRoundOfAWaiter(t *testing.T) {
	for name, wait := range map[string]call{
		"behind another library": kinds()[0].wait,
		"with a place at every master": func(ctx context.Context, l *redlock.Locker, _ ...redlock.LockOption) (*redlock.Lock, error) {
			return redlock.LockOvertaken(ctx, l, "a")
		},
	} {
		runBubble(t, name, 3, func(t *testing.T, c *cluster) {
			var told atomic.Int64
			l := c.Locker(redlock.WithHooks(redlock.Hooks{Refused: func(_ string, err error) {
				assert.ErrorIs(t, err, redlock.ErrTaken)
				told.Add(1)
			}}))
			var asked [3]atomic.Int64
			for i, server := range c.Servers {
				server.OnCommand(func(cmd fakeredis.Command) {
					if words := strings.Join(cmd.Args, " "); strings.Contains(words, " a ") && (cmd.Args[0] == "SET" || len(cmd.Args) > 8) {
						asked[i].Add(1)
					}
				})
			}
			if name == "behind another library" {
				c.Set("a", "somebody else's", time.Minute)
			} else {
				c.Lock(c.Locker(redlock.WithTTL(time.Minute)), "a")
			}
			for i := range asked {
				asked[i].Store(0)
			}
			_, err := wait(c.Within(2*time.Second), l)
			require.ErrorIs(t, err, redlock.ErrTaken)
			virtual.Settle()
			rounds := min(asked[0].Load(), asked[1].Load(), asked[2].Load())
			require.Greater(t, rounds, int64(2))
			assert.InDelta(t, rounds, told.Load(), 1, "the last was cut short")
			assert.EqualValues(t, told.Load(), l.Stats().Taken)
		})
	}
}

func TestWaitedTellsHowLongACallTook(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		var told []time.Duration
		l := c.Locker(redlock.WithHooks(redlock.Hooks{Waited: func(_ *redlock.Lock, d time.Duration) { told = append(told, d) }}))
		first := c.allOf(k, c.Locker())
		time.AfterFunc(3*time.Second, func() { assert.NoError(t, first.Unlock(ctx)) })
		took := virtual.Elapsed(func() {
			lock, err := k.wait(ctx, l)
			require.NoError(t, err)
			c.Unlock(lock)
		})
		virtual.Settle()
		require.Len(t, told, 1)
		assert.InDelta(t, took, told[0], float64(10*time.Millisecond), "from the call on, whatever attempts there were")
	})
}

func TestStatsTellWhyRoundsFailed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker()
		failed := func() []uint64 {
			s := l.Stats()
			return []uint64{s.Taken, s.NoQuorum, s.NoValidity}
		}
		lock := c.Lock(c.Locker(), "a")
		c.Taken(l, "a")
		assert.Equal(t, []uint64{1, 0, 0}, failed())
		c.Unlock(lock)
		c.Each(virtual.Delaying(9*time.Millisecond, 0))
		_, err := l.TryLock(ctx, "a", redlock.WithTTL(10*time.Millisecond))
		require.ErrorIs(t, err, redlock.ErrNoValidity)
		assert.Equal(t, []uint64{1, 0, 1}, failed())
		c.Each(virtual.Mute)
		_, err = l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.Equal(t, []uint64{1, 1, 1}, failed())
	})
}
