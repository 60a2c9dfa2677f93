package redsync_test

import (
	"context"
	"testing"

	original "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
)

// newPools returns what redsync itself reaches the masters by.
func newPools(tb testing.TB, masters []cluster.Master) (pools []original.Pool) {
	tb.Helper()
	for _, m := range masters {
		pool := &redis.Pool{
			MaxIdle:     8,
			DialContext: func(ctx context.Context) (redis.Conn, error) { return redis.DialContext(ctx, "tcp", m.Addr()) },
		}
		tb.Cleanup(func() { assert.NoError(tb, pool.Close()) })
		pools = append(pools, redigo.NewPool(pool))
	}
	return pools
}
