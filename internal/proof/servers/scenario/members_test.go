package scenario_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// The first two of three masters have a lock. The second one loses its keys, and then somebody
// imports a backup of it.
func TestAMarkerFromABackupIsNotBelieved(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 4)
	urls := []string{servers[0].URL(), servers[1].URL(), servers[2].URL()}
	opts := patiently(redlock.WithMaxTTL(longTTL))
	founder := cluster.NewLocker(t, urls, opts...)
	cluster.RequireUp(t, founder, func(n redlock.NodeStats) bool { return n.Barred == nil })
	var cut atomic.Bool
	cut.Store(true)
	dialer := pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		if cut.Load() && address == servers[2].Addr() {
			return nil, errors.New("cut off")
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
	holder := cluster.NewLocker(t, urls, append(opts, redlock.WithPool(dialer), redlock.WithoutRenewal())...)
	awaitUp(t, holder, 0, 1)
	lock := take(t, holder, cluster.LockName(t))
	cut.Store(false)

	migrate := func(from, to *redistest.Server) {
		host, port, err := net.SplitHostPort(to.Addr())
		require.NoError(t, err)
		do(t, from, "MIGRATE", host, port, "", 0, 5000, "COPY", "REPLACE", "KEYS", pipeline.MemoryKey, pipeline.RegisterKey)
	}
	migrate(servers[1], servers[3])
	do(t, servers[1], "FLUSHALL")
	for _, other := range []*redistest.Server{servers[0], servers[2]} {
		await(t, "the others know", func() bool { return strings.Contains(cluster.Holder(t, other, pipeline.MemoryKey), " lives=") })
	}
	migrate(servers[3], servers[1])

	waiting, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := cluster.NewLocker(t, urls, opts...).Lock(waiting, lock.Name())
	require.Error(t, err, "two holders")
	require.NoError(t, lock.Err())
	give(t, lock)
}
