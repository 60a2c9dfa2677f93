package redlock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// diary keeps what hooks are told.
type diary struct {
	mu   sync.Mutex
	told []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = append(d.told, fmt.Sprintf(format, args...))
}

// take returns what was told since it was called last.
func (d *diary) take() []string {
	virtual.Settle()
	d.mu.Lock()
	defer d.mu.Unlock()
	told := d.told
	d.told = nil
	return told
}

func (d *diary) hooks() redlock.Option { return redlock.WithHooks(d.calls()) }

// calls returns hooks that tell of all but the single attempts.
func (d *diary) calls() redlock.Hooks {
	return redlock.Hooks{
		Acquired: func(lock *redlock.Lock) { d.note("acquired %s", lock.Name()) },
		Waited:   func(lock *redlock.Lock, _ time.Duration) { d.note("waited %s", lock.Name()) },
		Waiting:  func(name string) { d.note("waiting %s", name) },
		Handed:   func(name string) { d.note("handed %s", name) },
		Renewed:  func(lock *redlock.Lock) { d.note("renewed %s", lock.Name()) },
		Lost:     func(lock *redlock.Lock, _ error) { d.note("lost %s", lock.Name()) },
		Released: func(lock *redlock.Lock) { d.note("released %s", lock.Name()) },
	}
}

// call is a way to ask for a lock.
type call func(ctx context.Context, l *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error)

// kind is one of the ways to hold something. All its calls ask for the same thing.
type kind struct {
	what      string
	try, wait call
	all       call   // takes all that there is, so that the others are refused
	name      string // of the lock, which is also its key
	asked     string // for what the calls ask
	list      string // the wait list where they queue
	holds     bool   // it may have a minimum hold
}

// kinds lists all of them, and the mutex first. Each excludes a mutex of its name.
func kinds() []kind {
	type locker = redlock.Locker
	mutex, set := oneName((*locker).TryLock), bothNames((*locker).TryLockAll)
	return []kind{
		{"mutex", mutex, oneName((*locker).Lock), mutex, "a", "a", "redquorum:wait:a", true},
		{"names", set, bothNames((*locker).LockAll), set, "a", "a", "redquorum:wait:a", true},
		{"reader", oneName((*locker).TryRLock), oneName((*locker).RLock), mutex, "a", "a", "redquorum:wait:a", false},
		{"any", bothNames((*locker).TryLockAny), bothNames((*locker).LockAny), set, "a", "a", "redquorum:wait:a", true},
		{
			"permit", onePermit((*redlock.Semaphore).TryAcquire), onePermit((*redlock.Semaphore).Acquire),
			onePermit((*redlock.Semaphore).TryAcquire), "s#1", "s", "redquorum:permit:wait:s", false,
		},
	}
}

func oneName(f func(*redlock.Locker, context.Context, string, ...redlock.LockOption) (*redlock.Lock, error)) call {
	return func(ctx context.Context, l *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error) {
		return f(l, ctx, "a", opts...)
	}
}

func bothNames(f func(*redlock.Locker, context.Context, []string, ...redlock.LockOption) (*redlock.Lock, error)) call {
	return func(ctx context.Context, l *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error) {
		return f(l, ctx, []string{"a", "b"}, opts...)
	}
}

func onePermit(f func(*redlock.Semaphore, context.Context, ...redlock.LockOption) (*redlock.Lock, error)) call {
	return func(ctx context.Context, l *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error) {
		s, err := l.Semaphore("s", 1)
		if err != nil {
			return nil, err
		}
		return f(s, ctx, opts...)
	}
}

// absence is a way for a node to be away.
type absence struct {
	how         string
	leave, back func(*fakeredis.Node)
}

func absences() []absence {
	return []absence{{"killed, data kept", virtual.Kill, virtual.Restart}, {"stopped", virtual.Stop, virtual.Resume}, {"muted", virtual.Mute, virtual.Unmute}, {"replies muted", virtual.Deafen, virtual.Undeaf}}
}

