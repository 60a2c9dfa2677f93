package pipeline

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/fake"
)

// prover is a waiter that receives proofs.
type prover struct {
	waiter
	proof *Proof
}

func (p *prover) Proven(index int, reply any, proof *Proof) {
	p.proof = proof
	p.Complete(index, reply, nil)
}

// prove makes a call to prove.
func (h *harness) prove(name string, args ...any) *prover {
	p := &prover{waiter: waiter{h: h, began: time.Now(), done: make(chan struct{})}}
	h.node.Do(Call{Request: &Request{
		Words: Command(append([]any{name}, args...)...), Prove: true, Sink: p, Deadline: h.clock.Now().Add(testDeadline),
	}})
	return p
}

// votesAndProofs returns what the server executed, without the handshake: V for a SET, P for a GET
// of the memory key.
func (h *harness) votesAndProofs() (order string) {
	for _, c := range h.server.Commands() {
		switch {
		case c.Args[0] == "SET" && c.Args[1] != MemoryKey:
			order += "V"
		case c.Args[0] == "GET" && c.Args[1] == MemoryKey:
			order += "P"
		}
	}
	return order[1:] // the first is the handshake's
}

func TestOneProofIsReadBehindTheVotesOfABatch(t *testing.T) {
	inBubble(t, func(h *harness) {
		require.NoError(t, h.command("SET", MemoryKey, "one").wait().err)
		h.node.mu.Lock() // so that the three form one batch
		h.node.conn.idle = false
		h.node.mu.Unlock()
		votes := []*prover{h.prove("SET", "a", "1"), h.prove("SET", "b", "1"), h.prove("SET", "c", "1")}
		h.node.mu.Lock()
		h.node.conn.idle = true
		h.node.mu.Unlock()
		last := h.command("SET", "d", "1")
		for _, v := range votes {
			r := v.wait()
			require.NoError(t, r.err)
			assert.Equal(t, "OK", r.reply)
			require.NotNil(t, v.proof)
			assert.Equal(t, "one", v.proof.Marker)
		}
		require.NoError(t, last.wait().err)
		assert.Equal(t, "VVVVP", h.votesAndProofs())
		assert.Same(t, votes[0].proof, h.prove("SET", "e", "1").proofOf(), "nothing has changed")
		require.NoError(t, h.command("DEL", MemoryKey).wait().err)
		assert.Empty(t, h.prove("SET", "f", "1").proofOf().Marker)
		require.NoError(t, h.command("ZADD", MemoryKey, 1, "x").wait().err)
		assert.Equal(t, OtherType, h.prove("SET", "g", "1").proofOf().Marker)
		refused := h.prove("SET", "a")
		h.requireFate(refused.wait().err, Refused, errors.Unwrap(refused.wait().err))
		assert.Nil(t, refused.proof, "what was refused needs no proof")
	})
}

func (p *prover) proofOf() *Proof {
	p.wait()
	return p.proof
}

func TestAVoteWithoutItsProofHasAnUnknownFate(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "GET" {
				return []byte{} // no reply at all
			}
			return nil
		})
		v := h.prove("SET", "a", "1")
		synctest.Wait()
		assert.Equal(t, 1, h.node.Stats().Waiting)
		r := v.wait()
		h.requireFate(r.err, Unknown, ErrTimeout)
		assert.Equal(t, testDeadline, r.after)
		assert.Nil(t, v.proof)
	}, WithStallTimeout(time.Minute))
	inBubble(t, func(h *harness) {
		h.up()
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "GET" {
				return []byte{}
			}
			return nil
		})
		v := h.prove("SET", "a", "1")
		synctest.Wait()
		h.server.ReplyRaw(nil) // before the node connects again, which asks with GET too
		h.server.Disconnect()
		var call *CallError
		require.ErrorAs(t, v.wait().err, &call)
		assert.Equal(t, Unknown, call.Fate)
		require.NoError(t, h.prove("SET", "a", "1").wait().err)
	})
}

func TestNothingIsProvenIfTheMemoryKeyIsForbidden(t *testing.T) {
	forbid := func(s *fake.Node) { s.RefuseWith("NOPERM No permissions to access a key", "GET") }
	inBubbleOn(t, forbid, func(h *harness) {
		h.up()
		id, _ := h.node.Identity()
		assert.Nil(t, id.Memory)
		v := h.prove("SET", "a", "1")
		require.NoError(t, v.wait().err)
		assert.Nil(t, v.proof)
		assert.Equal(t, "V", h.votesAndProofs(), "it is not asked in vain")
	})
}

func TestAConnectionThatMayNoLongerReadTheMemoryKeyEnds(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.RefuseWith("NOPERM No permissions to access a key", "GET")
		v := h.prove("SET", "a", "1")
		h.requireFate(v.wait().err, Unknown, errMemory)
		time.Sleep(time.Second)
		v = h.prove("SET", "a", "1")
		require.NoError(t, v.wait().err)
		assert.Nil(t, v.proof)
		assert.Equal(t, uint64(2), h.node.Stats().Connects)
	})
}

