package fakeredis

import (
	"context"
	"io"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func constant(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

func TestDelaysArePipelined(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		n.Delay(constant(30*time.Millisecond), constant(20*time.Millisecond))
		start := time.Now()
		for i := range 3 {
			send(t, c, "SET", i, "v")
		}
		time.Sleep(29 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, n.Keys(), "not before the request arrives")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"0", "1", "2"}, n.Keys())
		for range 3 {
			require.Equal(t, "+OK", show(c.Receive()))
		}
		require.Equal(t, 50*time.Millisecond, time.Since(start))
	})
}

func TestLossesBreakTheConnection(t *testing.T) {
	for name, test := range map[string]struct {
		set      func(n *Node)
		executed bool
		want     error
	}{
		"request lost":         {func(n *Node) { n.LoseRequests(1) }, false, syscall.ECONNRESET},
		"reply lost":           {func(n *Node) { n.LoseReplies(1) }, true, syscall.ECONNRESET},
		"cut after write":      {func(n *Node) { n.CutAfterWrite(1) }, true, io.EOF},
		"reply cut":            {func(n *Node) { n.CutReply(3) }, true, io.EOF},
		"reply cut to nothing": {func(n *Node) { n.CutReply(0) }, true, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *Node) {
				c, other := dial(t, n), dial(t, n)
				test.set(n)
				assert.Zero(t, n.Lost())
				require.NoError(t, c.Send("SET", "k", "v"))
				send(t, c, "SET", "behind", "v")
				_, err := c.Receive()
				require.ErrorIs(t, err, test.want)
				_, _, ok := n.Get("k")
				assert.Equal(t, test.executed, ok)
				_, _, ok = n.Get("behind")
				assert.False(t, ok, "what is behind is lost with the connection")
				assert.Equal(t, "+OK", do(other, "SET", "k", "v"), "the fault is over")
				assert.Equal(t, 1, n.Lost())
				assert.Equal(t, 1, n.Connections())
			})
		})
	}
}

func TestStoppedNodeRunsWhatQueuedUpWhenItContinues(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		before := dial(t, n)
		n.Stop()
		during := dial(t, n)
		for _, c := range []redis.Conn{before, during} {
			send(t, c, "SET", "k", "v", "PX", "1000")
		}
		require.NoError(t, before.Close(), "sent before it closed")
		time.Sleep(time.Minute)
		require.Empty(t, n.Keys())
		n.Continue()
		assert.Equal(t, "+OK", show(during.Receive()))
		synctest.Wait()
		_, left, ok := n.Get("k")
		assert.True(t, ok)
		assert.Equal(t, time.Second, left, "the full time to live, from now")
		assert.Len(t, n.Commands(), 2)
	})
}

func TestKilledNodeRefusesUntilItRestarts(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		do(c, "SET", "k", "v")
		n.Delay(constant(time.Second), nil)
		send(t, c, "SET", "late", "v")
		n.Kill()
		_, err := c.Receive()
		require.ErrorIs(t, err, syscall.ECONNRESET)
		_, err = n.Dial(context.Background())
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		n.Delay(nil, nil)
		n.Restart(true)
		assert.Equal(t, "+PONG", do(dial(t, n), "PING"))
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"k"}, n.Keys(), "the other was on the way when the node died")
	})
}

func TestMutedNodeSwallowsEverything(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c, quiet := dial(t, n), dial(t, n)
		n.Mute(true)
		send(t, c, "SET", "k", "v")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := n.Dial(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.AfterFunc(time.Second, func() { n.Mute(false) })
		assert.Equal(t, "+PONG", do(dial(t, n), "PING"), "a dial waits until it heals")
		_, err = c.Receive()
		require.ErrorIs(t, err, syscall.ECONNRESET, "a connection that lost bytes cannot go on")
		assert.Empty(t, n.Keys())
		assert.Equal(t, "+PONG", do(quiet, "PING"), "one that lost none can")
	})
}

func TestMutedRepliesLeaveTheCommandExecuted(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		n.MuteReplies(true)
		send(t, c, "SET", "k", "v")
		synctest.Wait()
		assert.Equal(t, []string{"k"}, n.Keys())
		n.MuteReplies(false)
		_, err := c.Receive()
		require.ErrorIs(t, err, syscall.ECONNRESET)
	})
}

func TestRefusedCommandsAreNotExecuted(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		const readOnly = "READONLY You can't write against a read only replica."
		n.RefuseWith(readOnly, "SET", "del")
		assert.Equal(t, "-"+readOnly, do(c, "set", "k", "v"))
		assert.Contains(t, do(c, "EVAL", "return redis.call('set', 'k', 'v')", "0"), "-"+readOnly)
		assert.Equal(t, "<nil>", do(c, "GET", "k"))
		n.RefuseWith("", "set")
		assert.Equal(t, "+OK", do(c, "SET", "k", "v"))
		assert.Equal(t, "-"+readOnly, do(c, "DEL", "k"))
		n.RefuseWith("LOADING Redis is loading the dataset in memory")
		assert.Equal(t, "-LOADING Redis is loading the dataset in memory", do(c, "PING"))
		n.RefuseWith("")
		assert.Equal(t, "1", do(c, "DEL", "k"))
	})
}

func TestANodeFailsTheScriptOrTheCommandThatItIsToldTo(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		twice := func() string {
			return do(c, "EVAL", "redis.call('SET', 'a', ARGV[1]) redis.call('SET', 'b', ARGV[1]) return 1", "0", "v")
		}
		n.FailScript(2, "OOM full")
		assert.Equal(t, "1", twice())
		assert.Equal(t, "-OOM full", twice())
		assert.Equal(t, "1", twice(), "the fault is over")
		scripts, calls := n.Ran()
		assert.Equal(t, []int{3, 4}, []int{scripts, calls})
		n.FlushAll()
		n.FailCall(2, "OOM full")
		assert.Contains(t, twice(), "OOM full")
		assert.Equal(t, []string{"a"}, n.Keys(), "it failed in the middle")
		assert.Equal(t, "1", twice())
	})
}
