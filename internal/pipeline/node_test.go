package pipeline

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCallsAreAnsweredInTheirOrder(t *testing.T) {
	inBubble(t, func(h *harness) {
		var calls []*waiter
		for i := range 1000 { // the first ones wait for the first dial
			calls = append(calls, h.command("ECHO", fmt.Sprint(i)))
		}
		for i, w := range calls {
			r := w.wait()
			require.NoError(t, r.err)
			require.Equal(t, fmt.Append(nil, i), r.reply)
		}
		assert.EqualValues(t, 1, h.dials.Load(), "all on one connection")
		stats := h.node.Stats()
		assert.Equal(t, Up, stats.State)
		assert.EqualValues(t, 1000, stats.Calls)
		assert.Zero(t, stats.Waiting)
	})
}

func TestErrorReplyIsARefusalInTheServersWords(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.server.RefuseWith("OOM command not allowed when used memory > 'maxmemory'.", "SET")
		err := h.command("SET", "k", "v").wait().err
		h.requireFate(err, Refused, err)
		assert.EqualError(t, err, "OOM command not allowed when used memory > 'maxmemory'.")
		require.NoError(t, h.command("GET", "k").wait().err, "the connection goes on")
	})
}

func TestStoppedNodeCostsTheCallerItsDeadlineAndNoMore(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Stop()
		r := h.command("SET", "k", "v").wait()
		h.requireFate(r.err, Unknown, ErrTimeout)
		assert.Equal(t, testDeadline, r.after)
		h.server.Continue()
		synctest.Wait()
		value, _, _ := h.server.Get("k")
		assert.Equal(t, "v", value, "which is why its fate was unknown")
		assert.EqualValues(t, 1, h.dials.Load(), "a caller's timeout does not cost the connection")
		r = h.command("ECHO", "x").wait()
		require.NoError(t, r.err)
		assert.Equal(t, []byte("x"), r.reply, "the late answer was not taken for this one")
	})
}

func TestFirstDialIsWaitedForUntilTheDeadline(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.server.Mute(true)
		r := h.command("SET", "k", "v").wait()
		h.requireFate(r.err, Unsent, ErrTimeout)
		assert.Equal(t, testDeadline, r.after)
		assert.ErrorContains(t, r.err, "not connected yet")
		h.server.Mute(false)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, Up, h.node.Stats().State)
		assert.Empty(t, h.server.Keys(), "an unsent call stays unsent")
	})
}

func TestNodeThatIsDownFailsAtOnce(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.server.Kill()
		first := h.command("PING").wait() // waits for the first dial, which fails at once
		h.requireFate(first.err, Unsent, syscall.ECONNREFUSED)
		assert.Zero(t, first.after)
		stats := h.node.Stats()
		assert.Equal(t, Down, stats.State)
		assert.ErrorIs(t, stats.Err, syscall.ECONNREFUSED)

		h.server.Mute(true) // a dial under way takes long now
		time.Sleep(50 * time.Millisecond)
		r := h.command("PING").wait()
		h.requireFate(r.err, Unsent, syscall.ECONNREFUSED)
		assert.Zero(t, r.after, "nobody waits for a dial once one has failed")

		h.server.Mute(false)
		h.server.Restart(true)
		time.Sleep(2 * time.Second)
		h.up()
	})
}

func TestDialsBackOffAndStayCapped(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.server.Kill()
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Greater(t, h.dials.Load(), int64(100), "at most 500 ms apart")
		assert.Less(t, h.dials.Load(), int64(260), "at least 250 ms apart once it has backed off")
	})
}

func TestIdleConnectionThatIsClosedCostsOneDialAndNoError(t *testing.T) {
	inBubble(t, func(h *harness) {
		for range 10 {
			h.up()
			h.server.CutAfterWrite(1)
			r := h.command("PING").wait()
			h.requireFate(r.err, Unknown, r.err)
		}
		assert.EqualValues(t, 11, h.dials.Load())
		h.up()
		// A server that restarts at once: the re-dial finds it.
		h.server.Restart(true)
		h.up()
		assert.EqualValues(t, 12, h.dials.Load())
	})
}

func TestServerThatClosesEveryConnectionIsDownAndNotDialedInALoop(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "SET" {
				return []byte("garbage\r\n")
			}
			return nil
		})
		for range 100 {
			err := h.command("SET", "k", "v").wait().err
			require.Error(t, err)
		}
		assert.Less(t, h.dials.Load(), int64(5))
	})
}

