package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
)

// Limits of a reply. Nothing that we ask for comes near them. A reply announces its lengths, so
// without them a wrong server could end the process.
const (
	maxReplyBytes   = 1 << 20
	maxReplyEntries = 4096
	maxReplyDepth   = 8
	maxLineBytes    = 64 << 10
	maxNumberBytes  = 20 // of an int64
	readerRoom      = 4 << 10
)

// reader reads the replies of a server, in RESP2, and checks them: each length before it allocates
// for it, and that somebody asked. Behind the first mistake it reads nothing, because a server that
// is out of step may have any reply be that of another call.
//
// A reply is what redigo makes of it (int64, string, []byte, []any, nil or a [redis.Error]), but
// for one: the reply to a proof that equals the last one is the *[Proof] itself, which no server
// can send, and which spares us a text that nobody needs.
type reader struct {
	from   io.Reader // the network, or TLS
	pushes bool      // a subscriber's: its messages are not asked for; set before use
	quiet  bool      // errors do not quote the server

	asked  atomic.Uint64    // commands given to the network, counted before they are written
	proofs [4]atomic.Uint64 // which of them are the latest proofs, in any order; set before that

	// Used by the goroutine that reads only.
	room      []byte
	next, end int    // room[next:end] is not read yet
	most      uint64 // what asked was when the last of these bytes had come
	waits     bool   // for what has not come yet
	size      int    // bytes of the current reply so far, with the announced ones
	replies   uint64 // read so far
	expected  *Proof // the last proof; nil before the first
	err       error  // why nothing more is read
}

// errNotYet means that not all of a reply has come.
var errNotYet = errors.New("pool: not all of a reply is there")

// receive waits for the next reply. If that is an error of the server, it is the error.
func (r *reader) receive() (any, error) {
	r.waits = true
	return r.reply()
}

// ready is receive for a reply of which all has come. If none has, it returns false. So it does if
// what has come is a mistake: what came before that is answered first.
func (r *reader) ready() (reply any, ok bool, err error) {
	r.waits = false
	next := r.next
	if next == r.end || r.err != nil {
		return nil, false, nil
	}
	reply, err = r.reply()
	if r.err != nil && !errors.Is(r.err, errSurplus) {
		r.next, r.err = next, nil
		return nil, false, nil
	}
	return reply, true, err
}

func (r *reader) reply() (any, error) {
	if r.err != nil {
		return nil, r.err
	}
	r.size = 0
	reply, err := r.value(0)
	// A command is counted before it is written, so an honest server's replies are never ahead of
	// those that were asked for when they came.
	if err == nil && !r.pushes && r.replies >= r.most {
		err = errSurplus
	}
	if err != nil {
		r.err = r.explain(err)
		return nil, r.err
	}
	r.replies++
	if words, failed := reply.(redis.Error); failed {
		return nil, words
	}
	return reply, nil
}

