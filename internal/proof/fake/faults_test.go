package fake

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
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

func TestJitterKeepsTheOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		delays := []time.Duration{50, 10, 70, 0}
		var next int
		n.Delay(func() time.Duration { next++; return delays[next%4] * time.Millisecond }, nil)
		for i := range 8 {
			send(t, c, "ECHO", i)
			time.Sleep(5 * time.Millisecond)
		}
		n.Delay(nil, nil)
		send(t, c, "ECHO", 8)
		for i := range 9 {
			require.Equal(t, fmt.Sprintf("%q", fmt.Sprint(i)), show(c.Receive()))
		}
	})
}

// A seed decides the delays of each connection.
func TestDelaysAreRepeatedByTheirSeed(t *testing.T) {
	const least, most = time.Millisecond, 3 * time.Millisecond
	InBubble(t, 3, func(t *testing.T, clk *clocktest.Clock, c Cluster) {
		took := make([][]time.Duration, len(c))
		for i, n := range c {
			n.DelayBetween(least, most, []uint64{1, 1, 2}[i])
			for range 5 {
				since := clk.Now()
				n.Do(t, "PING")
				d := clk.Now().Sub(since)
				assert.GreaterOrEqual(t, d, 2*least)
				assert.LessOrEqual(t, d, 2*most)
				took[i] = append(took[i], d)
			}
		}
		assert.Equal(t, took[0], took[1], "the same seed")
		assert.NotEqual(t, took[0], took[2], "another seed")
		assert.NotEqual(t, took[0][0], took[0][1], "another connection")
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

func TestCutAfterWriteCountsCommands(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		n.CutAfterWrite(3)
		assert.Equal(t, "+OK", do(c, "SET", "1", "v"))
		assert.Equal(t, "+OK", do(c, "SET", "2", "v"))
		_, err := c.Do("SET", "3", "v")
		require.ErrorIs(t, err, io.EOF)
		assert.Equal(t, []string{"1", "2", "3"}, n.Keys())
	})
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

func TestWriterToANodeThatTakesNothingBlocksAtLast(t *testing.T) {
	for name, set := range map[string]func(n *Node){
		"stopped": func(n *Node) { n.Stop() }, "muted": func(n *Node) { n.Mute(true) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *Node) {
				conn, err := n.Dial(context.Background())
				require.NoError(t, err)
				defer conn.Close()
				set(n)
				require.NoError(t, conn.SetWriteDeadline(time.Now().Add(time.Second)))
				written := 0
				for err == nil {
					_, err = conn.Write([]byte("*2\r\n$4\r\nECHO\r\n$5\r\n12345\r\n"))
					written += 26
				}
				assert.ErrorContains(t, err, "i/o timeout")
				assert.Less(t, written, 4*DefaultBuffer)
			})
		})
	}
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
			send(t, c, "SET", "late", "v")
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
			assert.Equal(t, "-"+noScript, do(c, "EVALSHA", digestOf("return 1"), "0"))
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

// After any faults in any order, the node serves on, has what was acknowledged and nothing that was
// not sent, and no goroutine is left.
func TestNodeComesBackFromAnyFaults(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *Node) {
				ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
				defer stop()
				var sent, acknowledged [3][]string
				for i := range sent {
					go func() {
						for ctx.Err() == nil {
							write(ctx, n, i, &sent[i], &acknowledged[i])
							time.Sleep(time.Millisecond)
						}
					}()
				}
				random := rand.New(rand.NewPCG(seed, 0))
				for ctx.Err() == nil {
					time.Sleep(time.Duration(random.IntN(20_000)) * time.Microsecond)
					befall(n, random)
				}
				n.Restart(true)
				n.Mute(false)
				n.MuteReplies(false)
				n.Delay(nil, nil)
				time.Sleep(time.Minute)
				synctest.Wait()

				assert.Zero(t, n.Connections())
				assert.Subset(t, slices.Concat(sent[:]...), n.Keys())
				assert.Subset(t, n.Keys(), slices.Concat(acknowledged[:]...))
				assert.NotEmpty(t, slices.Concat(acknowledged[:]...))
				n.LoseRequests(0)
				n.LoseReplies(0)
				n.CutAfterWrite(0)
				assert.Equal(t, "+OK", do(dial(t, n), "SET", "k", "v"))
			})
		})
	}
}

// write sets new keys by a script, on a connection of its own, until something goes wrong.
func write(ctx context.Context, n *Node, who int, sent, acknowledged *[]string) {
	dialing, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	conn, err := n.Dial(dialing)
	if err != nil {
		return
	}
	c := redis.NewConn(conn, 50*time.Millisecond, 50*time.Millisecond)
	defer c.Close()
	for ctx.Err() == nil {
		key := fmt.Sprint(who, " ", len(*sent))
		*sent = append(*sent, key)
		if _, err := c.Do("EVAL", "return redis.call('SET', KEYS[1], 'v')", 1, key); err != nil {
			return
		}
		*acknowledged = append(*acknowledged, key)
		time.Sleep(time.Millisecond)
	}
}

func befall(n *Node, random *rand.Rand) {
	jitter := func(most int64) func() time.Duration {
		// From the global source: random is not safe for concurrent use.
		return func() time.Duration { return time.Duration(rand.Int64N(most)) }
	}
	switch random.IntN(12) {
	case 0:
		n.Delay(jitter(int64(10*time.Millisecond)), jitter(int64(10*time.Millisecond)))
	case 1:
		n.Delay(nil, nil)
	case 2:
		n.LoseRequests(random.IntN(3))
	case 3:
		n.LoseReplies(random.IntN(3))
	case 4:
		n.CutAfterWrite(random.IntN(5))
	case 5:
		n.Stop()
	case 6:
		n.Continue()
	case 7:
		n.Mute(random.IntN(2) == 0)
	case 8:
		n.MuteReplies(random.IntN(2) == 0)
	case 9:
		n.Kill()
	default:
		n.Restart(true)
	}
}
