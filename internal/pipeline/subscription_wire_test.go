package pipeline

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/fakeredis"
)

func TestPushesAreReadInEveryEntry(t *testing.T) {
	bulk := func(text string) []byte { return []byte(text) }
	for _, c := range []struct {
		reply any
		want  push
		ok    bool
	}{
		{[]any{bulk("message"), bulk("c"), bulk("m")}, push{kind: pushMessage, channel: "c", text: "m"}, true},
		{[]any{bulk("message"), bulk(""), bulk("")}, push{kind: pushMessage}, true},
		{[]any{bulk("subscribe"), bulk("c"), int64(1)}, push{kind: pushSubscribe, channel: "c"}, true},
		{[]any{bulk("unsubscribe"), bulk("c"), int64(0)}, push{kind: pushUnsubscribe, channel: "c"}, true},
		{[]any{bulk("pong"), bulk("t")}, push{kind: pushPong, text: "t"}, true},
		{reply: nil},
		{reply: []any{}},
		{reply: []any{bulk("message")}},
		{reply: []any{"message", bulk("c"), bulk("m")}},
		{reply: []any{nil, bulk("c"), bulk("m")}},
		{reply: []any{bulk("Message"), bulk("c"), bulk("m")}},
		{reply: []any{bulk("message"), nil, bulk("m")}},
		{reply: []any{bulk("message"), bulk("c"), nil}},
		{reply: []any{bulk("message"), bulk("c"), redis.Error("ERR")}},
		{reply: []any{bulk("message"), bulk("c"), bulk("m"), bulk("m")}},
		{reply: []any{bulk("subscribe"), bulk("c"), int64(2)}},
		{reply: []any{bulk("subscribe"), bulk("c"), bulk("1")}},
		{reply: []any{bulk("subscribe"), nil, int64(1)}},
		{reply: []any{bulk("subscribe"), bulk("c")}},
		{reply: []any{bulk("unsubscribe"), nil, int64(0)}},
		{reply: []any{bulk("pong"), bulk("t"), bulk("t")}},
		{reply: []any{bulk("pong"), int64(1)}},
		{reply: []any{bulk("pong"), nil}},
	} {
		got, ok := parsePush(c.reply)
		assert.Equal(t, c.ok, ok, "%q", c.reply)
		if c.ok {
			assert.Equal(t, c.want, got, "%q", c.reply)
		}
	}
}

const confirmation = "*3\r\n$9\r\nsubscribe\r\n$19\r\n" + testChannel + "\r\n:1\r\n"

// message is what a server sends to a subscriber.
func message(text string) string { return "*3\r\n" + Encode("message", testChannel, text) }

func pong(text string) string { return "*2\r\n" + Encode("pong", text) }

// wrongForSubscribers breaks a subscription, both in place of its confirmation and behind it. The
// tests of the parser and of pushes have all that is none.
var wrongForSubscribers = map[string]string{
	"not Redis":          "HTTP/1.1 400 Bad Request\r\n\r\n",
	"RESP3":              ">3\r\n$7\r\nmessage\r\n$19\r\n" + testChannel + "\r\n$1\r\nx\r\n",
	"huge message":       "*3\r\n$7\r\nmessage\r\n$19\r\n" + testChannel + "\r\n$1048577\r\n",
	"status":             "+OK\r\n",
	"error":              "-ERR what\r\n",
	"another channel":    "*3\r\n$7\r\nmessage\r\n$5\r\nother\r\n$1\r\nx\r\n",
	"unasked pong":       "*2\r\n$4\r\npong\r\n$0\r\n\r\n",
	"unsubscribed":       "*3\r\n$11\r\nunsubscribe\r\n$19\r\n" + testChannel + "\r\n:0\r\n",
	"subscribed another": "*3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:1\r\n",
}

func TestUnexpectedRepliesBreakTheSubscription(t *testing.T) {
	wrong := map[string]string{"confirmed again": confirmation + confirmation}
	for name, reply := range wrongForSubscribers {
		wrong[name+" behind the confirmation"] = confirmation + reply
		if reply[0] != '-' { // in place of the confirmation, an error is a refusal
			wrong[name] = reply
		}
	}
	for name, reply := range wrong {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				replyTo(h.server, named("SUBSCRIBE"), reply)
				_, e := h.begin()
				pass(time.Minute)
				events, errs := e.take()
				for _, err := range errs {
					require.ErrorIs(t, err, ErrProtocol)
				}
				assert.NotEmpty(t, errs)
				assert.Less(t, len(errs), 260, "with the pauses of the backoff")
				for _, event := range events {
					assert.False(t, strings.HasPrefix(event, "<"), event)
				}
				assert.Equal(t, strings.HasPrefix(reply, confirmation), events[0] == "subscribed")
				h.server.ReplyRaw(nil)
				time.Sleep(500 * time.Millisecond)
				assert.Equal(t, []string{"subscribed"}, e.now())
			})
		})
	}
}

// firstPing is the kind of the first PING of a subscriber.
func firstPing(cmd []string) bool {
	return cmd[0] == "PING" && cmd[len(cmd)-1] == "redquorum-subscriber-1"
}

