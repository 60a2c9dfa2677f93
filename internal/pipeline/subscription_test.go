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

	"github.com/redquorum/redquorum/internal/fakeredis"
)

const testChannel = "redquorum:wake:test"

// recorder is a Listener that keeps what it receives.
type recorder struct {
	mu     sync.Mutex
	events []string // "subscribed", "unsubscribed", or a message behind a "<"
	errs   []error  // one for each "unsubscribed"
}

func (e *recorder) Subscribed() { e.note("subscribed") }

func (e *recorder) Message(message string) { e.note("<" + message) }

func (e *recorder) Unsubscribed(err error) { e.note("unsubscribed", err) }

func (e *recorder) note(event string, errs ...error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events, e.errs = append(e.events, event), append(e.errs, errs...)
}

// take returns the events since the last call.
func (e *recorder) take() (events []string, errs []error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	events, errs = e.events, e.errs
	e.events, e.errs = nil, nil
	return events, errs
}

// now returns the events since the last call, once everything that happens now has happened.
func (e *recorder) now() []string {
	synctest.Wait()
	events, _ := e.take()
	return events
}

// failures returns the errors of the events since the last call, which must all be "unsubscribed".
func (e *recorder) failures(t *testing.T) []error {
	t.Helper()
	synctest.Wait()
	events, errs := e.take()
	require.Len(t, errs, len(events), "%v", events)
	require.NotEmpty(t, errs)
	return errs
}

// again asserts that since the last call the subscription broke for that reason, and is back.
func (e *recorder) again(t *testing.T, reason error) {
	t.Helper()
	synctest.Wait()
	events, errs := e.take()
	require.Equal(t, []string{"unsubscribed", "subscribed"}, events, "%v", errs)
	assert.ErrorIs(t, errs[0], reason)
}

// begin returns a subscription of the node that has just begun.
func (h *harness) begin() (*Subscription, *recorder) {
	e := new(recorder)
	return h.node.Subscribe(testChannel, e), e
}

// subscribe returns a subscription of the node that is in force.
func (h *harness) subscribe() (*Subscription, *recorder) {
	h.t.Helper()
	s, e := h.begin()
	require.Equal(h.t, []string{"subscribed"}, e.now())
	return s, e
}

// publish returns how many subscribers received the message.
func (h *harness) publish(message string) int64 {
	h.t.Helper()
	return h.command("PUBLISH", testChannel, message).reply().(int64)
}

// killSubscriber makes the server close the latest subscriber's connection.
func (h *harness) killSubscriber() {
	h.t.Helper()
	subscribes := h.commandsOf("SUBSCRIBE")
	require.EqualValues(h.t, 1, h.command("CLIENT", "KILL", "ID", subscribes[len(subscribes)-1].Conn).reply())
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

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
		assert.Equal(t, append(want, "<"+long, "<"), e.now())
		h.command("PUBLISH", testChannel+"2", "x").wait()
		assert.Empty(t, e.now(), "another channel")
	})
}

func TestSubscriberShakesHandsWithOneWrite(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		var writes atomic.Int64
		h.node.config.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := h.server.Dial(ctx)
			return beforeWrite{conn, func() error { writes.Add(1); return nil }}, err
		}
		h.node.config.credentials = func(context.Context, string) (string, string, error) { return "default", "x", nil }
		acceptPassword(h.server)
		before := len(h.server.Commands())
		h.subscribe()
		assert.EqualValues(t, 1, writes.Load())
		var said []string
		for _, c := range h.server.Commands()[before:] {
			said = append(said, strings.Join(c.Args, " "))
		}
		assert.Equal(t, []string{"AUTH default x", "CLIENT SETNAME redquorum", "SUBSCRIBE " + testChannel}, said)
	})
	inBubble(t, func(h *harness) {
		h.server.RefuseWith("NOPERM this user has no permissions to run the 'client|setname' command", "CLIENT")
		h.subscribe() // without a name
	})
}

func TestBrokenSubscriptionReconnectsAtOnce(t *testing.T) {
	inBubble(t, func(h *harness) {
		_, e := h.subscribe()
		for range 5 {
			time.Sleep(steady)
			began := time.Now()
			h.killSubscriber()
			assert.Equal(t, []string{"unsubscribed", "subscribed"}, e.now())
			h.publish("after")
			assert.Equal(t, []string{"<after"}, e.now())
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
		errs := e.failures(t)
		assert.Greater(t, len(errs), 100, "attempts are at most 500 ms apart")
		assert.Less(t, len(errs), 260, "and 250 ms or more when it has backed off")
		for _, err := range errs[1:] {
			assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		}
		h.server.Restart(true)
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, []string{"subscribed"}, e.now())
		require.EqualValues(t, 1, h.publish("back"))
		assert.Equal(t, []string{"<back"}, e.now())
	})
}

