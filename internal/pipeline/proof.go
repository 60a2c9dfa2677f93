package pipeline

import (
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/redquorum/redquorum/clock"
)

// MemoryKey is the key of a server's memory marker. It has no time to live, so it is gone when the
// server has lost its keys, and another one when they were replaced.
const MemoryKey = "redquorum:memory"

// OtherType is the [Proof.Marker] of a memory key that holds no string.
const OtherType = "?"

// Proof is what a server's memory key held at a moment: what was executed on the same connection
// before it, the server had not forgotten then, if this is the marker that is expected. It must not
// be changed.
type Proof struct {
	Marker string // empty where there is no such key
}

// Prover is the [Sink] of a request with [Request.Prove].
type Prover interface {
	Sink
	// Proven is called in place of Complete when the server answered without an error. The proof
	// was read behind the call, on the same connection; nil where the user may not read the memory
	// key.
	Proven(call *Call, reply any, proof *Proof)
}

// errMemory means that the memory key could not be read behind a call, on a connection where that
// was possible before.
var errMemory = errors.New("pool: the memory key cannot be read any more")

// proofCall reads the memory key. It belongs to a connection, which uses it again when it has been
// answered.
type proofCall struct {
	call    Call
	request Request // its Sink is the proofCall, by which the reader knows it
}

// Complete does nothing: the reader takes the answer.
func (*proofCall) Complete(*Call, any, error) {}

// takeProofLocked puts a GET of the memory key behind a batch with calls that are to be proven, of
// which until is the last deadline.
func (c *conn) takeProofLocked(until clock.Instant, batch []outgoing) []outgoing {
	var p *proofCall
	if last := len(c.spareProofs) - 1; last >= 0 {
		p, c.spareProofs = c.spareProofs[last], c.spareProofs[:last]
	} else {
		p = &proofCall{request: Request{Accept: isProof}}
		p.request.Sink = p
		p.call = Call{Request: &p.request, completed: true}
	}
	p.request.Deadline = until
	return c.takeLocked(&p.call, batch)
}

// askForProof is what a proofCall sends: it is the same always, and of every lock's.
var askForProof = fmt.Appendf(nil, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(MemoryKey), MemoryKey)

// isProof reports whether a reply is one that GET can give, or its short form (guard.shorten).
func isProof(reply any) bool { return reply == "OK" || isText(reply) }

// isText reports whether a reply is one that GET can give.
func isText(reply any) bool {
	_, ok := reply.([]byte)
	return ok || reply == nil
}

// provenLocked ends the calls that an answer to a proofCall stands behind; reply is its number. An error means that the
// server does not let us see its memory any more: the next connection finds out what it is.
func (c *conn) provenLocked(p *proofCall, a answer, reply uint64, outcomes []outcome) ([]outcome, error) {
	c.spareProofs = append(c.spareProofs, p)
	if a.reply == "OK" {
		if c.guard.same != reply {
			return outcomes, fmt.Errorf("%w: GET was answered by a status: out of step", ErrProtocol)
		}
		if c.proof != c.guard.sameAs { // another one came between
			c.proof = c.guard.sameAs
			c.guard.expect(c.proof)
		}
		return c.tellProofLocked(outcomes), nil
	}
	proof, err := readProof(c.proof, a.reply, a.err)
	switch {
	case err == nil && proof == c.proof:
	case err == nil:
		c.proof = proof
		c.guard.expect(proof) // of another type: an error, which is never like it
	case len(c.unproven) > 0:
		return outcomes, fmt.Errorf("%w: %w: %w", ErrRefused, errMemory, err)
	default: // the calls were refused, too: LOADING, for one
	}
	return c.tellProofLocked(outcomes), nil
}

// tellProofLocked ends the calls that wait for the last proof.
func (c *conn) tellProofLocked(outcomes []outcome) []outcome {
	for _, o := range c.unproven {
		if o.call.completed {
			continue
		}
		o.call.completed = true
		o.proof, o.proven = c.proof, true
		outcomes = append(outcomes, o)
	}
	clear(c.unproven)
	c.unproven = c.unproven[:0]
	return outcomes
}

// readProof reads the answer to a GET of the memory key. It returns the last proof where nothing
// has changed.
func readProof(last *Proof, reply any, err error) (*Proof, error) {
	switch text, _ := reply.([]byte); {
	case hasCode(err, "WRONGTYPE"):
		return &Proof{OtherType}, nil
	case err != nil:
		return nil, err
	case last != nil && last.Marker == string(text):
		return last, nil
	default:
		return &Proof{string(text)}, nil
	}
}

// takeMemory takes the answer to the handshake's GET of the memory key.
func (c *conn) takeMemory(reply any) bool {
	c.proof, _ = readProof(nil, reply, nil) //nolint:errcheck // a reply that is no error makes none
	c.proves, c.identity.Memory = true, c.proof
	c.guard.expect(c.proof)
	return isText(reply)
}

// takeNoMemory takes the server's refusal to tell. What keeps it from serving at all, the rest of
// the handshake tells.
func (c *conn) takeNoMemory(words redis.Error) {
	if proof, err := readProof(nil, nil, words); err == nil {
		c.proves, c.proof, c.identity.Memory = true, proof, proof
	}
}

// Reconnect gives up the present connection, as one on which the server has turned out to be
// another than it was, or to have forgotten what it held. The next one finds out what it is. Calls
// without an answer have an unknown fate; kept calls are sent again. Where there is no connection
// it does nothing.
func (n *Node) Reconnect(reason error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conn != nil {
		n.conn.giveUpLocked(fmt.Errorf("%w: %w", ErrRefused, reason))
	}
}
