package pipeline

import (
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/redquorum/redquorum/clock"
)

// MemoryKey is the key of a server's memory marker. It has no TTL, so it disappears when the server
// loses its keys, and changes when they are replaced.
const MemoryKey = "redquorum:memory"

// RegisterKey is the key of what a server knows of its cluster (package members). It is beside the
// marker, and is not a lock's either.
const RegisterKey = "redquorum:members"

// OtherType is the [Proof.Marker] of a memory key that does not hold a string.
const OtherType = "?"

// Proof is what a server's memory key held at a moment. If that is the expected marker, then the
// server had not forgotten, at that moment, anything that it executed earlier on the same
// connection. Do not change it.
type Proof struct {
	Marker string // empty if there is no such key
}

// Prover is the [Sink] of a request with [Request.Prove].
type Prover interface {
	Sink
	// Proven is called instead of Complete if the server answered without an error. The proof was
	// read behind the call, on the same connection; it is nil if the user may not read the memory
	// key.
	Proven(index int, reply any, proof *Proof)
}

// errMemory means that the memory key could not be read behind a call, on a connection where it
// could be read before.
var errMemory = errors.New("pool: the memory key can no longer be read")

// proofCall reads the memory key. It belongs to a connection, which reuses it once it has been
// answered.
type proofCall struct {
	request Request // its Sink is the proofCall, which is how the reader recognizes it
}

// Complete does nothing: the reader takes the answer.
func (*proofCall) Complete(int, any, error) {}

// takeProofLocked puts a GET of the memory key behind a batch with calls to prove. The last of
// their deadlines is until.
func (c *conn) takeProofLocked(until clock.Instant) {
	var p *proofCall
	if last := len(c.spareProofs) - 1; last >= 0 {
		p, c.spareProofs = c.spareProofs[last], c.spareProofs[:last]
	} else {
		p = &proofCall{request: Request{Words: askForProof, Accept: isProof}}
		p.request.Sink = p
	}
	p.request.Deadline = until
	c.takeLocked(Call{Request: &p.request, given: told})
	c.gathering.out[len(c.gathering.out)-1].proof = true
}

// askForProof is what a proofCall sends.
var askForProof = Command("GET", MemoryKey)

// isProof reports whether a reply is one that GET can have, or the last proof ([reader]).
func isProof(reply any) bool {
	_, same := reply.(*Proof)
	return same || isText(reply)
}

// isText reports whether a reply is one that GET can have.
func isText(reply any) bool {
	_, ok := reply.([]byte)
	return ok || reply == nil
}

// provenLocked ends the calls that the reply to a proofCall proves. An error means that the server
// does not let us see its memory any more: the next connection finds out what it is.
func (c *conn) provenLocked(p *proofCall, a answer, outcomes []outcome) ([]outcome, error) {
	c.spareProofs = append(c.spareProofs, p)
	proof, err := readProof(c.proof, a.reply, a.err)
	switch {
	case err == nil:
		c.proof, c.in.expected = proof, proof
	case len(c.unproven) > 0:
		return outcomes, fmt.Errorf("%w: %w: %w", ErrRefused, errMemory, err)
	default: // the calls were refused, too: LOADING, for example
	}
	return c.tellProofLocked(outcomes), nil
}

// tellProofLocked ends the calls that wait for the last proof.
func (c *conn) tellProofLocked(outcomes []outcome) []outcome {
	for i := range c.unproven {
		if o := &c.unproven[i]; !o.call.completed {
			o.proof, o.proven = c.proof, true
			outcomes = append(outcomes, *o)
		}
	}
	clear(c.unproven)
	c.unproven = c.unproven[:0]
	return outcomes
}

// readProof reads the reply to a GET of the memory key. It returns the last proof if nothing has
// changed.
func readProof(last *Proof, reply any, err error) (*Proof, error) {
	same, known := reply.(*Proof)
	switch text, _ := reply.([]byte); {
	case known:
		return same, nil
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

// takeMemory takes the reply to the handshake's GET of the memory key.
func (c *conn) takeMemory(reply any) bool {
	c.proof, _ = readProof(nil, reply, nil) //nolint:errcheck // only an error reply makes an error
	c.proves, c.identity.Memory = true, c.proof
	c.in.expected = c.proof
	return isText(reply)
}

// takeNoMemory takes the server's refusal to show the key. If something keeps the server from
// serving at all, the other steps of the handshake show it.
func (c *conn) takeNoMemory(words redis.Error) {
	if proof, err := readProof(nil, nil, words); err == nil {
		c.proves, c.proof, c.identity.Memory = true, proof, proof
	}
}

// Reconnect gives up the current connection, because its server turned out to be a different one,
// or to have forgotten what it held. The next connection finds out what it is. Unanswered calls
// have an unknown fate; kept calls are sent again. Without a connection it does nothing.
func (n *Node) Reconnect(reason error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conn != nil {
		n.conn.giveUpLocked(fmt.Errorf("%w: %w", ErrRefused, reason))
	}
}
