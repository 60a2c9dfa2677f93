package fakeredis

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
)

func TestWhatAClosedClientHadSentIsExecuted(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		n.Delay(func() time.Duration { return time.Second }, nil)
		c := dial(t, n)
		require.NoError(t, c.Send("SUBSCRIBE", "c"))
		send(t, c, "SET", "k", "v")
		require.NoError(t, c.Close())
		synctest.Wait()
		require.Zero(t, n.Connections())
		require.Empty(t, n.Do(t, "KEYS", "*"))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Len(t, n.Commands(), 3)
		assert.Equal(t, int64(0), n.Do(t, "PUBLISH", "c", "gone"), "and it receives nothing")
	})
}

func TestWhatTheFakeCannotDoIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		for command, want := range map[string]string{
			"ZRANGE z 0 1 BYSCORE":           "ERR fake does not implement ZRANGE BYSCORE",
			"SET k v KEEPTTL":                "ERR fake does not implement SET KEEPTTL",
			"SET k v NX XX":                  "ERR fake does not implement SET XX",
			"KEYS a*":                        "ERR fake does not implement KEYS a*",
			"PSUBSCRIBE a*":                  "ERR fake does not implement PSUBSCRIBE a*",
			"PUBSUB CHANNELS":                "ERR fake does not implement PUBSUB CHANNELS",
			"SCRIPT EXISTS ffff":             "ERR fake does not implement SCRIPT EXISTS ffff",
			"CONFIG SET save ''":             "ERR fake does not implement CONFIG SET",
			"CLIENT KILL ADDR 1":             "ERR fake does not implement CLIENT KILL ADDR",
			"ZADD z XX 1 a":                  "ERR syntax error",
			"EVAL 'return +' 0":              "ERR Error compiling script (new function): user_script",
			"EVAL 'error(1)' 0":              "ERR user_script:1: Script attempted to access nonexistent global variable 'error'",
			"EVAL 'string.format(\"%d\")' 0": "ERR user_script:1: invalid option '%d' to 'format'",
		} {
			assert.True(t, strings.HasPrefix(do(c, split(command)...), "-"+want), "%s: %s", command, do(c, split(command)...))
		}
	})
}

// An engine serves many nodes, one after another: a script must leave nothing for the next.
func TestScriptsLeaveNothingBehind(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		for _, script := range []string{
			"x = 1", "_G.x = 1", "rawset(_G, 'x', 1)", "setmetatable(_G, {})", "string.x = 1", "redis.x = 1",
			"getmetatable('').x = 1", "local function f() return f() + 1 end return f()",
		} {
			assert.Equal(t, "-", do(c, "EVAL", script, "0")[:1], script)
		}
		assert.Equal(t, "[<nil> <nil> 0 0]", do(c, "EVAL", "return {string.x or false, redis.x or false, #KEYS, #ARGV}", "0"))
		assert.Equal(t, "1", do(c, "EVAL", "return 1", "0"))
	})
}

func TestCommandsAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		n := New(clk)
		defer n.Close()
		c, unlogged := dial(t, n), newNode(t, WithoutCommandLog())
		var seen []string
		var alive bool
		n.OnCommand(func(command Command) {
			seen = append(seen, strings.Join(command.Args, " "))
			_, _, alive = n.Get("k")
		})
		do(c, "SET", "k", "v")
		assert.True(t, alive, "the hook comes after the execution")
		time.Sleep(time.Second)
		do(c, "get", "k")
		assert.Equal(t, []string{"SET k v", "get k"}, seen)
		assert.Equal(t, Command{At: clk.Now(), Conn: 1, Args: []string{"get", "k"}}, n.Commands()[1])
		value, left, ok := n.Get("k")
		assert.Equal(t, []any{"v", NoExpiry, true}, []any{value, left, ok})
		unlogged.Do(t, "PING")
		assert.Empty(t, unlogged.Commands())
	})
}

func TestChangesOfKeysAreObserved(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		var changes []Change
		n.OnChange(func(change Change) { changes = append(changes, change) })
		do(c, "SET", "k", "a")
		do(c, "SET", "k", "a", "PX", "1000")
		do(c, "EVAL", "redis.call('SET', KEYS[1], 'b') return redis.call('DEL', KEYS[1])", "1", "k")
		do(c, "ZADD", "z", "1", "a")
		do(c, "DEL", "z")
		do(c, "SET", "k", "c", "PX", "10")
		time.Sleep(time.Second)
		do(c, "SET", "k", "d")
		n.FlushAll()
		assert.Equal(t, []Change{{"k", "a", "b"}, {"k", "b", ""}}, changes)
	})
}

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
		n := newNode(t)
		n.SetClock(time.Minute, 2)
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
		assert.Equal(t, "7230000", do(c, "PTTL", "k"))
		n.SetClock(time.Minute, 1)
		assert.Equal(t, "<nil>", do(c, "GET", "k"))
	})
}

func TestSuspendOfTheClockIsSeenByTheNode(t *testing.T) {
	InBubble(t, 1, func(t *testing.T, clk *clocktest.Clock, nodes Cluster) {
		nodes[0].Do(t, "SET", "k", "v", "PX", "1000")
		clk.Suspend(2 * time.Second)
		assert.Empty(t, nodes[0].Keys())
	})
}

func TestWrongProtocolIsAnsweredAndClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		conn, err := n.Dial(context.Background())
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write([]byte("PING\r\n*1\r\n:1\r\n"))
		require.NoError(t, err)
		got, err := io.ReadAll(conn)
		require.NoError(t, err)
		assert.Equal(t, "+PONG\r\n-ERR Protocol error: expected '$'\r\n", string(got))
	})
}
