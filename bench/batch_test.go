package bench

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// traffic counts what goes over the connections of a Locker.
type traffic struct {
	writes, reads     atomic.Int64 // system calls
	commands, scripts atomic.Int64
}

func (c *traffic) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &counted{conn, c}, err
}

type counted struct {
	net.Conn
	traffic *traffic
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.traffic.reads.Add(1)
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	c.traffic.writes.Add(1)
	c.traffic.commands.Add(int64(contention.CommandsIn(p)))
	c.traffic.scripts.Add(int64(bytes.Count(p, []byte("\r\nEVALSHA\r\n"))))
	return c.Conn.Write(p)
}

// BenchmarkBatch shows how full writes, reads and scripts are: commands per write, keys per script,
// writes and reads per lock and node.
func BenchmarkBatch(b *testing.B) {
	c := newCluster(b, 5)
	for _, goroutines := range []int{1, 16, 64, 256, 1024} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			counts := &traffic{}
			locker := c.locker(b, redlock.WithPool(pool.WithDialer(counts.dial)))
			// The first run of each script loads it.
			require.NoError(b, perform(b.Context(), lockUnlock, locker, goroutines, goroutines, nil))
			for _, n := range []*atomic.Int64{&counts.writes, &counts.reads, &counts.commands, &counts.scripts} {
				n.Store(0)
			}
			b.ResetTimer()
			require.NoError(b, perform(b.Context(), lockUnlock, locker, goroutines, b.N, nil))
			b.StopTimer()
			each := float64(b.N) * float64(len(c.Masters)) // of which each has one release
			b.ReportMetric(float64(counts.commands.Load())/float64(counts.writes.Load()), "commands/write")
			b.ReportMetric(each/float64(counts.scripts.Load()), "keys/script")
			b.ReportMetric(float64(counts.writes.Load())/each, "writes/lock")
			b.ReportMetric(float64(counts.reads.Load())/each, "reads/lock")
			b.ReportMetric(float64(counts.commands.Load())/each, "commands/lock")
			b.ReportMetric(0, "ns/op")
		})
	}
}
