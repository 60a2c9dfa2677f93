package scenario_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// call acquires a lock.
type call func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error)

// kind is a kind of lock, and who is refused while it is held.
type kind struct {
	name  string
	room  int // how many may hold it at once
	try   call
	rival call
	wait  call // of the rival
}

var (
	tryLock call = func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
		return l.TryLock(ctx, name)
	}
	waitLock call = func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
		return l.Lock(ctx, name)
	}
	tryRead call = func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
		return l.TryRLock(ctx, name)
	}
	tryNames call = func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
		return l.TryLockAll(ctx, namesFrom(name))
	}
	waitNames call = func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
		return l.LockAll(ctx, namesFrom(name))
	}
	tryAny call = func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
		return l.TryLockAny(ctx, namesFrom(name))
	}
	waitAny call = func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
		return l.LockAny(ctx, namesFrom(name))
	}
	tryPermit  = permit((*redlock.Semaphore).TryAcquire)
	waitPermit = permit((*redlock.Semaphore).Acquire)
)

func namesFrom(name string) []string { return []string{name + "b", name, name + "a"} }

func permit(acquire func(*redlock.Semaphore, context.Context, ...redlock.LockOption) (*redlock.Lock, error)) call {
	return func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
		s, err := l.Semaphore(name, 2)
		if err != nil {
			return nil, err
		}
		return acquire(s, ctx)
	}
}

var kinds = []kind{
	{"mutex", 1, tryLock, tryLock, waitLock},
	{"names", 1, tryNames, tryNames, waitNames},
	{"readers", 2, tryRead, tryLock, waitLock},
	{"permits", 2, tryPermit, tryPermit, waitPermit},
	{"any", 3, tryAny, tryAny, waitAny},
}

// On real masters, each kind of lock lets in as many as it should, is renewed past its TTL, is
// handed over to who waits for it, and ends when an operator ends it. It leaves no key.
func TestLockOfEachKindIsExclusiveRenewedAndHandedOver(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	t.Run("kinds", func(t *testing.T) {
		for _, k := range kinds {
			t.Run(k.name, func(t *testing.T) {
				t.Parallel()
				k.lives(t, c)
			})
		}
	})
	cluster.RequireClean(t, c.Masters...)
}

func (k kind) lives(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	const ttl = 3 * time.Second // a busy machine may stop us for half of it
	ctx, name := t.Context(), cluster.LockName(t)
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl * 2 / 3)}
	ours, theirs := cluster.NewConnected(t, c.URLs(), opts...), cluster.NewConnected(t, c.URLs(), opts...)
	refused := func() {
		for _, l := range []*redlock.Locker{ours, theirs} { // a lock is not reentrant
			_, err := k.rival(ctx, l, name)
			require.ErrorIs(t, err, redlock.ErrTaken)
		}
	}
	began := time.Now()
	var held []*redlock.Lock
	for range k.room {
		lock, err := k.try(ctx, ours, name)
		require.NoError(t, err)
		held = append(held, lock)
	}
	refused()
	for _, lock := range held {
		assert.LessOrEqual(t, lock.Remaining(), ttl-ttl/100, "TTL less drift")
		require.NoError(t, lock.Verify(ctx), "who is refused does no harm")
		require.NoError(t, lock.Extend(ctx, ttl))
	}
	await(t, "the TTL is over", func() bool { return time.Since(began) > ttl+ttl/8 })
	refused()
	got := inBackground(t, func() (*redlock.Lock, error) { return k.wait(ctx, theirs, name) })
	await(t, "somebody waits", func() bool { return theirs.Stats().Waiting == 1 })
	for _, lock := range held {
		require.NoError(t, lock.Verify(ctx), "renewed")
		give(t, lock)
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		assert.LessOrEqual(t, lock.Remaining(), time.Duration(0))
	}
	next := <-got
	require.NotNil(t, next)
	assert.Zero(t, ours.Stats().Lost)
	require.NoError(t, ours.ForceUnlock(ctx, next.Name())) // the first of several names
	awaitLoss(t, next)
	requireLostBecause(t, next, "a quorum of nodes no longer has it")
	require.ErrorIs(t, next.Unlock(ctx), redlock.ErrLost)
}

// An Adopt that fails leaves the lock to its holder: with a wrong value, with too few nodes in
// reach, that say so or nothing. One that succeeds is told to the old holder.
func TestHoldingGoesOverToTheOneThatAdopts(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second // a busy machine may stop us for half of it
	c := cluster.Start(t, 5)
	proxies, urls := c.BehindProxies(t)
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl / 3)}
	giver, taker := cluster.NewConnected(t, c.URLs(), opts...), cluster.NewConnected(t, urls, opts...)
	name := cluster.LockName(t)
	old, err := giver.Lock(t.Context(), name, redlock.WithOwner("giver"))
	require.NoError(t, err)
	for _, value := range []string{"wrong", old.Value() + "|owner", old.Value()[1:]} {
		_, err = taker.Adopt(t.Context(), name, value)
		require.ErrorIs(t, err, redlock.ErrLost)
	}
	for _, cut := range []func(){
		func() { leave(proxies[2:]...) },
		func() {
			for _, proxy := range proxies[2:] {
				proxy.Drop(redistest.Both, true)
			}
		},
	} {
		cut()
		_, err = taker.Adopt(t.Context(), name, old.Value())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		for _, proxy := range proxies {
			proxy.Refuse(false)
			proxy.Heal()
		}
		awaitUp(t, taker, 0, 1, 2, 3, 4)
		c.AwaitHeldEverywhere(t, name, old.Value())
	}
	require.NoError(t, old.Verify(t.Context()))

	adopted, err := taker.Adopt(t.Context(), name, old.Value(), redlock.WithOwner("taker"))
	require.NoError(t, err)
	c.AwaitHeldEverywhere(t, name, adopted.Value())
	awaitLoss(t, old)
	requireLostBecause(t, old, "a quorum of nodes no longer has it")
	require.ErrorIs(t, old.Unlock(t.Context()), redlock.ErrLost)
	_, err = taker.Adopt(t.Context(), name, old.Value())
	require.ErrorIs(t, err, redlock.ErrLost, "the old value is nobody's")
	await(t, "it is renewed", func() bool { return taker.Stats().Renewed > 0 })
	require.NoError(t, adopted.Verify(t.Context()))
	c.AwaitHeldEverywhere(t, name, adopted.Value())
	status, err := giver.Inspect(t.Context(), name)
	require.NoError(t, err)
	assert.Equal(t, "taker", status.Owner)
	give(t, adopted)
	cluster.RequireClean(t, c.Masters...)
}

