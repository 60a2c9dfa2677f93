package pipeline

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/fake"
)

// Errors about user and password are recognized, whatever the wording of the version.
func TestErrorsAboutUserAndPasswordMatchErrAuth(t *testing.T) {
	for reply, auth := range map[string]bool{
		"-WRONGPASS invalid username-password pair or user is disabled.\r\n":                              true,
		"-NOAUTH Authentication required.\r\n":                                                            true,
		"-ERR invalid password\r\n":                                                                       true,
		"-ERR Client sent AUTH, but no password is set\r\n":                                               true,
		"-ERR AUTH <password> called without any password configured for the default user.\r\n":           true,
		"-ERR unknown command `AUTH`, with args beginning with: `hunter2`\r\n":                            true,
		"-ERR wrong number of arguments for 'auth' command\r\n":                                           true,
		"-ERR max number of clients reached\r\n":                                                          false,
		"-LOADING Redis is loading the dataset in memory\r\n":                                             false,
		"-DENIED Redis is running in protected mode because no password is set for the default user.\r\n": false,
		"+PONG\r\n": false,
	} {
		inBubble(t, func(h *harness) {
			h.server.ReplyRaw(func([]string) []byte { return []byte(reply) })
			node := h.newNode("redis://me:hunter2@fake:6379")
			defer node.Close()
			time.Sleep(time.Millisecond)
			synctest.Wait()
			err := node.Stats().Err
			require.Error(t, err)
			assert.Equal(t, auth, errors.Is(err, ErrAuth), "%v", err)
			assert.NotErrorIs(t, err, ErrRefused)
		})
	}
}

func TestReasonsToRefuseAServerMatchErrRefused(t *testing.T) {
	for _, reason := range []error{ErrReplica, ErrClusterMode, ErrSentinelMode, ErrDuplicate, ErrNoScripts} {
		assert.ErrorIs(t, reason, ErrRefused)
	}
	for _, reason := range []error{ErrAuth, ErrQuarantined} {
		assert.NotErrorIs(t, reason, ErrRefused)
	}
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
	acceptAny := func(s *fake.Node) {
		s.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "AUTH" {
				return []byte("+OK\r\n")
			}
			return nil
		})
	}
	inBubbleOn(t, acceptAny, func(h *harness) {
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

func TestErrorOfTheCredentialsFunctionIsReported(t *testing.T) {
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
		"HTTP":        {"HTTP/1.1 400 Bad Request\r\n\r\n", `not a Redis reply: "HTTP/1.1 400 Bad`},
		"huge bulk":   {"$99999999999999\r\n", "over the limit"},
		"huge array":  {"*1000000000000\r\n", "over the limit"},
		"no password": {"-NOAUTH Authentication required.\r\n", "NOAUTH"},
		"loading":     {"-LOADING Redis is loading the dataset in memory\r\n", "LOADING"},
		"protected":   {"-DENIED Redis is running in protected mode\r\n", "DENIED"},
		"surplus":     {"+OK\r\n+OK\r\n", "protocol error"},
		"busy":        {"-BUSY Redis is busy running a script.\r\n", "BUSY"},
		"out of step": {":17\r\n", "CLIENT was answered with int64"},
	} {
		t.Run(name, func(t *testing.T) {
			replies := func(s *fake.Node) { s.ReplyRaw(func([]string) []byte { return []byte(c.reply) }) }
			inBubbleOn(t, replies, func(h *harness) {
				err := h.command("PING").wait().err
				h.requireFate(err, Unsent, err)
				assert.ErrorContains(t, err, c.want)
			})
		})
	}
}

func TestTooManyClientsIsReportedInTheServersWords(t *testing.T) {
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

func TestDialErrorDoesNotMatchContextErrors(t *testing.T) {
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

func TestLastWordsOfAServerThatHangsUpAreReported(t *testing.T) {
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
			for _, rest := range []string{"", strings.Repeat("x", 200)} { // Redis repeats its start
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
