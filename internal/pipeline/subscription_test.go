package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/fakenode"
)

func TestSubscriptionHearsMessagesInTheirOrder(t *testing.T) {
	inBubble(t, func(h *harness) {
		_, e := h.subscribe()
		var want []string
		for i := range 1000 {
			require.EqualValues(t, 1, h.publish(strconv.Itoa(i)), "the subscriber counts")
			want = append(want, "<"+strconv.Itoa(i))
		}
		long := strings.Repeat("\r\n*\x00", 100_000)
		h.publish(long)
		h.publish("")
		assert.Equal(t, append(want, "<"+long, "<"), h.events(e))
		h.command("PUBLISH", testChannel+"2", "x").wait()
		assert.Empty(t, h.events(e), "another channel")
	})
}

// countingConn counts the writes of a connection.
type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func TestSubscriberShakesHandsWithOneWrite(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		var writes atomic.Int64
		h.node.config.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := h.server.Dial(ctx)
			return countingConn{conn, &writes}, err
		}
		h.node.config.credentials = func(context.Context, string) (string, string, error) { return "default", "x", nil }
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "AUTH" {
				return []byte("+OK\r\n")
			}
			return nil
		})
		before := len(h.server.Commands())
		h.subscribe()
		assert.EqualValues(t, 1, writes.Load())
		var said []string
		for _, c := range h.server.Commands()[before:] {
			said = append(said, strings.Join(c.Args, " "))
		}
		assert.Equal(t, []string{"AUTH default x", "CLIENT SETNAME redquorum", "SUBSCRIBE " + testChannel}, said)
	})
}

func TestBrokenSubscriptionIsMadeAnewAtOnce(t *testing.T) {
	inBubble(t, func(h *harness) {
		_, e := h.subscribe()
		for range 5 {
			time.Sleep(steady)
			began := time.Now()
			h.killSubscriber()
			assert.Equal(t, []string{"deaf", "listening"}, h.events(e))
			h.publish("after")
			assert.Equal(t, []string{"<after"}, h.events(e))
			assert.Zero(t, time.Since(began))
		}
	})
}

func TestSubscriptionWaitsForAServerThatIsAway(t *testing.T) {
	inBubble(t, func(h *harness) {
		_, e := h.subscribe()
		time.Sleep(steady)
		h.server.Kill()
		time.Sleep(time.Minute)
		errs := h.deafness(e)
		assert.Greater(t, len(errs), 100, "attempts are at most 500 ms apart")
		assert.Less(t, len(errs), 260, "and 250 ms or more when it has backed off")
		for _, err := range errs[1:] {
			assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		}
		h.server.Restart(true)
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, []string{"listening"}, h.events(e))
		require.EqualValues(t, 1, h.publish("back"))
		assert.Equal(t, []string{"<back"}, h.events(e))
	})
}

func TestRefusedSubscriptionAsksSeldom(t *testing.T) {
	for _, words := range []string{
		"NOPERM this user has no permissions to access one of the channels used as arguments",
		"NOAUTH Authentication required.", "ERR unknown command 'SUBSCRIBE'",
	} {
		inBubble(t, func(h *harness) {
			h.server.RefuseWith(words, "SUBSCRIBE")
			e := newEar()
			h.node.Subscribe(testChannel, e)
			time.Sleep(5 * time.Minute)
			for _, err := range h.deafness(e) {
				assert.ErrorContains(t, err, words)
			}
			asked := h.commandsOf("SUBSCRIBE")
			assert.GreaterOrEqual(t, len(asked), 30, "at most 10 s apart")
			for i := range asked[1:] {
				assert.GreaterOrEqual(t, asked[i+1].At.Sub(asked[i].At), refusedPause/2)
			}
			h.server.RefuseWith("", "SUBSCRIBE")
			time.Sleep(refusedPause)
			assert.Equal(t, []string{"listening"}, h.events(e))
		})
	}
}

