package pool_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/pool"
)

// onFakeServer runs a test in virtual time on a node. prepare changes its server before the node
// dials.
func onFakeServer(t *testing.T, prepare func(*fake.Node), test func(*pool.Node, *fake.Node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		server := fake.New(clk)
		defer server.Close()
		prepare(server)
		node, err := pool.NewNode("redis://:hunter2@fake:6379/1", pool.WithClock(clk), pool.WithDialer(
			func(ctx context.Context, _, _ string) (net.Conn, error) { return server.Dial(ctx) }))
		require.NoError(t, err)
		defer func() { assert.NoError(t, node.Close()) }()
		synctest.Wait()
		test(node, server)
	})
}

// acceptPassword makes the server take any password.
func acceptPassword(server *fake.Node) {
	server.ReplyRaw(func(cmd []string) []byte {
		if cmd[0] == "AUTH" {
			return []byte("+OK\r\n")
		}
		return nil
	})
}

func TestErrorsTellWhyANodeIsDown(t *testing.T) {
	answer := func(raw string) func(*fake.Node) {
		return func(server *fake.Node) { server.ReplyRaw(func([]string) []byte { return []byte(raw) }) }
	}
	info := func(field, value string) func(*fake.Node) {
		return func(server *fake.Node) {
			acceptPassword(server)
			server.SetInfo(field, value)
		}
	}
	all := []error{
		pool.ErrReplica, pool.ErrClusterMode, pool.ErrSentinelMode, pool.ErrNoScripts, pool.ErrAuth, pool.ErrProtocol,
		pool.ErrClosed, pool.ErrTimeout, pool.ErrBusy, pool.ErrStalled, pool.ErrDuplicate, pool.ErrQuarantined, pool.ErrEndpoint,
	}
	for name, c := range map[string]struct {
		prepare func(*fake.Node)
		want    error
		refused bool // the server must not have a vote
	}{
		"replica":           {info("role", "slave"), pool.ErrReplica, true},
		"member of cluster": {info("redis_mode", "cluster"), pool.ErrClusterMode, true},
		"Sentinel":          {info("redis_mode", "sentinel"), pool.ErrSentinelMode, true},
		"no scripts": {func(server *fake.Node) {
			acceptPassword(server)
			server.RefuseWith("ERR unknown command", "SCRIPT", "EVALSHA", "EVAL")
		}, pool.ErrNoScripts, true},
		"wrong password": {answer("-WRONGPASS invalid username-password pair or user is disabled.\r\n"), pool.ErrAuth, false},
		"web server":     {answer("HTTP/1.1 400 Bad Request\r\n\r\n"), pool.ErrProtocol, false},
		"nothing":        {(*fake.Node).Kill, syscall.ECONNREFUSED, false},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeServer(t, c.prepare, func(node *pool.Node, _ *fake.Node) {
				require.Equal(t, pool.Down, node.State())
				stats := node.Stats()
				require.ErrorIs(t, stats.Err, c.want)
				assert.NotContains(t, stats.Err.Error(), "hunter2")
				if c.refused {
					assert.ErrorIs(t, stats.Err, pool.ErrRefused)
				} else {
					assert.NotErrorIs(t, stats.Err, pool.ErrRefused)
				}
				for _, other := range all {
					if other != c.want { //nolint:errorlint // identity is meant
						assert.NotErrorIs(t, stats.Err, other)
					}
				}
			})
		})
	}
}

func TestNodeTellsWhoAnswersAndHowItIs(t *testing.T) {
	stopped := func(server *fake.Node) {
		acceptPassword(server)
		server.Stop()
	}
	onFakeServer(t, stopped, func(node *pool.Node, server *fake.Node) {
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
		assert.Equal(t, pool.Stats{
			Endpoint: node.Endpoint(), State: pool.Up, RunID: id.RunID, Product: id.Product, Version: id.Version, Connects: 1,
		}, node.Stats())

		server.Kill()
		time.Sleep(time.Second)
		assert.Equal(t, pool.Down, node.State())
		require.ErrorIs(t, node.Stats().Err, syscall.ECONNREFUSED)
		again, _ := node.Identity()
		assert.Equal(t, id, again, "the one that answered last")

		server.Restart(false)
		time.Sleep(time.Second)
		assert.Equal(t, pool.Up, node.State())
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
		"ping":        pool.WithIdlePing(0),
		"backoff":     pool.WithBackoff(time.Second, time.Millisecond),
	} {
		_, err := pool.NewNode("localhost:1", opt)
		assert.ErrorIs(t, err, pool.ErrEndpoint, name)
	}
}
