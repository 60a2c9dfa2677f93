package interop

import (
	"context"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

const (
	servers = 5
	quorum  = servers/2 + 1

	// ttl is longer than any test, so that a lock expires only in the tests about expiry. Both
	// kinds of clients use it.
	ttl = time.Minute

	// patience bounds every wait for something that takes milliseconds.
	patience = 10 * time.Second
)

// cluster is five servers and a client of each kind.
type cluster struct {
	t       *testing.T
	servers []*redistest.Server
	ours    *redlock.Locker
	theirs  *redsync.Redsync
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, servers: redistest.Start(t, servers)}
	var addresses []string
	var pools []redsyncredis.Pool
	for _, server := range c.servers {
		addresses = append(addresses, server.Addr())
		pool := &redis.Pool{
			MaxIdle:     servers,
			DialContext: func(ctx context.Context) (redis.Conn, error) { return redis.DialContext(ctx, "tcp", server.Addr()) },
		}
		t.Cleanup(func() { assert.NoError(t, pool.Close()) })
		pools = append(pools, redsyncredigo.NewPool(pool))
	}
	c.theirs = redsync.New(pools...)
	ours, err := redlock.New(addresses, redlock.WithTTL(ttl), redlock.WithNodeTimeout(patience))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, ours.Close()) })
	require.NoError(t, ours.Ready(t.Context()))
	c.ours = ours
	return c
}

// mutex returns a lock of redsync that makes one attempt, as long as it takes.
func (c *cluster) mutex(name string, options ...redsync.Option) *redsync.Mutex {
	return c.theirs.NewMutex(name, append([]redsync.Option{redsync.WithTries(1), redsync.WithTimeoutFactor(1), redsync.WithExpiry(ttl)}, options...)...)
}

// requireRefused tries the lock with redsync, which must find it taken.
func (c *cluster) requireRefused(name string) {
	c.t.Helper()
	err := c.mutex(name).LockContext(c.t.Context())
	var taken *redsync.ErrTaken
	require.ErrorAs(c.t, err, &taken)
}

// extend gives the key another life on the first n servers.
func (c *cluster) extend(key string, n int, ttl time.Duration) {
	c.t.Helper()
	for _, server := range c.servers[:n] {
		_, err := server.Do("PEXPIRE", key, ttl.Milliseconds())
		require.NoError(c.t, err)
	}
}

// requireKey waits until every server holds the value under the key, or no such key if the value is
// "". Both libraries return once a quorum has answered, so the last servers may be behind.
func (c *cluster) requireKey(key, value string) {
	c.t.Helper()
	require.EventuallyWithT(c.t, func(t *assert.CollectT) {
		for _, server := range c.servers {
			got, err := redis.String(server.Do("GET", key))
			if value == "" {
				assert.ErrorIs(t, err, redis.ErrNil, "%s has %q", server.Addr(), got)
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, value, got, server.Addr())
		}
	}, patience, time.Millisecond)
}

// requireQuorum requires that most servers hold the value under the key.
func (c *cluster) requireQuorum(key, value string) {
	c.t.Helper()
	holders := 0
	for _, server := range c.servers {
		if got, err := redis.String(server.Do("GET", key)); err == nil && got == value {
			holders++
		}
	}
	require.GreaterOrEqual(c.t, holders, quorum)
}