func TestReconnectFindsOutWhoTheServerIs(t *testing.T) {
	inBubble(t, func(h *harness) {
		require.NoError(t, h.command("SET", MemoryKey, "one").wait().err)
		first, _ := h.node.Identity()
		assert.Empty(t, first.Memory.Marker)
		h.node.Reconnect(errMemory)
		time.Sleep(time.Second)
		h.up()
		second, _ := h.node.Identity()
		assert.Equal(t, "one", second.Memory.Marker)
		assert.Greater(t, second.Connection, first.Connection)
		h.server.Kill()
		synctest.Wait()
		h.node.Reconnect(errMemory) // nothing to end
		h.server.Restart(true)
		time.Sleep(time.Second)
		h.up()
	})
}

func TestTheIdentityHasWhatAMarkerIsComparedWith(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		id, _ := h.node.Identity()
		assert.Len(t, id.ReplID, 40)
		assert.False(t, id.Promoted)
		assert.True(t, id.TellsDurable)
		assert.False(t, id.Durable)
		h.server.SetConfig("appendonly", "yes")
		h.server.SetConfig("appendfsync", "always")
		h.server.ReplicateFromSnapshot()
		h.server.Promote()
		h.node.Reconnect(errMemory)
		time.Sleep(time.Second)
		h.up()
		again, _ := h.node.Identity()
		assert.NotEqual(t, id.ReplID, again.ReplID)
		assert.True(t, again.Promoted)
		assert.True(t, again.Durable)
		h.server.SetConfig("no-appendfsync-on-rewrite", "yes")
		h.node.Reconnect(errMemory)
		time.Sleep(time.Second)
		h.up()
		again, _ = h.node.Identity()
		assert.False(t, again.Durable)
	})
}

// Only the whole reply to a proof is shortened, and nothing that merely looks like it.
func TestOnlyAnUnchangedProofIsShortened(t *testing.T) {
	for name, test := range map[string]struct {
		stream string
		asked  uint64
		want   string
	}{
		"the same":              {"+OK\r\n$3\r\none\r\n", 2, "+OK\r\n+OK\r\n"},
		"alone":                 {"$3\r\none\r\n", 1, "+OK\r\n"},
		"another":               {"+OK\r\n$3\r\ntwo\r\n", 2, "+OK\r\n$3\r\ntwo\r\n"},
		"none":                  {"+OK\r\n$-1\r\n", 2, "+OK\r\n$-1\r\n"},
		"of another call":       {"+OK\r\n$3\r\none\r\n", 3, "+OK\r\n$3\r\none\r\n"},
		"a part behind it":      {"+OK\r\n$3\r\none\r\n+O", 2, "+OK\r\n+OK\r\n+O"},
		"one more behind it":    {"+OK\r\n$3\r\none\r\n$3\r\none\r\n", 2, "+OK\r\n+OK\r\n$3\r\none\r\n"},
		"the end of a longer":   {"+OK\r\n$12\r\nxxx$3\r\none\r\n\r\n", 2, "+OK\r\n$12\r\nxxx$3\r\none\r\n\r\n"},
		"one that ends with it": {"+OK\r\n$10\r\nx$3\r\none\r\n\r\n", 2, "+OK\r\n$10\r\nx$3\r\none\r\n\r\n"},
		"in an array":           {"+OK\r\n*1\r\n$3\r\none\r\n", 2, "+OK\r\n*1\r\n$3\r\none\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := net.Pipe()
			defer server.Close()
			g := &guard{Conn: client}
			g.expect(&Proof{"one"})
			g.asked.Store(test.asked + 1)
			g.proofs[0].Store(test.asked)
			go func() {
				_, err := server.Write([]byte(test.stream))
				assert.NoError(t, err)
			}()
			p := make([]byte, 4096)
			n, err := g.Read(p)
			require.NoError(t, err)
			assert.Equal(t, test.want, string(p[:n]))
			assert.Equal(t, test.want != test.stream, g.same != 0)
		})
	}
}

// A status is not a reply to GET, and not taken for a shortened one.
func TestAStatusIsNotAProof(t *testing.T) {
	inBubble(t, func(h *harness) {
		require.NoError(t, h.command("SET", MemoryKey, "one").wait().err)
		require.NoError(t, h.prove("SET", "a", "1").wait().err)
		require.NoError(t, h.prove("SET", "a", "1").wait().err)
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "GET" {
				return []byte("+OK\r\n")
			}
			return nil
		})
		h.requireFate(h.prove("SET", "a", "1").wait().err, Unknown, ErrProtocol)
	})
}

// The same text within a later reply, in bytes that complete no reply, is left alone.
func TestBytesWithinALaterReplyAreNotShortened(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	g := &guard{Conn: client}
	g.expect(&Proof{"one"})
	g.asked.Store(3)
	g.proofs[0].Store(2)
	for _, step := range []struct{ sent, want string }{
		{":1\r\n$3\r\none\r\n", ":1\r\n+OK\r\n"},
		{"*2\r\n$3\r\none\r\n", "*2\r\n$3\r\none\r\n"},
		{"$1\r\n5\r\n", "$1\r\n5\r\n"},
	} {
		go func() {
			_, err := server.Write([]byte(step.sent))
			assert.NoError(t, err)
		}()
		p := make([]byte, 4096)
		n, err := g.Read(p)
		require.NoError(t, err)
		assert.Equal(t, step.want, string(p[:n]))
	}
}