// eachKind runs a test in virtual time for every kind of lock.
func eachKind(t *testing.T, nodes int, test func(t *testing.T, c *cluster, k kind)) {
	t.Helper()
	for _, k := range kinds() {
		runBubble(t, k.what, nodes, func(t *testing.T, c *cluster) { test(t, c, k) })
	}
}

// of acquires a lock of a kind that must be free. It is on all nodes that can be reached.
func (c *cluster) of(k kind, l *redlock.Locker, opts ...redlock.LockOption) *redlock.Lock {
	c.T.Helper()
	lock, err := k.try(ctx, l, opts...)
	require.NoError(c.T, err)
	virtual.Settle()
	return lock
}

// allOf takes all that the calls of a kind could get.
func (c *cluster) allOf(k kind, l *redlock.Locker, opts ...redlock.LockOption) *redlock.Lock {
	c.T.Helper()
	lock, err := k.all(ctx, l, opts...)
	require.NoError(c.T, err)
	virtual.Settle()
	return lock
}

// queue starts a call of a kind that waits in the background.
func (c *cluster) queue(k kind, l *redlock.Locker, opts ...redlock.LockOption) <-chan *redlock.Lock {
	c.T.Helper()
	return c.Queued(func() (*redlock.Lock, error) { return k.wait(c.Within(virtual.Patience), l, opts...) })
}

// A permit is the mutex of its slot. The heir of one releases a mutex, which hands nothing to those
// that wait for a permit: they find it by polling.
func TestAPermitIsAdoptedAndForcedLikeAMutex(t *testing.T) {
	permit := kinds()[4]
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l, other, operator := c.Locker(), c.Locker(), c.Locker()
		old := c.of(permit, l)
		heir, err := operator.Adopt(ctx, old.Name(), old.Value(), redlock.WithTTL(20*time.Second))
		require.NoError(t, err)
		require.ErrorIs(t, old.Verify(ctx), redlock.ErrLost)
		virtual.Settle()
		require.NoError(t, heir.Extend(ctx, 30*time.Second))
		require.NoError(t, heir.Verify(ctx))

		got := c.queue(permit, other)
		c.Unlock(heir)
		var next, last *redlock.Lock
		assert.LessOrEqual(t, virtual.Elapsed(func() { next = <-got }), 1100*time.Millisecond, "a poll")
		assert.Equal(t, "s#1", next.Name())

		got = c.queue(permit, l)
		require.NoError(t, admin.Of(operator).ForceUnlock(ctx, "s"), "no lock of that name")
		require.NoError(t, next.Verify(ctx), "the name of a semaphore is not that of its permits")
		require.NoError(t, admin.Of(operator).ForceUnlock(ctx, next.Name()))
		assert.LessOrEqual(t, virtual.Elapsed(func() { last = <-got }), 1100*time.Millisecond, "a poll")
		require.ErrorIs(t, next.Verify(ctx), redlock.ErrLost)
		require.NoError(t, last.Verify(ctx))
		c.Unlock(last)
	})
}

func TestMain(m *testing.M) { virtual.OneProcessor(m) }

var ctx = context.Background()

// cluster is a [virtual.Cluster], and what the tests of this package do with one.
type cluster struct{ *virtual.Cluster }

// inBubble runs a test in virtual time, on masters that vote.
func inBubble(t *testing.T, nodes int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	virtual.InBubble(t, nodes, func(t *testing.T, c *virtual.Cluster) { test(t, &cluster{c}) })
}

// runBubble is inBubble as a subtest.
func runBubble(t *testing.T, name string, nodes int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, nodes, test) })
}

func uniq(values []string) []string {
	slices.Sort(values)
	return slices.Compact(values)
}

// endsOfAll release all locks of a Locker.
func endsOfAll() map[string]func(*redlock.Locker) error {
	return map[string]func(*redlock.Locker) error{
		"UnlockAll": func(l *redlock.Locker) error { return l.UnlockAll(ctx) },
		"Close":     (*redlock.Locker).Close,
	}
}

// inCluster runs a test on the members of a cluster, and behind them spare masters that no client
// has seen.
func inCluster(t *testing.T, members, spare int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	virtual.InCluster(t, members, spare, func(t *testing.T, c *virtual.Cluster) { test(t, &cluster{c}) })
}
