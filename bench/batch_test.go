package bench

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// traffic counts what goes over the connections of a Locker.
type traffic struct {
	writes, reads     atomic.Int64 // system calls
	commands          atomic.Int64
	scripts, inScript atomic.Int64 // scripts that were run, and their keys
}

func (c *traffic) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &counted{conn, c}, err
}

func (c *traffic) reset() {
	for _, n := range []*atomic.Int64{&c.writes, &c.reads, &c.commands, &c.scripts, &c.inScript} {
		n.Store(0)
	}
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

// Write counts the commands. The node writes whole ones.
func (c *counted) Write(p []byte) (int, error) {
	c.traffic.writes.Add(1)
	for rest := p; len(rest) > 0; {
		var words [][]byte
		words, rest = nextCommand(rest)
		c.traffic.commands.Add(1)
		if string(words[0]) == "EVALSHA" {
			keys, _ := strconv.ParseInt(string(words[2]), 10, 64) //nolint:errcheck // as the node wrote it
			c.traffic.scripts.Add(1)
			c.traffic.inScript.Add(keys)
		}
	}
	return c.Conn.Write(p)
}

// nextCommand reads the first command, and returns the rest.
func nextCommand(text []byte) (words [][]byte, rest []byte) {
	number := func() int {
		line, behind, _ := bytes.Cut(rest, []byte("\r\n"))
		rest = behind
		n, err := strconv.Atoi(string(line[1:]))
		if err != nil {
			panic(fmt.Sprintf("bench: a command begins with %q", line))
		}
		return n
	}
	rest = text
	for range number() {
		n := number()
		words, rest = append(words, rest[:n]), rest[n+len("\r\n"):]
	}
	return words, rest
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
			counts.reset()
			b.ResetTimer()
			require.NoError(b, perform(b.Context(), lockUnlock, locker, goroutines, b.N, nil))
			b.StopTimer()
			perNode := 1 / float64(b.N) / float64(len(c.Masters))
			b.ReportMetric(float64(counts.commands.Load())/float64(counts.writes.Load()), "commands/write")
			b.ReportMetric(float64(counts.inScript.Load())/float64(counts.scripts.Load()), "keys/script")
			b.ReportMetric(float64(counts.writes.Load())*perNode, "writes/lock")
			b.ReportMetric(float64(counts.reads.Load())*perNode, "reads/lock")
			b.ReportMetric(float64(counts.commands.Load())*perNode, "commands/lock")
			b.ReportMetric(0, "ns/op")
		})
	}
}