func TestStalledConnectionIsGivenUp(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Stop()
		first := h.command("SET", "k", "v")
		time.Sleep(testDeadline + time.Second - 1)
		synctest.Wait()
		assert.Equal(t, Up, h.node.Stats().State)
		h.requireFate(first.wait().err, Unknown, ErrTimeout)
		second := h.command("SET", "k2", "v")
		time.Sleep(2 * time.Nanosecond)
		r := second.wait()
		h.requireFate(r.err, Unknown, ErrStalled)
		assert.Less(t, r.after, time.Microsecond, "everything on the connection ends with it")
		assert.Equal(t, Connecting, h.node.Stats().State)
		time.Sleep(500 * time.Millisecond) // the dial succeeds, the handshake has no answer
		assert.Equal(t, Down, h.node.Stats().State)
		assert.ErrorContains(t, h.node.Stats().Err, "not ready within")
	}, WithStallTimeout(time.Second), WithDialTimeout(400*time.Millisecond))
}

func TestIdleConnectionIsPinged(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		assert.Len(t, h.executed(), 12)
		assert.EqualValues(t, 1, h.dials.Load())
		h.server.MuteReplies(true)
		time.Sleep(5*time.Second + time.Second + 2*time.Second + time.Second)
		synctest.Wait()
		assert.NotEqual(t, Up, h.node.Stats().State, "the mute peer was found before a caller did")
	})
}

func TestBusyConnectionIsNotPinged(t *testing.T) {
	inBubble(t, func(h *harness) {
		for range 30 {
			h.up()
			time.Sleep(time.Second)
		}
		for _, c := range h.server.Commands() {
			assert.False(t, c.Args[0] == "PING" && len(c.Args) > 1)
		}
	})
}

func TestFullQueueIsAnErrorAtOnce(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Stop()
		var calls []*waiter
		for range maxCalls {
			calls = append(calls, h.command("PING"))
		}
		r := h.command("PING").wait()
		h.requireFate(r.err, Unsent, ErrBusy)
		assert.Zero(t, r.after)
		kept := h.script(true, deleteScript, "k", "v")
		assert.Equal(t, maxCalls+1, h.node.Stats().Waiting, "a kept call has room of its own")
		h.server.Continue()
		for _, w := range calls {
			require.NoError(t, w.wait().err)
		}
		require.NoError(t, kept.wait().err)
	})
}

func TestCloseEndsEverything(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Stop()
		sent := h.command("SET", "k", "v")
		synctest.Wait()
		require.NoError(t, h.node.Close())
		h.requireFate(sent.wait().err, Unknown, ErrClosed)
		h.requireFate(h.command("PING").wait().err, Unsent, ErrClosed)
		h.requireFate(h.script(true, deleteScript, "k", "v").wait().err, Unsent, ErrClosed)
		require.NoError(t, h.node.Close())
		assert.Equal(t, Closed, h.node.Stats().State)
		synctest.Wait()
		h.server.Continue()
		synctest.Wait()
		assert.Zero(t, h.server.Connections())
	})
}

func TestCloseWhileDialing(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.server.Mute(true)
		queued := h.command("PING")
		require.NoError(t, h.node.Close())
		h.requireFate(queued.wait().err, Unsent, ErrClosed)
	})
}

func TestCredentialsAreAskedForAtEveryConnect(t *testing.T) {
	asked := 0
	credentials := WithCredentials(func(_ context.Context, endpoint string) (string, string, error) {
		asked++
		if endpoint != "redis://fake:6379" {
			return "", "", errors.New("wrong endpoint")
		}
		return "me", fmt.Sprint("secret", asked), nil
	})
	inBubble(t, func(h *harness) {
		require.NoError(t, h.node.Close()) // it may have dialed before the server knows what to say
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "AUTH" {
				return []byte("+OK\r\n")
			}
			return nil
		})
		asked = 0
		h.node = h.newNode("fake:6379", credentials)
		for range 3 {
			h.up()
			h.server.CutAfterWrite(1)
			require.Error(t, h.command("PING").wait().err)
		}
		h.up()
		assert.Equal(t, 4, asked)
		var last []string
		for _, c := range h.server.Commands() {
			if c.Args[0] == "AUTH" {
				last = c.Args
			}
		}
		assert.Equal(t, []string{"AUTH", "me", "secret4"}, last)
	}, credentials)
}

func TestCredentialsErrorIsTheNodesError(t *testing.T) {
	vault := errors.New("vault is sealed")
	inBubble(t, func(h *harness) {
		h.requireFate(h.command("PING").wait().err, Unsent, vault)
	}, WithCredentials(func(context.Context, string) (string, string, error) { return "", "", vault }))
}