func TestPeerThatGoesMuteIsNoticedByThePing(t *testing.T) {
	inBubble(t, func(h *harness) {
		_, e := h.subscribe()
		time.Sleep(2 * time.Second)
		h.publish("last")
		assert.Equal(t, []string{"<last"}, e.now())
		h.server.MuteReplies(true)
		time.Sleep(idlePing + 300*time.Millisecond - 1)
		assert.Empty(t, e.now())
		time.Sleep(time.Nanosecond)
		assert.ErrorIs(t, e.failures(t)[0], ErrStalled, "an idle ping and a dial timeout after the message")
		h.server.MuteReplies(false)
		time.Sleep(time.Second)
		assert.Contains(t, e.now(), "subscribed")
		time.Sleep(time.Minute)
		assert.Empty(t, e.now(), "the new connection has PINGs of its own")
	}, WithDialTimeout(300*time.Millisecond))
}

func TestMessagesAreASignOfLifeWhileThePingHasNoAnswer(t *testing.T) {
	inBubble(t, func(h *harness) {
		_, e := h.subscribe()
		replyTo(h.server, firstPing, "")
		time.Sleep(5 * time.Second)
		for range 10 {
			time.Sleep(900 * time.Millisecond)
			h.publish("x")
			assert.Equal(t, []string{"<x"}, e.now())
		}
		time.Sleep(time.Second - time.Nanosecond)
		assert.Empty(t, e.now())
		time.Sleep(time.Nanosecond)
		e.again(t, ErrStalled)
	})
}

// pingsOfSubscriber returns the PINGs on the connection of the last SUBSCRIBE.
func (h *harness) pingsOfSubscriber() (pings []fakeredis.Command) {
	subscribes := h.commandsOf("SUBSCRIBE")
	for _, c := range h.commandsOf("PING") {
		if c.Conn == subscribes[len(subscribes)-1].Conn {
			pings = append(pings, c)
		}
	}
	return pings
}

func TestIdleSubscriptionIsPingedAndABusyOneIsNot(t *testing.T) {
	inBubble(t, func(h *harness) {
		_, e := h.subscribe()
		pass(time.Minute + time.Second)
		assert.Len(t, h.pingsOfSubscriber(), 12)
		for range 30 {
			h.publish("x")
			time.Sleep(4 * time.Second)
		}
		assert.Len(t, h.pingsOfSubscriber(), 12)
		events := e.now()
		assert.Len(t, events, 30)
		assert.NotContains(t, events, "unsubscribed")

		h.server.RefuseWith(noPermission, "PING") // which is an answer, too
		time.Sleep(time.Minute)
		assert.Greater(t, len(h.pingsOfSubscriber()), 12)
		assert.Empty(t, e.now())
	})
}

func TestSuspendedMachineAsksBeforeItGivesUp(t *testing.T) {
	inBubble(t, func(h *harness) {
		_, e := h.subscribe()
		h.clock.Suspend(time.Hour)
		time.Sleep(2 * time.Second)
		assert.Empty(t, e.now(), "the peer was there all the time")
		assert.Len(t, h.pingsOfSubscriber(), 1)
	})
}

func TestWrongAnswerToAPingBreaksTheSubscription(t *testing.T) {
	right := pong("redquorum-subscriber-1")
	for name, reply := range map[string]string{
		"another text": pong("abc"),
		"a status":     "+PONG\r\n",
		"two":          right + right,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				_, e := h.subscribe()
				h.server.OnCommand(func(c fakeredis.Command) {
					if c.Args[0] == "SUBSCRIBE" {
						h.server.ReplyRaw(nil) // it subscribes again
					}
				})
				replyTo(h.server, firstPing, reply)
				time.Sleep(6 * time.Second)
				e.again(t, ErrProtocol)
			})
		})
	}
}

// A peer that takes no bytes blocks the write of the PING. That is noticed all the same, and does
// not delay Close.
func TestSubscriptionWhosePingCannotBeWritten(t *testing.T) {
	for _, byClose := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			dials := 0
			node, err := NewNode("fake:6379", WithClock(clocktest.New()), WithDialer(func(context.Context, string, string) (net.Conn, error) {
				if dials++; dials != 2 { // the first is the node's own
					return nil, errors.New("no more")
				}
				client, server := net.Pipe() // a write blocks until the peer reads
				go func() {
					_, err := server.Read(make([]byte, 4096))
					assert.NoError(t, err)
					_, err = io.WriteString(server, "+OK\r\n"+confirmation)
					assert.NoError(t, err)
				}()
				return client, nil
			}), WithBackoff(time.Minute, time.Minute))
			require.NoError(t, err)
			synctest.Wait()
			e := new(recorder)
			s := node.Subscribe(testChannel, e)
			time.Sleep(5500 * time.Millisecond)
			require.Equal(t, []string{"subscribed"}, e.now())
			if byClose {
				began := time.Now()
				require.NoError(t, s.Close())
				assert.Zero(t, time.Since(began))
			} else {
				time.Sleep(500 * time.Millisecond)
				errs := e.failures(t)
				require.Len(t, errs, 2)
				assert.ErrorIs(t, errs[0], ErrStalled)
			}
			require.NoError(t, node.Close())
		})
	}
}
