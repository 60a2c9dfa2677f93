package pipeline

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is about user and password can be told from what is not, whatever the words of the version.
func TestErrorsOfUserAndPasswordCanBeTold(t *testing.T) {
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

func TestReasonsWhyAServerIsRefusedAreRefusals(t *testing.T) {
	for _, reason := range []error{ErrReplica, ErrClusterMode, ErrSentinelMode, ErrDuplicate, ErrNoScripts} {
		assert.ErrorIs(t, reason, ErrRefused)
	}
	for _, reason := range []error{ErrAuth, ErrQuarantined} {
		assert.NotErrorIs(t, reason, ErrRefused)
	}
}
