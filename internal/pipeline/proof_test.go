package pipeline

import (
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/fakeredis"
)

// prover is a waiter that receives proofs.
type prover struct {
	*waiter
	proof *Proof
}

func (p *prover) Proven(index int, reply any, proof *Proof) {
	p.proof = proof
	p.Complete(index, reply, nil)
}

// proofOf waits for an answer, and returns the proof that came with it.
func (p *prover) proofOf() *Proof {
	p.t.Helper()
	p.reply()
	return p.proof
}

// prove makes a call to prove.
func (h *harness) prove(request Request) *prover {
	p := &prover{waiter: newWaiter(h.t)}
	request.Prove = true
	h.call(false, request, p)
	return p
}

// vote makes a SET to prove.
func (h *harness) vote(key string) *prover {
	return h.prove(Request{Words: Command("SET", key, "1")})
}

// votesAndProofs returns what the server executed, without handshakes: V for a SET, B for a batch,
// P for a GET of the memory key.
func (h *harness) votesAndProofs() (order string) {
	for _, c := range h.server.Commands() {
		switch {
		case c.Args[0] == "SET" && c.Args[1] != MemoryKey:
			order += "V"
		case batchOf("2")(c.Args):
			order += "B"
		case c.Args[0] == "GET" && c.Args[1] == MemoryKey:
			order += "P"
		}
	}
	return strings.TrimLeft(order, "P") // of handshakes
}

// S12 holds for calls that are held back, too: the proof is behind the batch that runs them.
func TestOneProofIsReadBehindTheVotesOfABatch(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		h.server.Do(t, "SET", MemoryKey, "one")
		votes := []*prover{h.vote("a"), h.vote("b")}
		for _, key := range []string{"c", "d"} {
			votes = append(votes, h.prove(Request{Script: puts, Key: key, Words: On([]string{key}, "v")}))
		}
		last := h.command("SET", "e", "1")
		connect()
		for _, v := range votes {
			require.NotNil(t, v.proofOf())
			assert.Equal(t, "one", v.proof.Marker)
			assert.Same(t, votes[0].proof, v.proof)
		}
		last.reply()
		assert.Equal(t, "VVBVP", h.votesAndProofs())
	})
}

func TestAProofTellsWhatHasChanged(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.command("SET", MemoryKey, "one").reply()
		assert.Same(t, h.vote("d").proofOf(), h.vote("e").proofOf(), "nothing has changed")
		h.command("DEL", MemoryKey).reply()
		assert.Empty(t, h.vote("f").proofOf().Marker)
		h.command("ZADD", MemoryKey, 1, "x").reply()
		assert.Equal(t, OtherType, h.vote("g").proofOf().Marker)
		refused := h.prove(Request{Words: Command("SET", "a")})
		refused.fails(Refused, nil)
		assert.Nil(t, refused.proof, "what was refused needs no proof")
		h.command("DEL", MemoryKey).reply()
		h.command("SET", MemoryKey, "one").reply()
		assert.Same(t, h.vote("h").proofOf(), h.vote("i").proofOf())
		replyTo(h.server, named("GET"), "+OK\r\n") // which is not taken for a shortened one
		h.vote("j").fails(Unknown, ErrProtocol)
	})
}

// A vote whose proof comes too late, or never, ends once.
func TestAVoteWithoutItsProofHasAnUnknownFate(t *testing.T) {
	for what, then := range map[string]func(*fakeredis.Node){
		"it comes late":             func(s *fakeredis.Node) { s.Inject([]byte("$-1\r\n")) },
		"the connection breaks":     (*fakeredis.Node).Kill,
		"it breaks by the deadline": nil,
	} {
		inBubble(t, func(h *harness) {
			h.up()
			replyTo(h.server, named("GET"), "")
			v := h.vote("a")
			synctest.Wait()
			assert.Equal(t, 1, h.node.Stats().Waiting)
			if then == nil {
				h.server.ReplyRaw(nil) // before the node connects again, which asks with GET too
				h.server.Disconnect()
				v.fails(Unknown, nil)
				h.vote("a").reply()
				return
			}
			assert.Equal(t, testDeadline, v.fails(Unknown, ErrTimeout).after, what)
			then(h.server)
			pass(50 * time.Millisecond)
			v.fails(Unknown, ErrTimeout)
			assert.Nil(t, v.proof)
		}, WithStallTimeout(time.Minute))
	}
}

