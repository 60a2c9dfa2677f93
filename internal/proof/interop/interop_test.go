package interop

import (
	"context"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	redigolib "github.com/gomodule/redigo/redis"
	goredislib "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

const (
	servers = 5
	quorum  = servers/2 + 1

	name = "orders/42"

	// ttl is longer than any test, so that a lock expires only in the tests about expiry. Both
	// kinds of clients use it.
	ttl = time.Minute

	// shortTTL is that of a lock that expires.
	shortTTL = time.Second

	// patience bounds every wait for something that takes milliseconds.
	patience = 10 * time.Second

	// readersMarker is what readers have under the key of their lock.
	readersMarker = "READERSHOLDTHISLOCKTOGETHE|readers"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// pair is five servers and a client of each kind.
type pair struct {
	*cluster.Cluster
	t      *testing.T
	ours   *redlock.Locker
	theirs *redsync.Redsync
}

func newPair(t *testing.T, opts ...redlock.Option) *pair {
	t.Helper()
	c := cluster.Start(t, servers)
	var pools []redis.Pool
	for _, m := range c.Masters {
		pool := &redigolib.Pool{
			MaxIdle:     servers,
			DialContext: func(ctx context.Context) (redigolib.Conn, error) { return redigolib.DialContext(ctx, "tcp", m.Addr()) },
		}
		t.Cleanup(func() { assert.NoError(t, pool.Close()) })
		pools = append(pools, redigo.NewPool(pool))
	}
	opts = append(opts, redlock.WithTTL(ttl), redlock.WithNodeTimeout(patience))
	return &pair{c, t, cluster.NewConnected(t, c.URLs(), opts...), redsync.New(pools...)}
}

// mutex returns a lock of redsync that makes one attempt, as long as it takes.
func (p *pair) mutex(name string, options ...redsync.Option) *redsync.Mutex {
	return p.theirs.NewMutex(name, append([]redsync.Option{
		redsync.WithTries(1), redsync.WithTimeoutFactor(1), redsync.WithExpiry(ttl),
	}, options...)...)
}

// waiting is a mutex that asks until it has the lock.
func (p *pair) waiting(name string, options ...redsync.Option) *redsync.Mutex {
	return p.mutex(name, append(options, redsync.WithTries(10_000), redsync.WithRetryDelay(5*time.Millisecond))...)
}

// requireRefused tries the lock with redsync, which must find it taken. Undoing its attempt must
// leave what is held alone.
func (p *pair) requireRefused(name, held string) {
	p.t.Helper()
	var taken *redsync.ErrTaken
	require.ErrorAs(p.t, p.mutex(name).LockContext(p.t.Context()), &taken)
	p.AwaitHeldEverywhere(p.t, name, held)
}

// requireQuorum requires that most servers hold the value under the key. Both libraries return once
// a quorum has answered, so the last servers may be behind.
func (p *pair) requireQuorum(value string) {
	p.t.Helper()
	require.GreaterOrEqual(p.t, p.Holding(p.t, name, value), quorum)
}

// outlive gives the key another life on a minority, as if a SET had arrived there later.
func (p *pair) outlive() {
	p.t.Helper()
	for _, m := range p.Masters[:servers-quorum] {
		_, err := m.Do("PEXPIRE", name, 3000)
		require.NoError(p.t, err)
	}
}

// requireDone requires that a call of redsync succeeds.
func requireDone(t *testing.T, call func(context.Context) (bool, error)) {
	t.Helper()
	ok, err := call(t.Context())
	require.NoError(t, err)
	require.True(t, ok)
}

// requireNothing requires that a call of redsync fails.
func requireNothing(t *testing.T, call func(context.Context) (bool, error)) {
	t.Helper()
	ok, err := call(t.Context())
	require.Error(t, err)
	require.False(t, ok)
}

// kinds are our locks that exclude a mutex of redsync.
var kinds = map[string]struct {
	try, wait func(*redlock.Locker, context.Context, string, ...redlock.LockOption) (*redlock.Lock, error)
	value     func(*redlock.Lock) string // what the servers hold
}{
	"mutex":  {(*redlock.Locker).TryLock, (*redlock.Locker).Lock, (*redlock.Lock).Value},
	"reader": {(*redlock.Locker).TryRLock, (*redlock.Locker).RLock, func(*redlock.Lock) string { return readersMarker }},
}

func TestWhatRedsyncHoldsIsTakenUntilItUnlocks(t *testing.T) {
	for kind, ours := range kinds {
		t.Run(kind, func(t *testing.T) {
			p := newPair(t)
			mutex := p.mutex(name)
			require.NoError(t, mutex.LockContext(t.Context()))
			p.AwaitHeldEverywhere(t, name, mutex.Value())
			_, err := ours.try(p.ours, t.Context(), name)
			require.ErrorIs(t, err, redlock.ErrTaken)
			p.AwaitHeldEverywhere(t, name, mutex.Value()) // undoing our attempt left it alone

			locks, errs := make(chan *redlock.Lock, 1), make(chan error, 1)
			go func() {
				lock, err := ours.wait(p.ours, t.Context(), name)
				locks <- lock
				errs <- err
			}()
			polled := func() bool { return p.ours.Stats().Polls >= 2 }
			require.Eventually(t, polled, time.Minute, time.Millisecond, "nothing wakes Lock, so it polls")
			require.Empty(t, locks)

			requireDone(t, mutex.UnlockContext)
			lock := <-locks
			require.NoError(t, <-errs)
			p.requireQuorum(ours.value(lock))
			require.NoError(t, lock.Unlock(t.Context()))
			cluster.RequireClean(t, p.Masters...)
		})
	}
}

func TestWhatRedsyncLeftBehindIsOursWhenItExpires(t *testing.T) {
	for kind, ours := range kinds {
		t.Run(kind, func(t *testing.T) {
			p := newPair(t)
			mutex := p.waiting(name, redsync.WithExpiry(shortTTL), redsync.WithSetNXOnExtend()) // at once, or again on a busy machine
			require.NoError(t, mutex.LockContext(t.Context()))
			p.outlive()
			lock, err := ours.wait(p.ours, t.Context(), name)
			granted := time.Now()
			require.NoError(t, err)
			assert.False(t, granted.Before(mutex.Until()), "granted %v before redsync's validity ended", mutex.Until().Sub(granted))
			p.requireQuorum(ours.value(lock))

			// Its late calls must not touch our lock.
			requireNothing(t, mutex.ExtendContext)
			requireNothing(t, mutex.UnlockContext)
			p.requireQuorum(ours.value(lock))
			require.NoError(t, lock.Verify(t.Context()))
			require.NoError(t, lock.Unlock(t.Context()))
		})
	}
}

func TestWhatWeHoldIsTakenForRedsyncUntilTheLastOfUsUnlocks(t *testing.T) {
	for kind, ours := range kinds {
		t.Run(kind, func(t *testing.T) {
			p := newPair(t)
			holders := map[string]int{"mutex": 1, "reader": 2}[kind]
			var locks []*redlock.Lock
			for range holders {
				lock, err := ours.try(p.ours, t.Context(), name)
				require.NoError(t, err)
				p.AwaitHeldEverywhere(t, name, ours.value(lock))
				locks = append(locks, lock)
			}
			mutex, waited := p.waiting(name), make(chan error, 1)
			go func() { waited <- mutex.LockContext(t.Context()) }()
			for _, lock := range locks {
				p.requireRefused(name, ours.value(lock))
				require.NoError(t, lock.Verify(t.Context()))
				require.Empty(t, waited)
				require.NoError(t, lock.Unlock(t.Context()))
			}
			require.NoError(t, <-waited)
			p.requireQuorum(mutex.Value())
			requireDone(t, mutex.UnlockContext)
			cluster.RequireClean(t, p.Masters...)
		})
	}
}

func TestWhatWeLostIsRedsyncsWhenItExpires(t *testing.T) {
	for kind, ours := range kinds {
		t.Run(kind, func(t *testing.T) {
			p := newPair(t)
			release := func(context.Context) error { return nil }
			if kind == "reader" { // it is gone before the one that dies
				living, err := ours.try(p.ours, t.Context(), name)
				require.NoError(t, err)
				p.AwaitHeldEverywhere(t, name, readersMarker)
				release = living.Unlock
			}
			lock, err := ours.wait(p.ours, t.Context(), name, redlock.WithTTL(shortTTL), redlock.WithoutRenewal())
			require.NoError(t, err)
			require.NoError(t, release(t.Context()))
			p.outlive()
			mutex := p.waiting(name)
			require.NoError(t, mutex.LockContext(t.Context()))
			require.ErrorIs(t, lock.Err(), redlock.ErrLost, "redsync has the lock")
			p.requireQuorum(mutex.Value())

			// Our late unlock must not release its lock.
			require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrLost)
			p.requireQuorum(mutex.Value())
			_, err = ours.try(p.ours, t.Context(), name)
			require.ErrorIs(t, err, redlock.ErrTaken)
			requireDone(t, mutex.UnlockContext)
		})
	}
}

func TestAKeyPrefixIsPartOfTheNameForRedsync(t *testing.T) {
	p := newPair(t, redlock.WithKeyPrefix("locks:"), redlock.WithOwner("host-7"))
	lock, err := p.ours.TryLock(t.Context(), name)
	require.NoError(t, err)
	p.AwaitHeldEverywhere(t, "locks:"+name, lock.Value())
	p.requireRefused("locks:"+name, lock.Value())
	require.NoError(t, p.mutex(name).LockContext(t.Context()), "without the prefix it is another lock")
}

// The kit for users' tests is not a Redis, so here other clients use it as one.
func TestRedsyncOverGoRedisAndOursExcludeEachOtherOnTheTestKit(t *testing.T) {
	c := redlocktest.Start(t, servers)
	ours := c.Locker(t, redlock.WithTTL(ttl), redlock.WithNodeTimeout(patience))
	var pools []redis.Pool
	for _, endpoint := range c.Endpoints() {
		client := goredislib.NewClient(&goredislib.Options{Addr: endpoint})
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		pools = append(pools, goredis.NewPool(client))
	}
	theirs := redsync.New(pools...).NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1),
		redsync.WithTimeoutFactor(float64(patience)/float64(ttl)))

	c.Node(0).Stop()
	c.Node(1).Stop()
	require.NoError(t, theirs.LockContext(t.Context()))
	assert.Equal(t, theirs.Value(), c.Holder(name))
	_, err := ours.TryLock(t.Context(), name)
	require.ErrorIs(t, err, redlock.ErrTaken)
	requireDone(t, theirs.ExtendContext)
	requireDone(t, theirs.UnlockContext)
	c.Node(0).Start()
	c.Node(1).Start()

	lock, err := ours.TryLock(t.Context(), name)
	require.NoError(t, err)
	require.Error(t, theirs.LockContext(t.Context()))
	c.Expire(name)
	require.NoError(t, theirs.LockContext(t.Context()))
	require.ErrorIs(t, lock.Verify(t.Context()), redlock.ErrLost)
	assert.Equal(t, theirs.Value(), c.Holder(name))
	assert.Less(t, time.Until(theirs.Until()), ttl)
}