func TestServerThatWillServeSoonIsAskedSoon(t *testing.T) {
	for _, words := range []string{"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script."} {
		inBubble(t, func(h *harness) {
			h.server.RefuseWith(words, "SUBSCRIBE")
			e := newEar()
			h.node.Subscribe(testChannel, e)
			time.Sleep(time.Minute)
			assert.Greater(t, len(h.deafness(e)), 100)
		})
	}
}

func TestDeniedClientNameDoesNotCostTheSubscription(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.server.RefuseWith("NOPERM this user has no permissions to run the 'client|setname' command", "CLIENT")
		h.subscribe()
	})
}

func TestServerThatNeverAnswersASubscriberIsGivenUpAfterTheDialTimeout(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Stop()
		e := newEar()
		h.node.Subscribe(testChannel, e)
		time.Sleep(300*time.Millisecond - 1)
		assert.Empty(t, h.events(e))
		time.Sleep(time.Nanosecond)
		assert.ErrorContains(t, h.deafness(e)[0], "not ready within 300ms")
		h.server.Continue()
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, []string{"listening"}, h.events(e))
	}, WithDialTimeout(300*time.Millisecond))
}

func TestCloseEndsASubscriptionInEveryState(t *testing.T) {
	for name, prepare := range map[string]func(h *harness){
		"dialing":         func(h *harness) { h.server.Mute(true) },
		"being confirmed": func(h *harness) { h.server.Stop() },
		"idle":            func(*harness) {},
		"between dials":   func(h *harness) { h.server.Kill() },
		"refused":         func(h *harness) { h.server.RefuseWith("NOPERM no", "SUBSCRIBE") },
	} {
		for _, byNode := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " by node ", byNode), func(t *testing.T) {
				inBubble(t, func(h *harness) {
					h.up()
					prepare(h)
					e := newEar()
					s := h.node.Subscribe(testChannel, e)
					synctest.Wait()
					began := time.Now()
					if byNode {
						require.NoError(t, h.node.Close())
					} else {
						require.NoError(t, s.Close())
					}
					assert.Zero(t, time.Since(began))
					synctest.Wait()
					assert.Empty(t, h.node.subscriptions, "it is forgotten")
					events, errs := e.take()
					require.NotEmpty(t, errs)
					assert.Equal(t, "deaf", events[len(events)-1])
					for i, err := range errs {
						assert.Equal(t, i == len(errs)-1, errors.Is(err, ErrClosed), "%v", err)
					}
					require.NoError(t, s.Close())
					h.server.Mute(false)
					h.server.Continue()
					time.Sleep(time.Minute)
					assert.Empty(t, h.events(e), "nothing is told any more")
					want := 1
					if byNode || name == "between dials" {
						want = 0
					}
					assert.Equal(t, want, h.server.Connections())
				})
			})
		}
	}
}

func TestSubscriptionIsClosedByManyAtOnce(t *testing.T) {
	inBubble(t, func(h *harness) {
		s, e := h.subscribe()
		var closing sync.WaitGroup
		for i := range 10 {
			closing.Go(func() {
				if i%2 == 0 {
					assert.NoError(t, s.Close())
				} else {
					assert.NoError(t, h.node.Close())
				}
				assert.True(t, isClosed(s.stopped), "each waits")
			})
		}
		closing.Wait()
		assert.Equal(t, []string{"deaf"}, h.events(e))
	})
}

// Close may come when the server has just confirmed, and find no connection that it could end.
func TestConnectionThatWasMadeForAClosedSubscriptionIsClosed(t *testing.T) {
	inBubble(t, func(h *harness) {
		s, e := h.subscribe()
		require.NoError(t, s.Close())
		assert.Equal(t, []string{"deaf"}, h.events(e))
		client, server := fakenode.Pipe(0)
		assert.ErrorIs(t, s.listen(newConn(client, client)), ErrClosed)
		_, err := server.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF)
		assert.Empty(t, h.events(e))
	})
}

