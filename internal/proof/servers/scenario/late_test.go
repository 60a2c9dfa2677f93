package scenario_test

import (
	"bytes"
	"net"
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

// latePath is a path to a master that delivers the first SET late, even if the client has closed
// its connection by then, and loses what was sent behind it. A proxy, or a network that heals, can
// do that. Other connections are not delayed.
type latePath struct {
	name      string // of the lock
	begun     atomic.Bool
	deliver   chan struct{} // closed by the test when the SET may go on
	delivered chan struct{} // closed when the SET was given to the server, or could not be
	later     atomic.Int32  // replies to what named the lock on the other connections
}

func (p *latePath) to(t *testing.T, m cluster.Master) (url string) {
	t.Helper()
	return redistest.FakeServer(t, func(client net.Conn) {
		server, err := net.Dial("tcp", m.Addr())
		if err != nil {
			return
		}
		var named atomic.Bool
		var replies sync.WaitGroup
		replies.Go(func() { p.reply(client, server, &named) })
		defer replies.Wait()
		defer server.Close()
		buf := make([]byte, 4096)
		for {
			n, err := client.Read(buf)
			if err != nil {
				return
			}
			late := bytes.Contains(buf[:n], []byte("\r\nSET\r\n")) && p.begun.CompareAndSwap(false, true)
			if late {
				<-p.deliver
			} else if bytes.Contains(buf[:n], []byte(p.name)) {
				named.Store(true)
			}
			_, err = server.Write(buf[:n])
			if late {
				close(p.delivered)
				return
			}
			if err != nil {
				return
			}
		}
	}).URL()
}

// reply hands on what the server answers until either connection ends.
func (p *latePath) reply(client, server net.Conn, named *atomic.Bool) {
	buf := make([]byte, 4096)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if named.Load() {
			p.later.Add(1)
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// The connection is given up, and the release goes out on the next one. It must not come before the
// SET: that connection kills the old one at the server before anything else.
func TestSetThatArrivesAfterItsConnectionWasGivenUpLeavesNoKey(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	name := cluster.LockName(t)
	path := &latePath{name: name, deliver: make(chan struct{}), delivered: make(chan struct{})}
	urls := c.URLs()
	urls[4] = path.to(t, c.Masters[4])
	l := cluster.NewConnected(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(time.Second),
		redlock.WithPool(pool.WithStallTimeout(500*time.Millisecond)))
	lock, err := l.TryLock(t.Context(), name)
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
	assert.Eventually(t, func() bool { return l.Stats().Nodes[4].Connects > 1 && path.later.Load() > 0 },
		4*slack, time.Millisecond, "the release is answered on a second connection")
	close(path.deliver)
	<-path.delivered
	for until := time.Now().Add(300 * time.Millisecond); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		require.Empty(t, cluster.Holder(t, c.Masters[4], name), "the SET was executed after its release")
	}
	cluster.RequireClean(t, c.Masters...)
}
