package fake

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
		for range 3 {
			require.NoError(t, c.Send("INCR", "n"))
		}
		require.NoError(t, c.Flush())
		time.Sleep(29 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, n.Keys(), "not before the request arrives")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.NotEmpty(t, n.Keys())
		for i := range 3 {
			got, err := redis.Int(c.Receive())
			require.NoError(t, err)
			require.Equal(t, i+1, got)
		}
		require.Equal(t, 50*time.Millisecond, time.Since(start))
	})
}

func TestJitterKeepsTheOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		delays := []time.Duration{50, 10, 70, 0}
		var next int
		n.Delay(func() time.Duration { next++; return delays[next%4] * time.Millisecond }, nil)
		for range 8 {
			require.NoError(t, c.Send("INCR", "n"))
			require.NoError(t, c.Flush())
			time.Sleep(5 * time.Millisecond)
		}
		n.Delay(nil, nil)
		require.NoError(t, c.Send("INCR", "n"))
		require.NoError(t, c.Flush())
		for i := range 9 {
			got, err := redis.Int(c.Receive())
			require.NoError(t, err)
			require.Equal(t, i+1, got)
		}
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
				require.NoError(t, c.Send("SET", "k", "v"))
				require.NoError(t, c.Send("SET", "behind", "v"))
				require.NoError(t, c.Flush())
				_, err := c.Receive()
				require.ErrorIs(t, err, test.want)
				_, _, ok := n.Get("k")
				assert.Equal(t, test.executed, ok)
				_, _, ok = n.Get("behind")
				assert.False(t, ok, "what is behind is lost with the connection")
				assert.Equal(t, "+OK", do(other, "SET", "k", "v"), "the fault is over")
				assert.Equal(t, 1, n.Connections())
			})
		})
	}
}

func TestCutAfterWriteCountsCommands(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		n.CutAfterWrite(3)
		assert.Equal(t, "1", do(c, "INCR", "n"))
		assert.Equal(t, "2", do(c, "INCR", "n"))
		_, err := c.Do("INCR", "n")
		require.ErrorIs(t, err, io.EOF)
		value, _, _ := n.Get("n")
		assert.Equal(t, "3", value)
	})
}

func TestStoppedNodeRunsWhatQueuedUpWhenItContinues(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		before := dial(t, n)
		n.Stop()
		during := dial(t, n)
		for _, c := range []redis.Conn{before, during} {
			require.NoError(t, c.Send("SET", "k", "v", "PX", "1000"))
			require.NoError(t, c.Flush())
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

func TestWriterToAStoppedNodeBlocksAtLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, WithBuffer(1000))
		conn, err := n.Dial(context.Background())
		require.NoError(t, err)
		defer conn.Close()
		n.Stop()
		written := 0
		go func() {
			for written < 1000 {
				if _, err := conn.Write([]byte("PING\r\n")); !assert.NoError(t, err) {
					return
				}
				written++
			}
		}()
		synctest.Wait()
		blocked := written
		assert.Greater(t, blocked, 1000/6)
		assert.Less(t, blocked, 1000)
		n.Continue()
		synctest.Wait()
		assert.Equal(t, 1000, written)
	})
}

func TestKilledNodeRefusesUntilItRestarts(t *testing.T) {
	for _, keepData := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, WithUptime(time.Hour))
			c := dial(t, n)
			do(c, "SET", "k", "v")
			do(c, "SCRIPT", "LOAD", "return 1")
			runID := n.RunID()
			n.Delay(constant(time.Second), nil)
			require.NoError(t, c.Send("SET", "late", "v"))
			require.NoError(t, c.Flush())
			n.Kill()
			_, err := c.Receive()
			require.ErrorIs(t, err, syscall.ECONNRESET)
			_, err = n.Dial(context.Background())
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
			n.Delay(nil, nil)
			n.Restart(keepData)
			c = dial(t, n)
			assert.Equal(t, "0", infoOf(t, c, "uptime_in_seconds"))
			assert.NotEqual(t, runID, infoOf(t, c, "run_id"))
			assert.Equal(t, keepData, len(n.Keys()) == 1)
			assert.Equal(t, "-NOSCRIPT No matching script. Please use EVAL.",
				do(c, "EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"))
			time.Sleep(time.Minute)
			assert.NotContains(t, n.Keys(), "late", "it was on the way when the node died")
		})
	}
}

func TestKillIsNoticedWhenTheNetworkHeals(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		n.Mute(true)
		n.Kill()
		n.Restart(false)
		time.AfterFunc(time.Minute, func() { n.Mute(false) })
		start := time.Now()
		_, err := c.Do("PING")
		require.ErrorIs(t, err, syscall.ECONNRESET)
		assert.Equal(t, time.Minute, time.Since(start))
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

func TestGarbageIsSent(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		n.Inject([]byte("+SURPLUS\r\n"))
		assert.Equal(t, "+SURPLUS", do(c, "SET", "k", "v"), "taken for the reply, as redigo does")
		assert.Equal(t, "+OK", do(c, "PING"))
		n.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "GET" {
				return []byte("$1\r\nx\r\n")
			}
			return nil
		})
		c = dial(t, n)
		assert.Equal(t, `"x"`, do(c, "GET", "k"))
		assert.Equal(t, "1", do(c, "DEL", "k"))
		n.ReplyRaw(nil)
		assert.Equal(t, "<nil>", do(c, "GET", "k"))
	})
}

func TestNodeMayBeFaultedFromItsHook(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		n.OnCommand(func(Command) { n.Kill() })
		_, err := c.Do("SET", "k", "v")
		require.ErrorIs(t, err, syscall.ECONNRESET)
		assert.Equal(t, []string{"k"}, n.Keys())
	})
}

// Whatever the state of its connections, a closed node leaves no goroutine: the bubble would not
// end.
func TestCloseEndsEveryGoroutine(t *testing.T) {
	for name, set := range map[string]func(n *Node){
		"idle":    func(*Node) {},
		"delayed": func(n *Node) { n.Delay(constant(time.Hour), constant(time.Hour)) },
		"stopped": func(n *Node) { n.Stop() },
		"muted":   func(n *Node) { n.Mute(true) },
		"half":    func(n *Node) { n.MuteReplies(true) },
		"killed":  func(n *Node) { n.Mute(true); n.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *Node) {
				used, closed := dial(t, n), dial(t, n)
				set(n)
				require.NoError(t, used.Send("PING"))
				if err := used.Flush(); err != nil {
					assert.Equal(t, "killed", name)
				}
				closed.Close()
				synctest.Wait()
			})
		})
	}
}
