package fake

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
)

func TestKeysExpireInWholeMilliseconds(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		require.Equal(t, "+OK", do(c, "SET", "k", "v", "PX", "100"))
		time.Sleep(100*time.Millisecond + 999*time.Microsecond)
		assert.Equal(t, "0", do(c, "PTTL", "k"), "the last millisecond counts")
		time.Sleep(time.Microsecond)
		assert.Equal(t, "-2", do(c, "PTTL", "k"))
		_, _, ok := n.Get("k")
		assert.False(t, ok)
	})
}

func TestFastNodeClockExpiresKeysEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		n := newNode(t, WithNodeClock(time.Minute, 2))
		c := dial(t, n)
		require.Equal(t, "+OK", do(c, "SET", "k", "v", "PX", "1000"))
		time.Sleep(499 * time.Millisecond)
		_, left, ok := n.Get("k")
		require.True(t, ok)
		require.Equal(t, 2*time.Millisecond, left)
		time.Sleep(2 * time.Millisecond)
		require.Empty(t, n.Keys())
		seconds, err := redis.Int64s(c.Do("TIME"))
		require.NoError(t, err)
		assert.Equal(t, []int64{start.Unix() + 61, 2000}, seconds, "501 ms at double rate are 1,002 ms")
	})
}

func TestStepOfTheNodeClockMovesExpiryAndUptime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, WithUptime(time.Hour))
		c := dial(t, n)
		require.Equal(t, "+OK", do(c, "SET", "k", "v", "PX", "30000"))
		require.Equal(t, "3600", infoOf(t, c, "uptime_in_seconds"))
		n.SetClock(-2*time.Hour, 1)
		assert.Equal(t, "-3600", infoOf(t, c, "uptime_in_seconds"))
		assert.Equal(t, "7230", do(c, "TTL", "k"))
		n.SetClock(time.Minute, 1)
		assert.Equal(t, "<nil>", do(c, "GET", "k"))
	})
}

func TestSuspendOfTheClockIsSeenByTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		n := New(clk)
		defer n.Close()
		c := dial(t, n)
		defer c.Close()
		require.Equal(t, "+OK", do(c, "SET", "k", "v", "PX", "1000"))
		clk.Suspend(2 * time.Second)
		assert.Empty(t, n.Keys())
	})
}
