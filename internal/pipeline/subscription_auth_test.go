package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		e := newRecorder()
		h.node.Subscribe(testChannel, e)
		assert.ErrorIs(t, h.failures(e)[0], vault)
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
			for _, rest := range []string{"", strings.Repeat("x", 200)} { // Redis repeats its start
				node := h.newNode("redis://:hunter2" + rest + "@fake:6379")
				defer node.Close()
				e := newRecorder()
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

func TestServerThatRepeatsThePasswordIsRarelyAsked(t *testing.T) {
	inBubble(t, func(h *harness) {
		node := h.newNode("redis://:hunter2@fake:6379")
		defer node.Close()
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "AUTH" {
				return []byte("-ERR unknown command `AUTH`, with args beginning with: `hunter2`\r\n")
			}
			return nil
		})
		e := newRecorder()
		node.Subscribe(testChannel, e)
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, len(h.failures(e)), 13)
	})
}

func TestRefusedSubscriptionRarelyRetries(t *testing.T) {
	for _, words := range []string{
		"NOPERM this user has no permissions to access one of the channels used as arguments",
		"NOAUTH Authentication required.", "ERR unknown command 'SUBSCRIBE'",
	} {
		inBubble(t, func(h *harness) {
			h.server.RefuseWith(words, "SUBSCRIBE")
			e := newRecorder()
			h.node.Subscribe(testChannel, e)
			time.Sleep(5 * time.Minute)
			for _, err := range h.failures(e) {
				assert.ErrorContains(t, err, words)
			}
			asked := h.commandsOf("SUBSCRIBE")
			assert.GreaterOrEqual(t, len(asked), 30, "at most 10 s apart")
			for i := range asked[1:] {
				assert.GreaterOrEqual(t, asked[i+1].At.Sub(asked[i].At), refusedPause/2)
			}
			h.server.RefuseWith("", "SUBSCRIBE")
			time.Sleep(refusedPause)
			assert.Equal(t, []string{"subscribed"}, h.events(e))
		})
	}
}

func TestServerThatWillServeSoonIsAskedSoon(t *testing.T) {
	for _, words := range []string{"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script."} {
		inBubble(t, func(h *harness) {
			h.server.RefuseWith(words, "SUBSCRIBE")
			e := newRecorder()
			h.node.Subscribe(testChannel, e)
			time.Sleep(time.Minute)
			assert.Greater(t, len(h.failures(e)), 100)
		})
	}
}
