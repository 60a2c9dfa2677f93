package pool_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/pool"
)

func TestNoErrorMatchesAnotherButTheReasonsToRefuseAServer(t *testing.T) {
	refusals := []error{pool.ErrReplica, pool.ErrClusterMode, pool.ErrSentinelMode, pool.ErrNoScripts, pool.ErrDuplicate}
	all := append([]error{
		pool.ErrAuth, pool.ErrProtocol, pool.ErrClosed, pool.ErrTimeout, pool.ErrBusy, pool.ErrStalled, pool.ErrQuarantined, pool.ErrEndpoint,
	}, refusals...)
	for i, reason := range all {
		for j, other := range all {
			assert.Equal(t, i == j, errors.Is(reason, other), "%v, %v", reason, other)
		}
		assert.Equal(t, slices.Contains(refusals, reason), errors.Is(reason, pool.ErrRefused), reason)
	}
}

func TestNodeTellsWhoAnswersAndHowItIs(t *testing.T) {
	fakeredis.InBubble(t, 1, func(t *testing.T, clk *clocktest.Clock, nodes fakeredis.Cluster) {
		server := nodes[0]
		server.Stop()
		server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "AUTH" {
				return []byte("+OK\r\n")
			}
			return nil
		})
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return server.Dial(ctx) }
		node, err := pool.NewNode("redis://:hunter2@fake:6379/1", pool.WithClock(clk), pool.WithDialer(dial))
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, "redis://fake:6379/1", node.Endpoint())
		assert.Equal(t, pool.Connecting, node.State())
		_, met := node.Identity()
		assert.False(t, met)

		server.Continue()
		synctest.Wait()
		assert.Equal(t, pool.Up, node.State())
		id, met := node.Identity()
		require.True(t, met)
		assert.Equal(t, server.RunID(), id.RunID)
		assert.Equal(t, "redis", id.Product)
		assert.False(t, id.Durable, "by its INFO, a restart may lose something")
		assert.Equal(t, pool.Stats{
			Endpoint: node.Endpoint(), State: pool.Up, RunID: id.RunID, Product: id.Product, Version: id.Version, Connects: 1,
		}, node.Stats())

		server.Kill()
		time.Sleep(time.Second)
		assert.Equal(t, pool.Down, node.State())
		require.ErrorIs(t, node.Stats().Err, syscall.ECONNREFUSED)
		again, _ := node.Identity()
		assert.Equal(t, id, again, "the one that answered last")

		for setting, value := range map[string]string{"appendonly": "yes", "appendfsync": "always", "aof-load-truncated": "no"} {
			server.SetConfig(setting, value)
		}
		server.Restart(false)
		time.Sleep(time.Second)
		assert.Equal(t, pool.Up, node.State())
		again, _ = node.Identity()
		assert.True(t, again.Durable)
		assert.EqualValues(t, 2, node.Stats().Connects)
		assert.Zero(t, node.Drain(context.Background()))
		require.NoError(t, node.Close())
		assert.Equal(t, pool.Closed, node.State())
	})
}

func TestBadEndpointsAndOptionsAreErrorsAtOnce(t *testing.T) {
	for _, endpoint := range []string{"", "redis://:hunter2@host:port", "http://host"} {
		node, err := pool.NewNode(endpoint)
		require.ErrorIs(t, err, pool.ErrEndpoint)
		assert.NotContains(t, err.Error(), "hunter2")
		assert.Nil(t, node)
	}
	for name, opt := range map[string]pool.Option{
		"nil":         nil,
		"tls":         pool.WithTLSConfig(nil),
		"dialer":      pool.WithDialer(nil),
		"credentials": pool.WithCredentials(nil),
		"clock":       pool.WithClock(nil),
		"name":        pool.WithClientName("a b"),
		"dial":        pool.WithDialTimeout(time.Millisecond - 1),
		"stall":       pool.WithStallTimeout(time.Minute + 1),
		"backoff":     pool.WithBackoff(time.Second, time.Millisecond),
		"backoff 0":   pool.WithBackoff(0, time.Millisecond),
	} {
		_, err := pool.NewNode("localhost:1", opt)
		assert.ErrorIs(t, err, pool.ErrEndpoint, name)
	}
}
