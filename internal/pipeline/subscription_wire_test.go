package pipeline

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const confirmation = "*3\r\n$9\r\nsubscribe\r\n$19\r\n" + testChannel + "\r\n:1\r\n"

// wrongForSubscribers breaks a subscription, both in place of its confirmation and behind it.
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
				h.server.ReplyRaw(func(cmd []string) []byte {
					if cmd[0] == "SUBSCRIBE" {
						return []byte(reply)
					}
					return nil
				})
				e := newRecorder()
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
				assert.Equal(t, strings.HasPrefix(reply, confirmation), events[0] == "subscribed")
				h.server.ReplyRaw(nil)
				time.Sleep(500 * time.Millisecond)
				assert.Equal(t, []string{"subscribed"}, h.events(e))
			})
		})
	}
}

func TestMessagesThatComeWithTheConfirmationArrive(t *testing.T) {
	inBubble(t, func(h *harness) {
		message := "*3\r\n$7\r\nmessage\r\n$19\r\n" + testChannel + "\r\n$2\r\nhi\r\n"
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "SUBSCRIBE" {
				return []byte(confirmation + message + message)
			}
			return nil
		})
		e := newRecorder()
		h.node.Subscribe(testChannel, e)
		assert.Equal(t, []string{"subscribed", "<hi", "<hi"}, h.events(e))
	})
}

func TestAMessageThatIsCutIsDropped(t *testing.T) {
	inBubble(t, func(h *harness) {
		_, e := h.subscribe()
		time.Sleep(steady)
		h.server.Inject([]byte("*3\r\n$7\r\nmessage\r\n$19\r\n" + testChannel + "\r\n$20\r\nhalf"))
		synctest.Wait()
		h.server.Restart(true)
		assert.Equal(t, []string{"unsubscribed", "subscribed"}, h.events(e))
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
		e := &slowRecorder{recorder: newRecorder(), let: make(chan struct{})}
		message := "*3\r\n$7\r\nmessage\r\n$19\r\n" + testChannel + "\r\n$1\r\nx\r\n"
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "SUBSCRIBE" {
				return []byte(confirmation + strings.Repeat(message, 10))
			}
			return nil
		})
		s := h.node.Subscribe(testChannel, e)
		assert.Equal(t, []string{"subscribed", "<x"}, h.events(e.recorder))
		var closing sync.WaitGroup
		closing.Go(func() { assert.NoError(t, s.Close()) })
		synctest.Wait()
		assert.False(t, isClosed(s.stopped))
		close(e.let)
		closing.Wait()
		assert.Equal(t, []string{"unsubscribed"}, h.events(e.recorder))
	})
}
