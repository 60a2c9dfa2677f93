package pool

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

	asked  atomic.Uint64 // commands given to the network; added to before they are written
	proven atomic.Uint64 // which of them was the last proof; set before it is written

	// Of the reader only.
	parser  replyParser
	replies uint64 // complete replies that were handed to redigo
	err     error  // why nothing more is handed to redigo
	marker  []byte // the answer to the last proof, as it stood in the stream; nil before the first
	same    uint64 // which reply was one like it, and was handed to redigo as "OK"

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
	return g.shorten(p[:n]), err
}

// shorten replaces the answer to a proof that says what the last one said, where it is the end of
// what has come. That is so whenever a single call is under way, and saves redigo the making of a
// text that nobody needs. It returns what is left of p.
func (g *guard) shorten(p []byte) int {
	if len(g.marker) == 0 || g.replies != g.proven.Load() || g.parser.last != len(p)-len(g.marker) || !bytes.HasSuffix(p, g.marker) {
		return len(p)
	}
	g.same = g.replies
	return len(append(p[:g.parser.last], sameProof...))
}

// sameProof stands for an answer that was shortened. It is no longer than any of those, so it has
// room.
const sameProof = "+OK\r\n"

// expect makes the guard know the answer to a proof.
func (g *guard) expect(marker string) {
	g.marker = append(g.marker[:0], '$')
	g.marker = strconv.AppendInt(g.marker, int64(len(marker)), 10)
	g.marker = append(g.marker, "\r\n"...)
	g.marker = append(g.marker, marker...)
	g.marker = append(g.marker, "\r\n"...)
	if len(marker) == 0 {
		g.marker = g.marker[:0] // none is not an empty one
	}
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
