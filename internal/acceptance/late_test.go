package acceptance_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/cluster"
	"github.com/redquorum/redquorum/internal/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// latePath is a path to a master that delivers the first SET late, even if the client has closed
// its connection by then, and loses what was sent behind it. A proxy, or a network that heals, can
// do that. Other connections are not delayed.
type latePath struct {
	by        time.Duration
	begun     atomic.Bool
	delivered chan struct{} // closed when the SET was given to the server, or could not be
}

func (p *latePath) to(t *testing.T, m cluster.Master) (url string) {
	t.Helper()
	return redistest.FakeServer(t, func(client net.Conn) {
		server, err := net.Dial("tcp", m.Addr())
		if err != nil {
			return
		}
		var replies sync.WaitGroup
		replies.Go(func() { _, _ = io.Copy(client, server) }) //nolint:errcheck // either connection ends it
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
				time.Sleep(p.by)
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

// The connection is given up long before the SET arrives. The release goes out on the next
// connection, and must not come first: that connection kills the old one at the server before
// anything else.
func TestSetThatArrivesAfterItsConnectionWasGivenUpLeavesNoKey(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	path := &latePath{by: time.Second, delivered: make(chan struct{})}
	urls := c.URLs()
	urls[4] = path.to(t, c.Masters[4])
	l := cluster.NewConnected(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(300*time.Millisecond),
		redlock.WithPool(pool.WithStallTimeout(50*time.Millisecond)))
	lock, err := l.TryLock(t.Context(), cluster.LockName(t))
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
	<-path.delivered
	assert.EqualValues(t, 6, connects(l), "the node is on its second connection")
	for until := time.Now().Add(300 * time.Millisecond); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		require.Empty(t, cluster.Holder(t, c.Masters[4], cluster.LockName(t)), "the SET was executed after its release")
	}
	cluster.RequireClean(t, c.Masters...)
}