func TestServerThatWillServeSoonIsAskedSoonAndOneThatRefusesRarely(t *testing.T) {
	for words, soon := range map[string]bool{
		"LOADING Redis is loading the dataset in memory":                                      true,
		"BUSY Redis is busy running a script.":                                                true,
		"NOAUTH Authentication required.":                                                     false,
		"ERR unknown command 'SUBSCRIBE'":                                                     false,
		"NOPERM this user has no permissions to access one of the channels used as arguments": false,
	} {
		inBubble(t, func(h *harness) {
			h.server.RefuseWith(words, "SUBSCRIBE")
			_, e := h.begin()
			time.Sleep(5 * time.Minute)
			for _, err := range e.failures(t) {
				assert.ErrorContains(t, err, words)
			}
			asked := h.commandsOf("SUBSCRIBE")
			if soon {
				assert.Greater(t, len(asked), 500)
			} else {
				assert.GreaterOrEqual(t, len(asked), 30, "at most 10 s apart")
				for i := range asked[1:] {
					assert.GreaterOrEqual(t, asked[i+1].At.Sub(asked[i].At), refusedPause/2)
				}
			}
			h.server.RefuseWith("", "SUBSCRIBE")
			time.Sleep(refusedPause)
			assert.Equal(t, []string{"subscribed"}, e.now())
		})
	}
	inBubble(t, func(h *harness) { // what it says is not shown, because it repeats the password
		require.NoError(t, h.node.Close())
		replyTo(h.server, named("AUTH"), "-ERR unknown command `AUTH`, with args beginning with: `hunter2`\r\n")
		h.node = h.newNode("redis://:hunter2@fake:6379")
		_, e := h.begin()
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, len(e.failures(t)), 13)
	})
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
					s, e := h.begin()
					synctest.Wait()
					began, left := time.Now(), 1
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
					assert.Equal(t, "unsubscribed", events[len(events)-1])
					for i, err := range errs {
						assert.Equal(t, i == len(errs)-1, errors.Is(err, ErrClosed), "%v", err)
					}
					require.NoError(t, s.Close())
					h.server.Mute(false)
					h.server.Continue()
					time.Sleep(time.Minute)
					assert.Empty(t, e.now(), "no more events")
					if byNode || name == "between dials" {
						left = 0
					}
					assert.Equal(t, left, h.server.Connections())
				})
			})
		}
	}
}

func TestSubscriptionIsClosedByManyAtOnce(t *testing.T) {
	inBubble(t, func(h *harness) {
		s, e := h.subscribe()
		var closing sync.WaitGroup
		for _, end := range []func() error{s.Close, h.node.Close, s.Close, h.node.Close, s.Close} {
			closing.Go(func() {
				assert.NoError(t, end())
				assert.True(t, isClosed(s.stopped), "each waits")
			})
		}
		closing.Wait()
		assert.Equal(t, []string{"unsubscribed"}, e.now())
	})
}

func TestNothingIsSubscribedOnceItIsClosed(t *testing.T) {
	inBubble(t, func(h *harness) {
		s, e := h.subscribe()
		require.NoError(t, s.Close())
		assert.Equal(t, []string{"unsubscribed"}, e.now())
		client, server := fakeredis.Pipe() // which a server has just confirmed: Close did not find it
		assert.ErrorIs(t, s.serve(newConn(client, client)), ErrClosed)
		_, err := server.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF)
		assert.Empty(t, e.now())

		require.NoError(t, h.node.Close())
		dials := h.dials.Load()
		s, e = h.begin()
		assert.ErrorIs(t, e.failures(t)[0], ErrClosed)
		require.NoError(t, s.Close())
		time.Sleep(time.Minute)
		assert.Empty(t, e.now())
		assert.Equal(t, dials, h.dials.Load())
	})
}

// slowRecorder does not return from the first message until it is let go.
type slowRecorder struct {
	*recorder
	once sync.Once
	let  chan struct{}
}

func (e *slowRecorder) Message(message string) {
	e.recorder.Message(message)
	e.once.Do(func() { <-e.let })
}

func TestBufferedMessagesAreDroppedByClose(t *testing.T) {
	inBubble(t, func(h *harness) {
		e := &slowRecorder{recorder: new(recorder), let: make(chan struct{})}
		replyTo(h.server, named("SUBSCRIBE"), confirmation+strings.Repeat(message("x"), 10))
		s := h.node.Subscribe(testChannel, e)
		assert.Equal(t, []string{"subscribed", "<x"}, e.now())
		var closing sync.WaitGroup
		closing.Go(func() { assert.NoError(t, s.Close()) })
		synctest.Wait()
		assert.False(t, isClosed(s.stopped))
		close(e.let)
		closing.Wait()
		assert.Equal(t, []string{"unsubscribed"}, e.now())
	})
}
