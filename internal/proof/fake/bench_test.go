package fake

import (
	"context"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
)

const compareAndDelete = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`

func BenchmarkSetAndRelease(b *testing.B) {
	n := newNode(b, WithCommandLog(0))
	c := dial(b, n)
	digest := digestOf(compareAndDelete)
	do(c, "SCRIPT", "LOAD", compareAndDelete)
	b.ReportAllocs()
	for b.Loop() {
		do(c, "SET", "k", "v", "NX", "PX", "10000")
		if do(c, "EVALSHA", digest, "1", "k", "v") != "1" {
			b.Fatal("not released")
		}
	}
}

// BenchmarkHistory makes five nodes, locks and releases each ten times, and closes them.
func BenchmarkHistory(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		for range 5 {
			n := New(clock.System(), WithCommandLog(100))
			conn, err := n.Dial(context.Background())
			require.NoError(b, err)
			c := redis.NewConn(conn, 0, 0)
			for range 10 {
				do(c, "SET", "k", "v", "NX", "PX", "10000")
				do(c, "EVAL", compareAndDelete, "1", "k", "v")
			}
			c.Close()
			n.Close()
		}
	}
}
