package fake

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
			assert.Contains(t, do(c, strings.Fields(command)...), "-ERR fake does not implement", command)
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
