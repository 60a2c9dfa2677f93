package pipeline

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/proof/fake"
)

func TestPeerThatGoesMuteIsNoticedByThePing(t *testing.T) {
	inBubble(t, func(h *harness) {
		_, e := h.subscribe()
		time.Sleep(2 * time.Second)
		h.publish("last")
		assert.Equal(t, []string{"<last"}, h.events(e))
		h.server.MuteReplies(true)
		time.Sleep(3300*time.Millisecond - 1)
		assert.Empty(t, h.events(e))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.ErrorIs(t, h.failures(e)[0], ErrStalled, "an idle ping and a dial timeout after the message")
		h.server.MuteReplies(false)
		time.Sleep(time.Second)
		assert.Contains(t, h.events(e), "subscribed")
		time.Sleep(time.Minute)
		assert.Empty(t, h.events(e), "the new connection has PINGs of its own")
	}, WithIdlePing(3*time.Second), WithDialTimeout(300*time.Millisecond))
}

func TestMessagesAreASignOfLifeWhileThePingHasNoAnswer(t *testing.T) {
	inBubble(t, func(h *harness) {
		_, e := h.subscribe()
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "PING" && cmd[len(cmd)-1] == "redquorum-subscriber-1" {
				return []byte{}
			}
			return nil
		})
		time.Sleep(5 * time.Second)
		for range 10 {
			time.Sleep(900 * time.Millisecond)
			h.publish("x")
			assert.Equal(t, []string{"<x"}, h.events(e))
		}
		time.Sleep(time.Second - time.Nanosecond)
		assert.Empty(t, h.events(e))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		events, errs := e.take()
		assert.Equal(t, []string{"unsubscribed", "subscribed"}, events)
		assert.ErrorIs(t, errs[0], ErrStalled)
	})
}

// pingsOfSubscriber returns the PINGs on the connection of the last SUBSCRIBE.
func (h *harness) pingsOfSubscriber() (pings []fake.Command) {
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
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		assert.Len(t, h.pingsOfSubscriber(), 12)
		for range 30 {
			h.publish("x")
			time.Sleep(4 * time.Second)
		}
		assert.Len(t, h.pingsOfSubscriber(), 12)
		events := h.events(e)
		assert.Len(t, events, 30)
		assert.NotContains(t, events, "unsubscribed")
	})
}

func TestForbiddenPingIsAnAnswer(t *testing.T) {
	inBubble(t, func(h *harness) {
		_, e := h.subscribe()
		h.server.RefuseWith("NOPERM this user has no permissions to run the 'ping' command", "PING")
		time.Sleep(time.Minute)
		assert.NotEmpty(t, h.pingsOfSubscriber())
		assert.Empty(t, h.events(e))
	})
}

func TestSuspendedMachineAsksBeforeItGivesUp(t *testing.T) {
	inBubble(t, func(h *harness) {
		_, e := h.subscribe()
		h.clock.Suspend(time.Hour)
		time.Sleep(2 * time.Second)
		assert.Empty(t, h.events(e), "the peer was there all the time")
		assert.Len(t, h.pingsOfSubscriber(), 1)
	})
}

func TestWrongAnswerToAPingBreaksTheSubscription(t *testing.T) {
	for name, reply := range map[string]string{
		"another text": "*2\r\n$4\r\npong\r\n$3\r\nabc\r\n",
		"a status":     "+PONG\r\n",
		"two":          "*2\r\n$4\r\npong\r\n$22\r\nredquorum-subscriber-1\r\n*2\r\n$4\r\npong\r\n$22\r\nredquorum-subscriber-1\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				_, e := h.subscribe()
				h.server.OnCommand(func(c fake.Command) {
					if c.Args[0] == "SUBSCRIBE" {
						h.server.ReplyRaw(nil) // it subscribes again
					}
				})
				h.server.ReplyRaw(func(cmd []string) []byte {
					if cmd[0] == "PING" && len(cmd) == 2 && cmd[1] == "redquorum-subscriber-1" {
						return []byte(reply)
					}
					return nil
				})
				time.Sleep(6 * time.Second)
				synctest.Wait()
				events, errs := e.take()
				require.Equal(t, []string{"unsubscribed", "subscribed"}, events)
				assert.ErrorIs(t, errs[0], ErrProtocol)
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
			e := newRecorder()
			s := node.Subscribe(testChannel, e)
			time.Sleep(5500 * time.Millisecond)
			synctest.Wait()
			events, _ := e.take()
			require.Equal(t, []string{"subscribed"}, events)
			if byClose {
				began := time.Now()
				require.NoError(t, s.Close())
				assert.Zero(t, time.Since(began))
			} else {
				time.Sleep(500 * time.Millisecond)
				synctest.Wait()
				events, errs := e.take()
				require.Equal(t, []string{"unsubscribed", "unsubscribed"}, events)
				assert.ErrorIs(t, errs[0], ErrStalled)
			}
			require.NoError(t, node.Close())
		})
	}
}