func TestWrongServersAreNamedInTheError(t *testing.T) {
	for name, c := range map[string]struct {
		reply string
		want  string
	}{
		"HTTP":        {"HTTP/1.1 400 Bad Request\r\n\r\n", `no Redis reply: "HTTP/1.1 400 Bad`},
		"huge bulk":   {"$99999999999999\r\n", "over the limit"},
		"huge array":  {"*1000000000000\r\n", "over the limit"},
		"no password": {"-NOAUTH Authentication required.\r\n", "NOAUTH"},
		"loading":     {"-LOADING Redis is loading the dataset in memory\r\n", "LOADING"},
		"protected":   {"-DENIED Redis is running in protected mode\r\n", "DENIED"},
		"surplus":     {"+OK\r\n+OK\r\n", "protocol error"},
		"busy":        {"-BUSY Redis is busy running a script.\r\n", "BUSY"},
		"out of step": {":17\r\n", "CLIENT was answered by a int64"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.server.ReplyRaw(func([]string) []byte { return []byte(c.reply) })
				err := h.command("PING").wait().err
				h.requireFate(err, Unsent, err)
				assert.ErrorContains(t, err, c.want)
			})
		})
	}
}

func TestTooManyClientsIsSaidInTheServersWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, err := NewNode("fake:1", WithDialer(func(context.Context, string, string) (net.Conn, error) {
			return &farewell{text: "-ERR max number of clients reached\r\n"}, nil
		}))
		require.NoError(t, err)
		defer node.Close()
		time.Sleep(time.Millisecond)
		synctest.Wait()
		assert.ErrorContains(t, node.Stats().Err, "max number of clients reached")
	})
}

// farewell is a server that says one thing and hangs up.
type farewell struct {
	net.Conn
	text string
}

func (f *farewell) Write(p []byte) (int, error) { return len(p), nil }
func (f *farewell) Close() error                { return nil }

func (f *farewell) Read(p []byte) (int, error) {
	if f.text == "" {
		return 0, net.ErrClosed
	}
	n := copy(p, f.text)
	f.text = f.text[n:]
	return n, nil
}

func TestDialsContextIsNotTheCallers(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.server.Stop()
		node := h.newNode("other:6379")
		defer node.Close()
		time.Sleep(5 * time.Second)
		err := node.Stats().Err
		require.ErrorContains(t, err, "not ready within 1s")
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestWordsBeforeAServerHangsUpAreTold(t *testing.T) {
	for _, endpoint := range []string{"redis://fake:1/2", "redis://:password@fake:1", "redis://fake:1"} {
		synctest.Test(t, func(t *testing.T) {
			node, err := NewNode(endpoint, WithDialer(func(context.Context, string, string) (net.Conn, error) {
				return &farewell{text: "-DENIED Redis is running in protected mode\r\n"}, nil
			}))
			require.NoError(t, err)
			defer node.Close()
			time.Sleep(time.Millisecond)
			synctest.Wait()
			assert.ErrorContains(t, node.Stats().Err, "DENIED Redis is running in protected mode", endpoint)
		})
	}
}

func TestPasswordIsNotInAnyError(t *testing.T) {
	for _, reply := range []string{
		"-ERR unknown command `AUTH`, with args beginning with: `hunter2`\r\n",
		"-WRONGPASS invalid username-password pair or user is disabled.\r\n",
		"*2\r\n$4\r\nAUTH\r\n$7\r\nhunter2\r\n",
		"AUTH hunter2\r\n",
	} {
		inBubble(t, func(h *harness) {
			h.server.ReplyRaw(func([]string) []byte { return []byte(reply) })
			for _, rest := range []string{"", strings.Repeat("x", 200)} { // of which Redis repeats the beginning
				node := h.newNode("redis://:hunter2" + rest + "@fake:6379")
				defer node.Close()
				time.Sleep(time.Millisecond)
				synctest.Wait()
				require.Error(t, node.Stats().Err)
				assert.NotContains(t, node.Stats().Err.Error(), "hunter2")
				assert.NotContains(t, node.Stats().Endpoint, "hunter2")
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, opt := range map[string]Option{
		"nil":         nil,
		"tls":         WithTLSConfig(nil),
		"dialer":      WithDialer(nil),
		"credentials": WithCredentials(nil),
		"clock":       WithClock(nil),
		"name":        WithClientName("a b"),
		"dial":        WithDialTimeout(0),
		"stall":       WithStallTimeout(time.Hour),
		"ping":        WithIdlePing(-1),
		"backoff":     WithBackoff(time.Second, time.Millisecond),
		"backoff 0":   WithBackoff(0, time.Millisecond),
	} {
		_, err := NewNode("localhost:1", opt)
		assert.ErrorIs(t, err, ErrEndpoint, name)
	}
}
