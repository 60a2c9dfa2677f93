package pipeline

import (
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Only a batch of releases may be answered by one number. To a batch that grants, one number is the
// reply of another command: the server is out of step (S10).
func TestOneSurplusNumberIsNotAGrantOfManyLocks(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "EVALSHA" && cmd[2] == "3" {
				return []byte(":1\r\n") // of whatever was asked before
			}
			return nil
		})
		var calls []*waiter
		for _, key := range []string{"a", "b", "c"} {
			calls = append(calls, h.do(false, Request{Script: puts, Key: key, Words: On([]string{key}, "v"), Accept: isNumber}))
		}
		connect()
		for _, w := range calls {
			assert.ErrorIs(t, w.wait().err, ErrProtocol)
		}
	})
}

// The key of a call that is not run again may be one of several of a later call.
func TestAnUnknownScriptIsNotRunBehindALaterCallOfSeveralKeys(t *testing.T) {
	for _, refusal := range []string{"-NOSCRIPT No matching script.\r\n", "-NOPERM no permissions to access a key\r\n"} {
		queued(t, func(h *harness, _, connect func()) {
			h.server.ReplyRaw(func(cmd []string) []byte {
				if cmd[0] == "EVALSHA" && cmd[2] == "3" {
					return []byte(refusal)
				}
				return nil
			})
			h.script(false, puts, "a", "v")
			b := h.script(false, puts, "b", "v")
			h.script(false, puts, "c", "v")
			set := NewLateScript(`local n = 0 for _, key in ipairs(KEYS) do n = n + redis.call('DEL', key) end return n`)
			release := h.do(false, Request{Script: set, Key: "z", Words: On([]string{"z", "b"})})
			connect()
			require.NoError(t, release.wait().err)
			require.Error(t, b.wait().err, refusal)
			assert.NotContains(t, h.server.Keys(), "b")
		})
	}
}

// What could not be written goes back, also in its second batch and in what was loaded for it, and
// is sent in the same order on the next connection.
func TestAnUnwrittenBatchGoesBackInItsOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n := &Node{}
		var made []*Request
		for i := range 1 + random.IntN(100) {
			call := gatherCall(byte(random.Uint32()), i)
			made = append(made, call.Request)
			n.queue.push(call)
		}
		for range 1 + random.IntN(2) {
			network, other := net.Pipe()
			c := &conn{mayLoad: random.IntN(2) == 0, guard: &guard{}, network: network}
			batch := n.takeBatch(c, nil)
			n.takeBack(c, len(batch), io.ErrClosedPipe)
			require.Zero(t, c.pending.len())
			require.NoError(t, other.Close())
		}
		c := &conn{mayLoad: random.IntN(2) == 0, guard: &guard{}}
		batch := n.takeBatch(c, nil)
		checkOrder(t, made, sentCalls(&c.pending))
		checkCommands(t, c, batch)
	}
}

// A script that must run in order, and whose keys are not known, is not sent again.
func TestAnUnknownScriptOfSeveralKeysIsNotRunAgain(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "EVALSHA" && cmd[2] == "2" {
				return []byte("-NOSCRIPT No matching script.\r\n")
			}
			return nil
		})
		w := h.do(false, Request{Script: puts, Words: On([]string{"a", "b"}, "v", "v")})
		connect()
		err := w.wait().err
		h.requireFate(err, Refused, err)
		assert.Equal(t, []string{"2"}, h.runs())
	})
}

// A wrong server may have answered what was never written.
func TestWhatWasAnsweredTooEarlyDoesNotGoBack(t *testing.T) {
	n := &Node{}
	for i := range 9 {
		n.queue.push(gatherCall(2, i))
	}
	network, other := net.Pipe()
	c := &conn{mayLoad: true, guard: &guard{}, network: network}
	batch := n.takeBatch(c, nil)
	for range 4 {
		c.pending.pop()
	}
	left := c.pending.len()
	n.takeBack(c, len(batch), io.ErrClosedPipe)
	assert.Equal(t, left, n.queue.len())
	require.NoError(t, other.Close())
}

// sink is a connection that takes everything.
type sink struct{ net.Conn }

func (sink) Write(p []byte) (int, error) { return len(p), nil }

// A batch has one reply, so a surplus reply behind it is one that nobody asked for.
func TestABatchCountsAsOneCommand(t *testing.T) {
	n, c := &Node{}, &conn{mayLoad: true, guard: &guard{Conn: sink{}}}
	for _, choice := range []byte{4, 20, 36} {
		n.queue.push(gatherCall(choice, 1))
	}
	require.NoError(t, c.send(n.takeBatch(c, nil)))
	assert.EqualValues(t, 2, c.guard.asked.Load(), "SCRIPT LOAD and the batch")
}

// A master that became a replica refuses each key.
func TestABatchFindsOutThatTheServerIsAReplica(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "EVALSHA" && cmd[2] == "2" {
				return []byte("*2\r\n-READONLY You can't write against a read only replica.\r\n:0\r\n")
			}
			return nil
		})
		a, b := h.script(false, puts, "a", "v"), h.script(false, puts, "b", "v")
		connect()
		err := a.wait().err
		h.requireFate(err, Refused, err)
		require.NoError(t, b.wait().err)
		synctest.Wait()
		assert.ErrorIs(t, h.node.Stats().Err, ErrReplica)
	})
}