func TestSubscriptionOfAClosedNodeIsClosed(t *testing.T) {
	inBubble(t, func(h *harness) {
		require.NoError(t, h.node.Close())
		dials := h.dials.Load()
		e := newEar()
		s := h.node.Subscribe(testChannel, e)
		assert.ErrorIs(t, h.deafness(e)[0], ErrClosed)
		require.NoError(t, s.Close())
		time.Sleep(time.Minute)
		assert.Empty(t, h.events(e))
		assert.Equal(t, dials, h.dials.Load())
	})
}

func TestSubscriberAsksForCredentialsAtEveryConnect(t *testing.T) {
	var asked atomic.Int64
	inBubble(t, func(h *harness) {
		h.up()
		h.node.config.credentials = func(_ context.Context, endpoint string) (string, string, error) {
			assert.Equal(t, "redis://fake:6379", endpoint)
			return "me", fmt.Sprint("secret", asked.Add(1)), nil
		}
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "AUTH" {
				return []byte("+OK\r\n")
			}
			return nil
		})
		h.subscribe()
		for range 2 {
			time.Sleep(steady)
			h.killSubscriber()
			synctest.Wait()
		}
		var said []string
		for _, c := range h.commandsOf("AUTH") {
			said = append(said, strings.Join(c.Args, " "))
		}
		assert.Equal(t, []string{"AUTH me secret1", "AUTH me secret2", "AUTH me secret3"}, said)
		vault := errors.New("vault is sealed")
		h.node.config.credentials = func(context.Context, string) (string, string, error) { return "", "", vault }
		e := newEar()
		h.node.Subscribe(testChannel, e)
		assert.ErrorIs(t, h.deafness(e)[0], vault)
	})
}

func TestPasswordIsInNoErrorOfASubscription(t *testing.T) {
	for _, replies := range []struct{ auth, name, subscribe string }{
		{auth: "-ERR unknown command `AUTH`, with args beginning with: `hunter2`\r\n"},
		{auth: "-WRONGPASS invalid username-password pair or user is disabled.\r\n"},
		{auth: "*2\r\n$4\r\nAUTH\r\n$7\r\nhunter2\r\n"},
		{auth: "AUTH hunter2\r\n"},
		{auth: "+OK\r\n", name: "-ERR hunter2\r\n", subscribe: "-ERR hunter2\r\n"},
		{auth: "+OK\r\n", subscribe: confirmation + "AUTH hunter2\r\n"},
		{auth: "+OK\r\n", subscribe: confirmation + "-ERR hunter2\r\n"},
		{auth: "+OK\r\n", subscribe: confirmation + "*2\r\n$4\r\nAUTH\r\n$7\r\nhunter2\r\n"},
		{auth: "+OK\r\n", subscribe: confirmation + "*3\r\n$7\r\nmessage\r\n$7\r\nhunter2\r\n$7\r\nhunter2\r\n"},
	} {
		inBubble(t, func(h *harness) {
			h.server.ReplyRaw(func(cmd []string) []byte {
				answer := map[string]string{"AUTH": replies.auth, "CLIENT": replies.name, "SUBSCRIBE": replies.subscribe}[cmd[0]]
				if answer == "" {
					return nil
				}
				return []byte(answer)
			})
			for _, rest := range []string{"", strings.Repeat("x", 200)} { // of which Redis repeats the beginning
				node := h.newNode("redis://:hunter2" + rest + "@fake:6379")
				defer node.Close()
				e := newEar()
				node.Subscribe(testChannel, e)
				time.Sleep(20 * time.Second)
				synctest.Wait()
				_, errs := e.take()
				require.NotEmpty(t, errs, replies)
				for _, err := range errs {
					assert.NotContains(t, err.Error(), "hunter2")
				}
			}
		})
	}
}

func TestServerThatRepeatsThePasswordIsAskedSeldom(t *testing.T) {
	inBubble(t, func(h *harness) {
		node := h.newNode("redis://:hunter2@fake:6379")
		defer node.Close()
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "AUTH" {
				return []byte("-ERR unknown command `AUTH`, with args beginning with: `hunter2`\r\n")
			}
			return nil
		})
		e := newEar()
		node.Subscribe(testChannel, e)
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, len(h.deafness(e)), 13)
	})
}
