package fakenode

import (
	"context"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
)

func TestPipelinedCommandsAreAnsweredInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, newNode(t))
		const count = 1000
		for range count {
			require.NoError(t, c.Send("INCR", "n"))
		}
		require.NoError(t, c.Flush())
		for i := range count {
			got, err := redis.Int(c.Receive())
			require.NoError(t, err)
			require.Equal(t, i+1, got)
		}
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

func infoOf(t *testing.T, c redis.Conn, field string) string {
	t.Helper()
	info, err := redis.String(c.Do("INFO"))
	require.NoError(t, err)
	for line := range strings.SplitSeq(info, "\r\n") {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return value
		}
	}
	return ""
}

func TestInfoSaysWhatItWasToldTo(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		for field, want := range map[string]string{
			"run_id": n.RunID(), "redis_version": "7.0.15", "role": "master", "uptime_in_seconds": "0",
			"redis_mode": "standalone", "maxmemory_policy": "noeviction", "cluster_enabled": "0",
		} {
			assert.Equal(t, want, infoOf(t, c, field), field)
		}
		n.SetInfo("role", "slave")
		n.SetInfo("invented", "1")
		n.SetConfig("appendonly", "yes")
		assert.Equal(t, "slave", infoOf(t, c, "role"))
		assert.Equal(t, "1", infoOf(t, c, "invented"))
		assert.Equal(t, `["appendonly" "yes"]`, do(c, "CONFIG", "GET", "appendonly"))
		n.SetInfo("role", "")
		assert.True(t, strings.HasPrefix(do(c, "INFO", "replication"), `"# Replication\r\nrole:master\r\n`))
		assert.NotContains(t, do(c, "INFO", "server"), "# Replication")
		time.Sleep(90 * time.Second)
		assert.Equal(t, "90", infoOf(t, c, "uptime_in_seconds"))
	})
}

func TestPasswordIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, newNode(t, WithPassword("secret")))
		assert.Equal(t, "-NOAUTH Authentication required.", do(c, "GET", "k"))
		assert.Equal(t, "-WRONGPASS invalid username-password pair or user is disabled.", do(c, "AUTH", "guess"))
		assert.Equal(t, "-NOAUTH Authentication required.", do(c, "GET", "k"))
		assert.Equal(t, "+OK", do(c, "AUTH", "default", "secret"))
		assert.Equal(t, "<nil>", do(c, "GET", "k"))
	})
}

func TestDatabasesAreApart(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		do(c, "SELECT", "2")
		do(c, "SET", "k", "two")
		assert.Empty(t, n.Keys(), "Keys is about database 0")
		do(c, "SELECT", "0")
		assert.Equal(t, "<nil>", do(c, "GET", "k"))
	})
}

func TestSubscribersGetMessages(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		listener, speaker := dial(t, n), dial(t, n)
		assert.Equal(t, `["subscribe" "a" 1]`, do(listener, "SUBSCRIBE", "a", "b"))
		assert.Equal(t, `["subscribe" "b" 2]`, show(listener.Receive()))
		assert.Equal(t, "1", do(speaker, "PUBLISH", "b", "hello"))
		assert.Equal(t, "1", do(speaker, "EVAL", "return redis.call('publish', 'a', 'from a script')", "0"))
		assert.Equal(t, `["message" "b" "hello"]`, show(listener.Receive()))
		assert.Equal(t, `["message" "a" "from a script"]`, show(listener.Receive()))
		assert.Contains(t, do(listener, "GET", "k"), "-ERR Can't execute 'get': only")
		assert.Equal(t, `["pong" ""]`, do(listener, "PING"))
		assert.Equal(t, `["unsubscribe" "a" 1]`, do(listener, "UNSUBSCRIBE", "a"))
		assert.Equal(t, "0", do(speaker, "PUBLISH", "a", "nobody"))
		assert.Equal(t, `["unsubscribe" "b" 0]`, do(listener, "UNSUBSCRIBE"))
		assert.Equal(t, "<nil>", do(listener, "GET", "k"))
		do(listener, "SUBSCRIBE", "c")
		listener.Close()
		synctest.Wait()
		assert.Equal(t, "0", do(speaker, "PUBLISH", "c", "gone"))
	})
}

func TestSubscribersOfPatternsGetMessages(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		monitor, listener, speaker := dial(t, n), dial(t, n), dial(t, n)
		assert.Equal(t, `["psubscribe" "a*" 1]`, do(monitor, "PSUBSCRIBE", "a*"))
		assert.Contains(t, do(monitor, "PSUBSCRIBE", "a?b"), "does not implement")
		assert.Contains(t, do(monitor, "GET", "k"), "-ERR Can't execute 'get': only")
		assert.Equal(t, "1", do(speaker, "PUBLISH", "ab", "hello"))
		assert.Equal(t, "0", do(speaker, "PUBLISH", "b", "nobody"))
		assert.Equal(t, `["pmessage" "a*" "ab" "hello"]`, show(monitor.Receive()))
		do(listener, "SUBSCRIBE", "ab")
		assert.Equal(t, "2", do(speaker, "PUBLISH", "ab", "both"))
		assert.Equal(t, `["ab" 1 "a" 0]`, do(speaker, "PUBSUB", "NUMSUB", "ab", "a"))
		monitor.Close()
		synctest.Wait()
		assert.Equal(t, "1", do(speaker, "PUBLISH", "ab", "one"))
	})
}

func TestClientKillClosesThatConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		victim, killer := dial(t, n), dial(t, n)
		id := do(victim, "CLIENT", "ID")
		assert.Equal(t, "1", do(killer, "CLIENT", "KILL", "ID", id))
		assert.Equal(t, "0", do(killer, "CLIENT", "KILL", "ID", id))
		_, err := victim.Do("PING")
		require.Error(t, err)
		assert.Equal(t, 1, n.Connections())
		assert.Equal(t, "1", do(killer, "CLIENT", "KILL", "ID", do(killer, "CLIENT", "ID")), "even itself, with a reply")
		_, err = killer.Do("PING")
		require.Error(t, err)
	})
}

func TestWhatAClosedClientHadSentIsExecuted(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		n.Delay(func() time.Duration { return time.Second }, nil)
		c := dial(t, n)
		require.NoError(t, c.Send("SET", "k", "v"))
		require.NoError(t, c.Flush())
		require.NoError(t, c.Close())
		synctest.Wait()
		require.Zero(t, n.Connections())
		require.Empty(t, n.Keys())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"k"}, n.Keys())
	})
}

func TestWrongProtocolIsAnsweredAndClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		conn, err := n.Dial(context.Background())
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write([]byte("PING\r\n*1\r\n:1\r\n"))
		require.NoError(t, err)
		got := make([]byte, 100)
		size := 0
		for err == nil {
			var read int
			read, err = conn.Read(got[size:])
			size += read
		}
		assert.Equal(t, "+PONG\r\n-ERR Protocol error: expected '$', got ':'\r\n", string(got[:size]))
		assert.EqualError(t, err, "EOF")
	})
}

func TestCommandsAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		n := New(clk, WithCommandLog(2))
		defer n.Close()
		c := dial(t, n)
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
		for range 3 {
			do(c, "PING")
		}
		assert.Equal(t, []string{"SET k v", "get k", "PING", "PING", "PING"}, seen)
		assert.Equal(t, []Command{
			{At: clk.Now(), Conn: 1, Args: []string{"PING"}}, {At: clk.Now(), Conn: 1, Args: []string{"PING"}},
		}, n.Commands())
		value, left, ok := n.Get("k")
		assert.Equal(t, []any{"v", NoExpiry, true}, []any{value, left, ok})
	})
}

func TestCommandLogCanBeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, WithCommandLog(0))
		do(dial(t, n), "PING")
		assert.Empty(t, n.Commands())
	})
}

// The acquire script of docs/design.md, section 7, at a time when tostring would already round.
func TestFencingScriptReturnsExactNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const script = `
			if not redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then return false end
			local fence = math.max((redis.call('get', KEYS[2]) or 0) + 1, tonumber(ARGV[3]))
			local text = string.format('%.0f', fence)
			redis.call('set', KEYS[2], text, 'px', 600000)
			return text`
		n := newNode(t)
		c := dial(t, n)
		acquire := func(ts string) string { return do(c, "EVAL", script, "2", "k", "fence", "v", "100", ts) }
		assert.Equal(t, `"1800000000000001"`, acquire("1800000000000001"))
		assert.Equal(t, "<nil>", acquire("1800000000000009"))
		time.Sleep(101 * time.Millisecond)
		assert.Equal(t, `"1800000000000002"`, acquire("5"))
		assert.Equal(t, "-ERR Error compiling script (new function): user_script", do(c, "EVAL", "return +", "0")[:55])
		assert.Equal(t, []string{"fence", "k"}, n.Keys())
	})
}

func TestManyClientsOfManyNodesAreServedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		const clients, each = 8, 50
		for range clients {
			c := dial(t, n)
			go func() {
				for range each {
					assert.NotContains(t, do(c, "EVAL", "return redis.call('incr', KEYS[1])", "1", "n"), "-")
				}
			}()
		}
		synctest.Wait()
		value, _, _ := n.Get("n")
		assert.Equal(t, "400", value)
	})
}

func TestClosedNodeRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		n.Close()
		n.Close()
		_, err := c.Do("PING")
		require.ErrorIs(t, err, syscall.ECONNRESET)
		_, err = n.Dial(context.Background())
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	})
}

func TestWhatTheFakeCannotDoIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, newNode(t))
		for _, command := range []string{
			"ZADD z INCR 1 a", "ZRANGE z 0 1 BYSCORE", "KEYS a?b", "CLIENT KILL ADDR 127.0.0.1:1",
		} {
			assert.Contains(t, do(c, strings.Fields(command)...), "-ERR fakenode does not implement", command)
		}
	})
}

func TestQuitIsAnsweredAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, WithRunID("abc"))
		c := dial(t, n)
		assert.Equal(t, "abc", n.RunID())
		assert.Equal(t, "+OK", do(c, "QUIT"))
		_, err := c.Do("PING")
		require.ErrorIs(t, err, io.EOF)
	})
}

func TestLargeRepliesAreReadInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, WithBuffer(1000))
		c := dial(t, n)
		large := strings.Repeat("x", 1<<20)
		require.Equal(t, "+OK", do(c, "SET", "k", large))
		go func() {
			for range 5 {
				assert.NoError(t, c.Send("GET", "k"))
			}
			assert.NoError(t, c.Flush())
		}()
		for range 5 {
			got, err := redis.String(c.Receive())
			require.NoError(t, err)
			require.True(t, got == large)
		}
	})
}

func TestClientThatNeverReadsIsReset(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		require.Equal(t, "+OK", do(c, "SET", "k", strings.Repeat("x", maxOutput/8)))
		for range 9 {
			require.NoError(t, c.Send("GET", "k"))
		}
		require.NoError(t, c.Flush())
		synctest.Wait()
		_, err := c.Receive()
		require.ErrorIs(t, err, syscall.ECONNRESET)
		assert.Zero(t, n.Connections())
	})
}

// An engine serves many nodes, one after another: nothing of a script may be there for the next.
func TestScriptsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, newNode(t))
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