func TestNothingIsProvenIfTheMemoryKeyIsForbidden(t *testing.T) {
	forbid := func(s *fakeredis.Node) { s.RefuseWith("NOPERM No permissions to access a key", "GET") }
	inBubbleOn(t, forbid, func(h *harness) {
		h.up()
		id, _ := h.node.Identity()
		assert.Nil(t, id.Memory)
		assert.Nil(t, h.vote("a").proofOf())
		assert.Equal(t, "V", h.votesAndProofs(), "it is not asked in vain")
	})
	inBubble(t, func(h *harness) {
		h.up()
		forbid(h.server) // while it is connected: the next connection finds out
		h.vote("a").fails(Unknown, errMemory)
		time.Sleep(time.Second)
		assert.Nil(t, h.vote("a").proofOf())
		assert.Equal(t, uint64(2), h.node.Stats().Connects)
	})
}

func TestReconnectFindsOutWhoTheServerIs(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.command("SET", MemoryKey, "one").reply()
		first, _ := h.node.Identity()
		assert.Empty(t, first.Memory.Marker)
		assert.Len(t, first.ReplID, 40)
		assert.False(t, first.Promoted)
		assert.True(t, first.TellsDurable)
		assert.False(t, first.Durable)
		again := func() Identity {
			h.node.Reconnect(errMemory)
			time.Sleep(time.Second)
			h.up()
			id, _ := h.node.Identity()
			return id
		}
		second := again()
		assert.Equal(t, "one", second.Memory.Marker)
		assert.Greater(t, second.Connection, first.Connection)

		makeDurable(h.server)
		h.server.ReplicateFromSnapshot()
		h.server.Promote()
		third := again()
		assert.NotEqual(t, first.ReplID, third.ReplID)
		assert.True(t, third.Promoted)
		assert.True(t, third.Durable)

		h.server.Kill()
		synctest.Wait()
		h.node.Reconnect(errMemory) // nothing to end
		h.server.Restart(true)
		time.Sleep(time.Second)
		h.up()
	})
}

// Only the whole reply to a proof is taken for the last proof, and nothing that merely looks like
// it.
func TestOnlyAnUnchangedProofIsTheLastOne(t *testing.T) {
	last := &Proof{"one"}
	for name, test := range map[string]struct {
		stream string
		asked  uint64 // the number of the proof
		want   []any
	}{
		"the same":           {"+OK\r\n$3\r\none\r\n", 2, []any{"OK", last}},
		"alone":              {"$3\r\none\r\n", 1, []any{last}},
		"another":            {"+OK\r\n$3\r\ntwo\r\n", 2, []any{"OK", []byte("two")}},
		"none":               {"+OK\r\n$-1\r\n", 2, []any{"OK", nil}},
		"of another call":    {"+OK\r\n$3\r\none\r\n", 3, []any{"OK", []byte("one")}},
		"one more behind it": {"+OK\r\n$3\r\none\r\n$3\r\none\r\n", 2, []any{"OK", last, []byte("one")}},
		"one that ends with it": {
			"+OK\r\n$10\r\nx$3\r\none\r\n\r\n", 2,
			[]any{"OK", []byte("x$3\r\none\r\n")},
		},
		"in an array": {"+OK\r\n*1\r\n$3\r\none\r\n", 2, []any{"OK", []any{[]byte("one")}}},
		"a status":    {"+OK\r\n+one\r\n", 2, []any{"OK", "one"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &reader{from: iotest.OneByteReader(strings.NewReader(test.stream)), expected: last}
			r.asked.Store(test.asked + 1)
			r.proofs[0].Store(test.asked)
			for _, want := range test.want {
				reply, err := r.receive()
				require.NoError(t, err)
				assert.Equal(t, want, reply)
			}
		})
	}
	r := &reader{from: strings.NewReader("$0\r\n\r\n"), expected: &Proof{}}
	r.asked.Store(1)
	r.proofs[0].Store(1)
	reply, err := r.receive()
	require.NoError(t, err)
	assert.Equal(t, []byte{}, reply, "a missing marker is not an empty one")
}
