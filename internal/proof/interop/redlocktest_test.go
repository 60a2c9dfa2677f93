package interop

import (
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

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
	extended, err := theirs.ExtendContext(t.Context())
	require.NoError(t, err)
	assert.True(t, extended)
	released, err := theirs.UnlockContext(t.Context())
	require.NoError(t, err)
	assert.True(t, released)
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
