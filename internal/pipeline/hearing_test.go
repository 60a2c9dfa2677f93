package pipeline

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/fakenode"
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
		assert.ErrorIs(t, h.deafness(e)[0], ErrStalled, "an idle ping and a dial timeout after the message")
		h.server.MuteReplies(false)
		time.Sleep(time.Second)
		assert.Contains(t, h.events(e), "listening")
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
		assert.Equal(t, []string{"deaf", "listening"}, events)
		assert.ErrorIs(t, errs[0], ErrStalled)
	})
}

// pingsOfSubscriber returns the PINGs that came on the connection of the last SUBSCRIBE.
func (h *harness) pingsOfSubscriber() (pings []fakenode.Command) {
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
		assert.NotContains(t, events, "deaf")
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

const confirmation = "*3\r\n$9\r\nsubscribe\r\n$19\r\n" + testChannel + "\r\n:1\r\n"

// wrongForSubscribers is what breaks a subscription, in the place of its confirmation and behind it.
var wrongForSubscribers = map[string]string{
	"not Redis":          "HTTP/1.1 400 Bad Request\r\n\r\n",
	"RESP3":              ">3\r\n$7\r\nmessage\r\n$19\r\n" + testChannel + "\r\n$1\r\nx\r\n",
	"huge message":       "*3\r\n$7\r\nmessage\r\n$19\r\n" + testChannel + "\r\n$1048577\r\n",
	"huge array":         "*1000000000000\r\n",
	"deep":               strings.Repeat("*1\r\n", 9),
	"status":             "+OK\r\n",
	"integer":            ":1\r\n",
	"bulk":               "$7\r\nmessage\r\n",
	"null":               "*-1\r\n",
	"empty":              "*0\r\n",
	"error":              "-ERR what\r\n",
	"short message":      "*2\r\n$7\r\nmessage\r\n$19\r\n" + testChannel + "\r\n",
	"long message":       "*4\r\n$7\r\nmessage\r\n$19\r\n" + testChannel + "\r\n$1\r\nx\r\n$1\r\ny\r\n",
	"null message":       "*3\r\n$7\r\nmessage\r\n$19\r\n" + testChannel + "\r\n$-1\r\n",
	"integer message":    "*3\r\n$7\r\nmessage\r\n$19\r\n" + testChannel + "\r\n:1\r\n",
	"nested message":     "*3\r\n$7\r\nmessage\r\n$19\r\n" + testChannel + "\r\n*1\r\n$1\r\nx\r\n",
	"error for message":  "*3\r\n$7\r\nmessage\r\n$19\r\n" + testChannel + "\r\n-ERR x\r\n",
	"another channel":    "*3\r\n$7\r\nmessage\r\n$5\r\nother\r\n$1\r\nx\r\n",
	"pattern":            "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$19\r\n" + testChannel + "\r\n$1\r\nx\r\n",
	"unasked pong":       "*2\r\n$4\r\npong\r\n$0\r\n\r\n",
	"unsubscribed":       "*3\r\n$11\r\nunsubscribe\r\n$19\r\n" + testChannel + "\r\n:0\r\n",
	"subscribed another": "*3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:1\r\n",
	"subscribed twice":   "*3\r\n$9\r\nsubscribe\r\n$19\r\n" + testChannel + "\r\n:2\r\n",
}

func TestWhatNoSubscriberIsToldBreaksTheSubscription(t *testing.T) {
	wrong := map[string]string{"confirmed again": confirmation + confirmation}
	for name, reply := range wrongForSubscribers {
		wrong[name+" behind the confirmation"] = confirmation + reply
		if reply[0] != '-' { // in the place of the confirmation, that is a refusal
			wrong[name] = reply
		}
	}
	for name, reply := range wrong {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.server.ReplyRaw(func(cmd []string) []byte {
					if cmd[0] == "SUBSCRIBE" {
						return []byte(reply)
					}
					return nil
				})
				e := newEar()
				h.node.Subscribe(testChannel, e)
				time.Sleep(time.Minute)
				synctest.Wait()
				events, errs := e.take()
				for _, err := range errs {
					require.ErrorIs(t, err, ErrProtocol)
				}
				assert.NotEmpty(t, errs)
				assert.Less(t, len(errs), 260, "with the pauses of the backoff")
				for _, event := range events {
					assert.False(t, strings.HasPrefix(event, "<"), event)
				}
				assert.Equal(t, strings.HasPrefix(reply, confirmation), events[0] == "listening")
				h.server.ReplyRaw(nil)
				time.Sleep(500 * time.Millisecond)
				assert.Equal(t, []string{"listening"}, h.events(e))
			})
		})
	}
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
				h.server.OnCommand(func(c fakenode.Command) {
					if c.Args[0] == "SUBSCRIBE" {
						h.server.ReplyRaw(nil) // the subscription is made anew
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
				require.Equal(t, []string{"deaf", "listening"}, events)
				assert.ErrorIs(t, errs[0], ErrProtocol)
			})
		})
	}
}

