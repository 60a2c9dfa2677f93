package wire

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/internal/proof/fuzzed"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

type fuzzChooser struct {
	*testing.T
	*fuzzed.Source
}

// FuzzBatches checks that batches of any calls, one after the other, return and leave what their
// calls do one by one: on the scripted node, and on a server if there is one.
func FuzzBatches(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		seed := make([]byte, 80)
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		f.Add(seed)
	}
	servers := []func() (redis.Conn, error){scriptedNode(f)}
	if redistest.Available() {
		server := redistest.StartOne(f)
		servers = append(servers, func() (redis.Conn, error) { return redis.Dial("tcp", server.Addr()) })
	}
	var conns []redis.Conn
	for _, dial := range servers {
		listenOn(f, dial)
		conn, err := dial()
		require.NoError(f, err)
		f.Cleanup(func() { require.NoError(f, conn.Close()) })
		conns = append(conns, conn)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, conn := range conns {
			c := fuzzChooser{t, fuzzed.New(data)}
			p := newBatchPair(c, conn)
			for batches := 0; batches == 0 || c.More() && batches < 8; batches++ {
				p.step(c, &batchCases[c.Below(len(batchCases))].batchCase, c.some(p.keys))
			}
		}
	})
}

// some returns one of the keys or more, in any order.
func (c fuzzChooser) some(keys []string) (some []string) {
	all := append([]string(nil), keys...)
	for range 1 + c.Below(len(keys)) {
		i := c.Below(len(all))
		some, all = append(some, all[i]), append(all[:i], all[i+1:]...)
	}
	return some
}

// scriptedNode starts a node whose time stands still.
func scriptedNode(f *testing.F) func() (redis.Conn, error) {
	node := fake.New(clocktest.New(), fake.WithCommandLog(0))
	f.Cleanup(node.Close)
	return func() (redis.Conn, error) {
		conn, err := node.Dial(context.Background())
		return redis.NewConn(conn, 0, 0), err
	}
}
