package scenario_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// address moves from server to server, like a service name or a virtual IP.
type address struct {
	url    string
	target atomic.Pointer[string]
}

func newAddress(t *testing.T, target string) *address {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	a := &address{url: "redis://" + listener.Addr().String()}
	a.target.Store(&target)
	var running sync.WaitGroup
	var closing atomic.Bool
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { a.forward(client, &closing) })
		}
	})
	t.Cleanup(func() {
		closing.Store(true)
		assert.NoError(t, listener.Close())
		running.Wait()
	})
	return a
}

// forward passes bytes on until one side ends.
func (a *address) forward(client net.Conn, closing *atomic.Bool) {
	defer client.Close()
	if closing.Load() {
		return
	}
	server, err := net.Dial("tcp", *a.target.Load())
	if err != nil {
		return
	}
	defer server.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server) //nolint:errcheck // the end of a connection is what it is
		client.Close()
		server.Close()
	})
	_, _ = io.Copy(server, client) //nolint:errcheck // likewise
	server.Close()
	back.Wait()
}

// replicate makes a server a replica, and waits until it has the keys of its master.
func replicate(t *testing.T, replica, of cluster.Master) {
	t.Helper()
	host, port, err := net.SplitHostPort(of.Addr())
	require.NoError(t, err)
	do(t, replica, "REPLICAOF", host, port)
	cluster.Eventually(t, 10*time.Second, func() string {
		reply, err := replica.Do("INFO", "replication")
		info, _ := reply.([]byte)
		if err != nil || !strings.Contains(string(info), "master_link_status:up") {
			return "the replica is in step"
		}
		return ""
	})
}

// A replica that missed the lock becomes the master at the same address. It has been up for a long
// time, and does not know the lock.
func TestHoldingOutlastsThePromotionOfAReplicaThatMissedTheLock(t *testing.T) {
	t.Parallel()
	c := startAged(t, knownTTL)
	replica := redistest.StartOne(t, redistest.WithArgs("--repl-diskless-sync-delay", "0"))
	do(t, c.Masters[2], "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	replicate(t, replica, c.Masters[2])
	cluster.Eventually(t, 10*time.Second, func() string {
		if uptime(t, replica) <= int(knownTTL/time.Second) {
			return "the replica is old"
		}
		return ""
	})
	proxiesA, urlsA := c.BehindProxies(t)
	proxiesB, urlsB := c.BehindProxies(t)
	place := newAddress(t, c.Masters[2].Addr())
	urlsA[2], urlsB[2] = place.url, place.url
	opts := []redlock.Option{redlock.WithTTL(knownTTL), redlock.WithMaxTTL(knownTTL), redlock.WithNodeTimeout(knownTTL / 4), redlock.WithoutRenewal()}
	a, b := cluster.NewConnected(t, urlsA, opts...), cluster.NewConnected(t, urlsB, opts...)
	leave(proxiesA[3:]...)
	leave(proxiesB[:2]...)
	awaitUp(t, a, 0, 1, 2)

	must(t, replica.Stop())
	held, err := a.TryLock(t.Context(), cluster.LockName(t))
	require.NoError(t, err)
	began := time.Now()
	must(t, c.Masters[2].Kill())
	must(t, replica.Continue())
	do(t, replica, "REPLICAOF", "NO", "ONE")
	do(t, replica, "DEL", cluster.LockName(t)) // what it may have received while it stood still
	addr := replica.Addr()
	place.target.Store(&addr)
	reply, err := replica.Do("INFO", "server")
	require.NoError(t, err)
	info := fmt.Sprintf("%s", reply)
	// Not while b still has its connection to the predecessor.
	cluster.Eventually(t, slack, func() string {
		if node := b.Stats().Nodes[2]; node.State != pool.Up || !strings.Contains(info, node.RunID) {
			return "the promoted replica is met"
		}
		return ""
	})
	awaitUp(t, b, 2, 3, 4)
	promoted := time.Now()

	_, err = b.TryLock(t.Context(), cluster.LockName(t))
	t.Log(err)
	skipIfExpired(t, held)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.Equal(t, urlsB[2:3], nodesThatSay(t, err, inQuarantine))
	require.ErrorContains(t, err, "it lost its keys, or was replaced")

	next, err := b.Lock(t.Context(), cluster.LockName(t), redlock.WithRetry(time.Millisecond, 5*time.Millisecond))
	require.NoError(t, err)
	t.Logf("the next holder came %v after the lock", time.Since(began).Round(time.Millisecond))
	requireLostBecause(t, held, "validity has ended")
	assert.Less(t, time.Since(promoted), knownTTL+2*slack)
	require.NoError(t, next.Unlock(t.Context()))
}