func TestMessagesThatComeWithTheConfirmationAreHeard(t *testing.T) {
	inBubble(t, func(h *harness) {
		message := "*3\r\n$7\r\nmessage\r\n$19\r\n" + testChannel + "\r\n$2\r\nhi\r\n"
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "SUBSCRIBE" {
				return []byte(confirmation + message + message)
			}
			return nil
		})
		e := newEar()
		h.node.Subscribe(testChannel, e)
		assert.Equal(t, []string{"listening", "<hi", "<hi"}, h.events(e))
	})
}

func TestSubscriptionThatIsCutInAMessageDropsIt(t *testing.T) {
	inBubble(t, func(h *harness) {
		_, e := h.subscribe()
		time.Sleep(steady)
		h.server.Inject([]byte("*3\r\n$7\r\nmessage\r\n$19\r\n" + testChannel + "\r\n$20\r\nhalf"))
		synctest.Wait()
		h.server.Restart(true)
		assert.Equal(t, []string{"deaf", "listening"}, h.events(e))
	})
}

// A peer that takes no bytes holds up the write of the PING. It is found, and does not hold up Close, all the same.
func TestSubscriptionWhosePingCannotBeWritten(t *testing.T) {
	for _, byClose := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			dials := 0
			node, err := NewNode("fake:6379", WithClock(clocktest.New()), WithDialer(func(context.Context, string, string) (net.Conn, error) {
				if dials++; dials != 2 { // the first is the node's own
					return nil, errors.New("no more")
				}
				client, server := net.Pipe() // a write waits for the reader
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
			e := newEar()
			s := node.Subscribe(testChannel, e)
			time.Sleep(5500 * time.Millisecond)
			synctest.Wait()
			events, _ := e.take()
			require.Equal(t, []string{"listening"}, events)
			if byClose {
				began := time.Now()
				require.NoError(t, s.Close())
				assert.Zero(t, time.Since(began))
			} else {
				time.Sleep(500 * time.Millisecond)
				synctest.Wait()
				events, errs := e.take()
				require.Equal(t, []string{"deaf", "deaf"}, events)
				assert.ErrorIs(t, errs[0], ErrStalled)
			}
			require.NoError(t, node.Close())
		})
	}
}

// slowEar does not return from the first message until it is let go.
type slowEar struct {
	*ear
	once sync.Once
	let  chan struct{}
}

func (e *slowEar) Heard(message string) {
	e.ear.Heard(message)
	e.once.Do(func() { <-e.let })
}

func TestMessagesInStoreAreNotHeardOnceClosed(t *testing.T) {
	inBubble(t, func(h *harness) {
		e := &slowEar{ear: newEar(), let: make(chan struct{})}
		message := "*3\r\n$7\r\nmessage\r\n$19\r\n" + testChannel + "\r\n$1\r\nx\r\n"
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "SUBSCRIBE" {
				return []byte(confirmation + strings.Repeat(message, 10))
			}
			return nil
		})
		s := h.node.Subscribe(testChannel, e)
		assert.Equal(t, []string{"listening", "<x"}, h.events(e.ear))
		var closing sync.WaitGroup
		closing.Go(func() { assert.NoError(t, s.Close()) })
		synctest.Wait()
		assert.False(t, isClosed(s.stopped))
		close(e.let)
		closing.Wait()
		assert.Equal(t, []string{"deaf"}, h.events(e.ear))
	})
}
