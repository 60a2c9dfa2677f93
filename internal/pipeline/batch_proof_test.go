package pipeline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// S12 holds for calls that are held back: the proof is behind the batch that runs them.
func TestTheProofIsBehindTheBatchOfItsVotes(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		var votes []*prover
		for _, key := range []string{"a", "b", "c"} {
			p := &prover{waiter: waiter{h: h, began: time.Now(), done: make(chan struct{})}}
			h.node.Do(Call{Request: &Request{
				Script: puts, Key: key, Words: On([]string{key}, "v"), Prove: true, Sink: p, Deadline: h.clock.Now().Add(testDeadline),
			}})
			votes = append(votes, p)
		}
		connect()
		for _, v := range votes {
			r := v.wait()
			require.NoError(t, r.err)
			assert.Equal(t, int64(1), r.reply)
			assert.NotNil(t, v.proof)
		}
		commands := h.server.Commands()
		last, behind := commands[len(commands)-2], commands[len(commands)-1]
		assert.Equal(t, "EVALSHA", last.Args[0])
		assert.Equal(t, []string{"GET", MemoryKey}, behind.Args)
	})
}

// A vote whose proof comes too late, or never, ends once.
func TestAVoteWhoseProofIsLateEndsOnce(t *testing.T) {
	for _, cut := range []bool{false, true} {
		inBubble(t, func(h *harness) {
			h.up()
			h.server.ReplyRaw(func(cmd []string) []byte {
				if cmd[0] == "GET" {
					return []byte{} // it comes later
				}
				return nil
			})
			v := h.prove("SET", "a", "1")
			h.requireFate(v.wait().err, Unknown, ErrTimeout)
			if cut {
				h.server.Kill()
			} else {
				h.server.Inject([]byte("$-1\r\n"))
			}
			time.Sleep(50 * time.Millisecond)
			h.requireFate(v.wait().err, Unknown, ErrTimeout)
			assert.Nil(t, v.proof)
		}, WithStallTimeout(time.Minute))
	}
}
