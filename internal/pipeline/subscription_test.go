package pipeline

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSubscriptionReceivesMessagesInOrder(t *testing.T) {
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

func TestBrokenSubscriptionReconnectsAtOnce(t *testing.T) {
	inBubble(t, func(h *harness) {
		_, e := h.subscribe()
		for range 5 {
			time.Sleep(steady)
			began := time.Now()
			h.killSubscriber()
			assert.Equal(t, []string{"unsubscribed", "subscribed"}, h.events(e))
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
		errs := h.failures(e)
		assert.Greater(t, len(errs), 100, "attempts are at most 500 ms apart")
		assert.Less(t, len(errs), 260, "and 250 ms or more when it has backed off")
		for _, err := range errs[1:] {
			assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		}
		h.server.Restart(true)
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, []string{"subscribed"}, h.events(e))
		require.EqualValues(t, 1, h.publish("back"))
		assert.Equal(t, []string{"<back"}, h.events(e))
	})
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
		e := newRecorder()
		h.node.Subscribe(testChannel, e)
		time.Sleep(300*time.Millisecond - 1)
		assert.Empty(t, h.events(e))
		time.Sleep(time.Nanosecond)
		assert.ErrorContains(t, h.failures(e)[0], "not ready within 300ms")
		h.server.Continue()
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, []string{"subscribed"}, h.events(e))
	}, WithDialTimeout(300*time.Millisecond))
}
