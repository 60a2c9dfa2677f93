package redsync

// What redsync's own tests use of redsync's inside, on the shim.

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4/redis"

	shim "github.com/redquorum/redquorum/contrib/redsync"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

type (
	DelayFunc    = shim.DelayFunc
	Option       = shim.Option
	ErrTaken     = shim.ErrTaken
	ErrNodeTaken = shim.ErrNodeTaken
	RedisError   = shim.RedisError
)

var (
	ErrFailed  = shim.ErrFailed
	WithExpiry = shim.WithExpiry
	WithValue  = shim.WithValue
)

func genValue() (string, error) { return rand.Text(), nil }

// The tests use four or eight masters.
var (
	lockers = map[int]*redlock.Locker{}
	servers = map[int][]redis.Pool{}
)

func startServers(t *testing.T) {
	for _, n := range []int{4, 8} {
		c := cluster.Start(t, n)
		servers[n] = newPools(t, c.Masters)
		lockers[n] = cluster.NewConnected(t, c.URLs(), redlock.WithMaxTTL(2*time.Hour), redlock.WithNodeTimeout(10*time.Second))
	}
}

type testCase struct {
	poolCount int
	pools     []redis.Pool
}

func makeCases(n int) map[string]*testCase {
	return map[string]*testCase{"redlock": {n, servers[n]}}
}

type Redsync struct{ pools []redis.Pool }

func New(pools ...redis.Pool) *Redsync { return &Redsync{pools} }

func (r *Redsync) NewMutex(name string, options ...Option) *Mutex {
	return &Mutex{
		name: name, quorum: len(r.pools)/2 + 1, pools: r.pools,
		shim: shim.New(lockers[len(r.pools)]).NewMutex(name, options...),
	}
}

// Mutex has the fields that the tests set and read. The Mutex of the shim is made of them when it
// is first used.
type Mutex struct {
	name          string
	expiry        time.Duration
	tries         int
	delayFunc     DelayFunc
	driftFactor   float64
	timeoutFactor float64
	quorum        int
	genValueFunc  func() (string, error)
	value         string
	setNXOnExtend bool
	pools         []redis.Pool

	shim *shim.Mutex
}

func (m *Mutex) made() *shim.Mutex {
	if m.shim != nil {
		return m.shim
	}
	options := []Option{
		WithExpiry(m.expiry), shim.WithTries(m.tries), shim.WithRetryDelayFunc(m.delayFunc), shim.WithGenValueFunc(m.genValueFunc),
		shim.WithDriftFactor(m.driftFactor), shim.WithTimeoutFactor(m.timeoutFactor),
	}
	if m.setNXOnExtend {
		options = append(options, shim.WithSetNXOnExtend())
	}
	m.shim = shim.New(lockers[len(m.pools)]).NewMutex(m.name, options...)
	return m.shim
}

// done takes over the value after a call.
func (m *Mutex) done() { m.value = m.shim.Value() }

func (m *Mutex) Value() string { return m.made().Value() }

func (m *Mutex) Lock() error {
	defer m.done()
	return m.made().Lock()
}

func (m *Mutex) TryLock() error {
	defer m.done()
	return m.made().TryLock()
}

func (m *Mutex) TryLockContext(ctx context.Context) error {
	defer m.done()
	return m.made().TryLockContext(ctx)
}

// Extend asks all masters behind the extension: the test looks at each, and the shim waits for a
// quorum only.
func (m *Mutex) Extend() (bool, error) {
	defer m.done()
	ok, err := m.made().Extend()
	if ok {
		if _, err := m.shim.Valid(); err != nil {
			return false, err
		}
	}
	return ok, err
}

func (m *Mutex) Unlock() (bool, error) {
	defer m.done()
	return m.made().Unlock()
}

func (m *Mutex) Valid() (bool, error) { return m.made().Valid() }
