package pipeline

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"
)

// Limits of a reply. Nothing that we ask for comes near them; redigo allocates whatever length a reply announces, so
// without them a wrong server would end the process.
const (
	maxReplyBytes   = 1 << 20
	maxReplyEntries = 4096
	maxReplyDepth   = 8
	maxLineBytes    = 64 << 10
	maxWriteBuffer  = 64 << 10 // flushed when it is that long, whether or not the batch is complete
)

// guard stands between redigo and the network. On the way in it follows the structure of the replies, refuses the
// ones beyond the limits before redigo sees them, and refuses replies that nobody asked for. On the way out it
// gathers a batch into one write.
type guard struct {
	net.Conn
	pushes bool // a subscriber's: what comes need not have been asked for, and whoever reads it checks that it fits. Set before use

	asked  atomic.Uint64    // commands given to the network; added to before they are written
	proofs [4]atomic.Uint64 // which of them were the latest proofs, in any order; set before they are written

	// Of the reader only.
	parser   replyParser
	replies  uint64 // complete replies that were handed to redigo
	err      error  // why nothing more is handed to redigo
	expected *Proof // what the last proof said; nil before the first
	marker   []byte // the answer to it, as it stood in the stream; empty where there was none
	same     uint64 // which reply was handed to redigo as "OK", for it was like marker,
	sameAs   *Proof // and expected, at that time

	// Of the writer only.
	out     []byte
	written uint64 // bytes that the network took
}

// Read hands on what belongs to replies within the limits. The rest of a reply beyond them stays here, so that redigo,
// which decides at the end of a line, never decides on it.
func (g *guard) Read(p []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.Conn.Read(p)
	proof := g.nextProof()
	g.parser.sought = proof - g.replies
	good, complete, bad := g.parser.feed(p[:n])
	// A command is counted before it is written, so an honest server's count of replies is never ahead.
	if g.replies += complete; bad == nil && !g.pushes && g.replies > g.asked.Load() {
		bad = fmt.Errorf("%w: a reply that nobody asked for", ErrProtocol)
		good = 0
	}
	if bad != nil {
		g.err = bad
		if good > 0 {
			return good, nil
		}
		return 0, bad
	}
	return g.shorten(p[:n], proof), err
}

// nextProof returns which reply answers the next proof. Where none is under way, or more of them
// than are remembered, it may be one that came already, or a later one.
func (g *guard) nextProof() uint64 {
	var next uint64
	for i := range g.proofs {
		if asked := g.proofs[i].Load(); asked > g.replies && (next <= g.replies || asked < next) {
			next = asked
		}
	}
	return max(next, g.replies)
}

// shorten replaces the answer to a proof, where p has all of it and it says what the last one said.
// That saves redigo the making of a text that nobody needs. It does so to one answer at most of
// those that come together. It returns what is left of p.
func (g *guard) shorten(p []byte, proof uint64) int {
	began, ended := g.parser.began, g.parser.ended
	if len(g.marker) == 0 || began < 0 || !bytes.Equal(p[began:ended], g.marker) {
		return len(p)
	}
	g.same, g.sameAs = proof, g.expected
	return len(append(append(p[:began], sameProof...), p[ended:]...))
}

// sameProof stands for an answer that was shortened. It is no longer than any of those, so it has
// room.
const sameProof = "+OK\r\n"

// expect makes the guard know the answer to a proof.
func (g *guard) expect(proof *Proof) {
	g.expected = proof
	if g.marker = g.marker[:0]; proof.Marker == "" {
		return // none is not an empty one
	}
	g.marker = append(g.marker, '$')
	g.marker = strconv.AppendInt(g.marker, int64(len(proof.Marker)), 10)
	g.marker = append(g.marker, "\r\n"...)
	g.marker = append(g.marker, proof.Marker...)
	g.marker = append(g.marker, "\r\n"...)
}

// Write keeps p until flush.
func (g *guard) Write(p []byte) (int, error) {
	g.out = append(g.out, p...)
	if len(g.out) >= maxWriteBuffer {
		return len(p), g.flush()
	}
	return len(p), nil
}

func (g *guard) flush() error {
	if len(g.out) == 0 {
		return nil
	}
	n, err := g.Conn.Write(g.out)
	g.written += uint64(n)
	g.out = g.out[:0]
	return err
}

// SetReadDeadline does nothing: redigo would set one for every reply. A connection whose answers are overdue is
// closed by the node's watch, which ends reads and writes alike.
func (*guard) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing, for the same reason.
func (*guard) SetWriteDeadline(time.Time) error { return nil }
