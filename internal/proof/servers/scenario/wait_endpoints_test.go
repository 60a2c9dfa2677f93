package scenario_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// wakes asserts that a waiter of one Locker, which does not poll, is woken by the release of
// another.
func wakes(t *testing.T, server *redistest.Server, endpoint string, opts ...redlock.Option) {
	t.Helper()
	subscribed := func() int {
		channels, err := redis.Strings(server.Do("PUBSUB", "CHANNELS", "redquorum:wake:*"))
		require.NoError(t, err)
		return len(channels)
	}
	others := subscribed()
	opts = append([]redlock.Option{
		redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience), redlock.WithRetry(20*time.Second, 20*time.Second),
	}, opts...)
	holder, waiter := cluster.NewConnected(t, []string{endpoint}, opts...), cluster.NewConnected(t, []string{endpoint}, opts...)
	var lock *redlock.Lock
	handsOver(t, waiter, slack, func(name string) {
		var err error
		lock, err = holder.Lock(t.Context(), name)
		require.NoError(t, err)
	}, func(name string) {
		cluster.Eventually(t, slack, func() string {
			status, err := waiter.Inspect(t.Context(), name)
			if err != nil || status.Nodes[0].Waiting != 1 || subscribed() == others {
				return fmt.Sprintf("a waiter that is subscribed: %+v, %v", status, err)
			}
			return ""
		})
		require.NoError(t, lock.Unlock(t.Context()))
	})
	assert.Equal(t, uint64(1), waiter.Stats().Woken, endpoint)
}

func TestWaitersAreWokenOverEveryKindOfConnection(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	server := redistest.StartOne(t, redistest.WithPassword("secret"), redistest.WithUnixSocket())
	credentials := redlock.WithPool(pool.WithCredentials(func(context.Context, string) (username, password string, err error) {
		return "", "secret", nil
	}))
	t.Run("unix", func(t *testing.T) { wakes(t, server, "unix://"+server.Socket()+"?db=3", credentials) })
	t.Run("database", func(t *testing.T) { wakes(t, server, "redis://"+server.Addr()+"/2", credentials) })
	t.Run("TLS", func(t *testing.T) {
		wakes(t, server, fmt.Sprintf("rediss://:secret@%s/4", listenTLS(t, server, a)),
			redlock.WithPool(pool.WithTLSConfig(&tls.Config{RootCAs: a.pool, MinVersion: tls.VersionTLS12})))
	})
}

// Channels belong to a server, keys to a database: locks of the same name in two databases have
// nothing to do with each other.
func TestWaitersInTwoDatabasesOfOneServerAreApart(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t)
	in := func(database int) *redlock.Locker {
		return cluster.NewConnected(t, []string{fmt.Sprintf("%s/%d", server.URL(), database)}, redlock.WithRetry(4*slack, 4*slack))
	}
	name := cluster.LockName(t)
	first, err := in(1).Lock(t.Context(), name)
	require.NoError(t, err)
	waiter := in(1)
	got := make(chan *redlock.Lock, 1)
	go func() {
		lock, err := waiter.Lock(t.Context(), name)
		assert.NoError(t, err)
		got <- lock
	}()
	cluster.Eventually(t, slack, func() string {
		if status, err := waiter.Inspect(t.Context(), name); err != nil || status.Nodes[0].Waiting != 1 {
			return "a waiter"
		}
		return ""
	})
	wakes(t, server, server.URL()+"/0")
	assert.Zero(t, waiter.Stats().Woken)
	assert.Empty(t, got)
	require.NoError(t, first.Verify(t.Context()))
	require.NoError(t, first.Unlock(t.Context()))
	next := <-got
	require.NotNil(t, next)
	assert.Equal(t, uint64(1), waiter.Stats().Woken)
	require.NoError(t, next.Unlock(t.Context()))
}