// monitored starts five masters, and records what they execute.
func monitored(t *testing.T) (*cluster.Cluster, []*redistest.Monitor) {
	t.Helper()
	c := cluster.Start(t, 5)
	var monitors []*redistest.Monitor
	for _, m := range c.Masters {
		monitors = append(monitors, m.(*redistest.Server).Monitor(t))
	}
	return c, monitors
}

// spoken returns what a server was sent about a key, at least so much, and what scripts wrote
// there, as MONITOR quotes it.
func spoken(t *testing.T, m *redistest.Monitor, key string, atLeast int) (commands, writes []string) {
	t.Helper()
	await(t, fmt.Sprintf("%d commands about %s", atLeast, key), func() bool {
		m.Sync()
		commands, writes = nil, nil
		for _, line := range m.Matching(fmt.Sprintf("%q", key)) {
			source, command, _ := strings.Cut(line, "] ")
			switch {
			case !strings.HasSuffix(source, " lua"):
				commands = append(commands, command)
			case !strings.HasPrefix(command, `"GET"`):
				writes = append(writes, command)
			}
		}
		return len(commands) >= atLeast
	})
	return commands, writes
}

// requireSpoken asserts the whole conversation with each server about a key, as regular
// expressions. The release ends with the grace for a waiter.
func requireSpoken(t *testing.T, monitors []*redistest.Monitor, key string, want []string, writes func(node int) []string) {
	t.Helper()
	for node, m := range monitors {
		commands, written := spoken(t, m, key, len(want))
		require.Len(t, commands, len(want), "node %d: %v", node, commands)
		for i := range want {
			assert.Regexp(t, "^"+want[i]+"$", commands[i], "node %d", node)
		}
		assert.Equal(t, writes(node), written, "node %d", node)
	}
}

// An attempt is one SET on each node, in the common form, an extension, a look and a release are
// one script or command each, and nothing else is sent about a lock. A release compares, and
// deletes only what is ours.
func TestEveryNodeIsSentOneCommandForEachCallAndNothingElse(t *testing.T) {
	t.Parallel()
	c, monitors := monitored(t)
	l := connected(t, c.URLs(), redlock.WithKeyPrefix("app:"), redlock.WithTTL(7*time.Second))
	const key = "app:orders/42"
	set := func(value string) string {
		return regexp.QuoteMeta(fmt.Sprintf(`"SET" %q %q "NX" "PX" "7000"`, key, value))
	}
	script := func(value, last string) string {
		return `"EVALSHA" "[0-9a-f]{40}" "1" "` + key + `" "` + regexp.QuoteMeta(value) + `" "` + last + `"`
	}
	deleted := `"DEL" "` + key + `" "redquorum:waits:` + key + `"`

	lock, err := l.TryLock(t.Context(), "orders/42", redlock.WithoutRenewal())
	require.NoError(t, err)
	require.NoError(t, lock.Extend(t.Context(), 20*time.Second))
	require.NoError(t, lock.Verify(t.Context()))
	look := `"(GET|EVALSHA)" .*"` + key + `".*`
	give(t, lock)
	requireSpoken(t, monitors, key, []string{set(lock.Value()), script(lock.Value(), "20000"), look, script(lock.Value(), "2000")},
		func(int) []string { return []string{`"PEXPIRE" "` + key + `" "20000"`, deleted} })
	cluster.RequireClean(t, c.Masters...)

	for _, m := range c.Masters[1:4] {
		do(t, m, "SET", key, "another's", "PX", longTTL.Milliseconds())
	}
	for _, m := range monitors {
		m.Sync()
		m.Clear()
	}
	_, err = l.TryLock(t.Context(), "orders/42")
	require.ErrorIs(t, err, redlock.ErrTaken)
	commands, _ := spoken(t, monitors[0], key, 2)
	ours := strings.Split(commands[0], `"`)[5] // the same at all nodes, and in the release
	requireSpoken(t, monitors, key, []string{set(ours), script(ours, "2000")}, func(node int) []string {
		if slices.Contains([]int{1, 2, 3}, node) {
			return nil
		}
		return []string{deleted}
	})
	assert.Equal(t, []string{"", "another's", "another's", "another's", ""}, c.Holders(t, key))
}

// Servers that forgot the scripts are sent them again.
func TestScriptFlushCostsNothing(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	l := connected(t, c.URLs())
	flush := func(n int) {
		for _, m := range c.Masters[:n] {
			do(t, m, "SCRIPT", "FLUSH")
		}
	}
	for n := range 6 {
		lock := take(t, l, cluster.LockName(t))
		flush(n)
		require.NoError(t, lock.Extend(t.Context(), longTTL))
		flush(n)
		require.NoError(t, lock.Unlock(t.Context()), "%d nodes forgot the scripts", n)
		cluster.RequireClean(t, c.Masters...)
	}
}