// explain adds to a mistake of the server what it said there.
func (r *reader) explain(err error) error {
	var mistake parseError
	switch {
	case !errors.As(err, &mistake):
		return err
	case r.quiet || mistake == errSurplus:
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	said := r.room[max(0, r.next-16):min(r.end, r.next+24)]
	return fmt.Errorf("%w: %w: %q", ErrProtocol, err, said)
}

// value reads a value within that many arrays.
func (r *reader) value(depth int) (any, error) {
	if err := r.need(1); err != nil {
		return nil, err
	}
	switch kind := r.room[r.next]; kind {
	case '+', '-':
		line, err := r.line(maxLineBytes, errTooLong)
		switch {
		case err != nil:
			return nil, err
		case kind == '-':
			return redis.Error(line), nil
		case string(line) == "OK":
			return "OK", nil // a constant, which is not allocated
		}
		return string(line), nil
	case ':':
		line, err := r.line(maxNumberBytes, errBadNumber)
		if err != nil {
			return nil, err
		}
		return numberOf(line)
	case '$':
		return r.bulk(depth)
	case '*':
		return r.array(depth)
	case tlsAlert, tlsHandshake:
		return nil, errIsTLS
	}
	return nil, errNotRedis
}

func (r *reader) bulk(depth int) (any, error) {
	n, err := r.length()
	if err != nil || n < 0 {
		return nil, err
	}
	if r.size += n; r.size > maxReplyBytes {
		return nil, errTooLong
	}
	if err := r.need(n + len(crlf)); err != nil {
		return nil, err
	}
	text := r.room[r.next:][:n]
	if string(r.room[r.next+n:][:len(crlf)]) != crlf {
		return nil, errBadBody
	}
	r.next += n + len(crlf)
	if depth == 0 && r.expected != nil && r.isProof() && string(text) == r.expected.Marker && n > 0 {
		return r.expected, nil // a missing marker is not an empty one
	}
	return bytes.Clone(text), nil
}

// isProof reports whether the current reply is that of one of the latest proofs.
func (r *reader) isProof() bool {
	for i := range r.proofs {
		if r.proofs[i].Load() == r.replies+1 {
			return true
		}
	}
	return false
}

func (r *reader) array(depth int) (any, error) {
	n, err := r.length()
	switch {
	case err != nil || n < 0:
		return nil, err
	case n > maxReplyEntries:
		return nil, errTooMany
	case n > 0 && depth == maxReplyDepth:
		return nil, errTooDeep
	}
	entries := make([]any, n)
	for i := range entries {
		if entries[i], err = r.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// length reads the length of a bulk string or an array. The only negative one is -1, for null.
func (r *reader) length() (int, error) {
	line, err := r.line(maxNumberBytes, errTooLong)
	if err != nil {
		return 0, err
	}
	if string(line) == "-1" {
		return -1, nil
	}
	n, err := numberOf(line)
	if err != nil || line[0] == '-' {
		return 0, errBadNumber
	}
	return int(min(n, maxReplyBytes+1)), nil
}

// line reads the rest of a line behind its first byte, up to most bytes. What it returns is valid
// until the next read.
func (r *reader) line(most int, beyond error) ([]byte, error) {
	for n := 1; ; n++ {
		if r.next+n >= r.end {
			if err := r.need(n + 1); err != nil {
				return nil, err
			}
		}
		switch r.room[r.next+n] {
		case '\r':
			if err := r.need(n + 2); err != nil {
				return nil, err
			}
			if r.room[r.next+n+1] != '\n' {
				return nil, errBadLine
			}
			line := r.room[r.next+1 : r.next+n]
			r.next += n + len(crlf)
			if r.size += n + len(crlf); r.size > maxReplyBytes {
				return nil, errTooLong
			}
			return line, nil
		case '\n':
			return nil, errBadLine
		}
		if n > most {
			return nil, beyond
		}
	}
}

// numberOf reads a number without more signs than a minus.
func numberOf(line []byte) (int64, error) {
	digits := bytes.TrimPrefix(line, []byte("-"))
	if len(digits) == 0 {
		return 0, errBadNumber
	}
	var n int64
	for _, b := range digits {
		if b < '0' || b > '9' || n > (math.MaxInt64-int64(b-'0'))/10 {
			return 0, errBadNumber
		}
		n = n*10 + int64(b-'0')
	}
	if len(digits) < len(line) {
		return -n, nil
	}
	return n, nil
}

// need returns nil once n bytes are there that are not read yet.
func (r *reader) need(n int) error {
	for r.end-r.next < n {
		if !r.waits {
			return errNotYet
		}
		room := r.room
		switch {
		case n > len(room):
			room = make([]byte, max(n, 2*len(room), readerRoom))
		case r.next == r.end && len(room) > readerRoom: // for a long reply, which has been read
			room = make([]byte, readerRoom)
		}
		if r.next == r.end || r.next+n > len(r.room) {
			r.end = copy(room, r.room[r.next:r.end])
			r.next, r.room = 0, room
		}
		if err := r.fill(); err != nil {
			return err
		}
	}
	return nil
}

// fill reads once.
func (r *reader) fill() error {
	n, err := r.from.Read(r.room[r.end:])
	r.end += n
	r.most = r.asked.Load()
	if n > 0 {
		return nil // an error comes again
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// The first bytes of TLS: of an alert, and of a handshake.
const (
	tlsAlert     = 0x15
	tlsHandshake = 0x16
)

type parseError string

func (e parseError) Error() string { return string(e) }

const (
	errNotRedis  parseError = "not a Redis reply"
	errIsTLS     parseError = "TLS answered where Redis was expected (rediss://)"
	errBadLine   parseError = "a broken line"
	errBadNumber parseError = "a broken number"
	errBadBody   parseError = "a bulk string without its line end"
	errTooLong   parseError = "a reply over the limit of 1 MiB"
	errTooMany   parseError = "an array over the limit of 4096 entries"
	errTooDeep   parseError = "arrays nested over the limit of 8"
	errSurplus   parseError = "a reply that nobody asked for"
)
