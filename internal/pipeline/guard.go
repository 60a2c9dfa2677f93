package pipeline

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"
)

// Limits of a reply. Nothing that we ask for comes near them. redigo allocates whatever length a
// reply announces, so without them a wrong server could end the process.
const (
	maxReplyBytes   = 1 << 20
	maxReplyEntries = 4096
	maxReplyDepth   = 8
	maxLineBytes    = 64 << 10
	maxWriteBuffer  = 64 << 10 // flushed at this length, even within a batch
)

// guard stands between redigo and the network. Inbound, it follows the structure of the replies,
// refuses those beyond the limits before redigo sees them, and refuses replies that nobody asked
// for. Outbound, it gathers a batch into one write.
type guard struct {
	net.Conn
	pushes bool // a subscriber's: the reader checks unrequested replies; set before use

	asked  atomic.Uint64    // commands given to the network, counted before they are written
	proofs [4]atomic.Uint64 // which of them are the latest proofs, in any order; set before that

	// Used by the reader only.
	ahead    []byte // read, and not yet handed on; a part of room
	room     []byte
	parser   replyParser
	replies  uint64 // complete replies handed to redigo
	err      error  // why redigo gets nothing more
	expected *Proof // the last proof; nil before the first
	marker   []byte // its reply, as it stood in the stream; empty if there was no marker
	same     uint64 // which reply was handed to redigo as "OK", because it equaled marker,
	sameAs   *Proof // and the value of expected then

	// Used by the writer, or by the caller in its place.
	out     []byte
	written uint64 // bytes the network took
}

// Read hands on what belongs to replies within the limits. The rest of an oversized reply stays
// here, so that redigo, which decides at the end of a line, never decides on it.
func (g *guard) Read(p []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.take(p)
	proof := g.nextProof()
	g.parser.sought = proof - g.replies
	good, complete, bad := g.parser.feed(p[:n])
	// A command is counted before it is written, so an honest server's reply count is never ahead.
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

// nextProof returns which reply answers the next proof. If none is outstanding, or more than we
// remember, it may return one that has come already, or a later one.
func (g *guard) nextProof() uint64 {
	var next uint64
	for i := range g.proofs {
		if asked := g.proofs[i].Load(); asked > g.replies && (next <= g.replies || asked < next) {
			next = asked
		}
	}
	return max(next, g.replies)
}

// shorten replaces the reply to a proof if p contains all of it and it equals the last one. That
// spares redigo from allocating a text that nobody needs. It shortens at most one of the replies
// that come together. It returns the new length of p.
func (g *guard) shorten(p []byte, proof uint64) int {
	began, ended := g.parser.began, g.parser.ended
	if len(g.marker) == 0 || began < 0 || !bytes.Equal(p[began:ended], g.marker) {
		return len(p)
	}
	g.same, g.sameAs = proof, g.expected
	return len(append(append(p[:began], sameProof...), p[ended:]...))
}

// sameProof stands for a shortened reply. It is no longer than any of those, so it has room.
const sameProof = "+OK\r\n"

// expect tells the guard the reply that a proof will have if nothing changes.
func (g *guard) expect(proof *Proof) {
	g.expected = proof
	if g.marker = g.marker[:0]; proof.Marker == "" {
		return // a missing marker is not an empty one
	}
	g.marker = append(g.marker, '$')
	g.marker = strconv.AppendInt(g.marker, int64(len(proof.Marker)), 10)
	g.marker = append(g.marker, "\r\n"...)
	g.marker = append(g.marker, proof.Marker...)
	g.marker = append(g.marker, "\r\n"...)
}

// write buffers a command until flush.
func (g *guard) write(calls []outgoing) error {
	if g.out = appendCommand(g.out, calls); len(g.out) >= maxWriteBuffer {
		return g.flush()
	}
	return nil
}

// Write must not be called: redigo only reads.
func (*guard) Write([]byte) (int, error) { panic("pipeline: a write by redigo") }

func (g *guard) flush() error {
	if len(g.out) == 0 {
		return nil
	}
	n, err := g.Conn.Write(g.out)
	g.written += uint64(n)
	g.out = g.out[:0]
	return err
}

// SetReadDeadline does nothing: redigo would set a deadline for every reply. The node's tick closes
// a connection whose replies are overdue, which ends reads and writes alike.
func (*guard) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing, for the same reason.
func (*guard) SetWriteDeadline(time.Time) error { return nil }
