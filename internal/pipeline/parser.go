package pipeline

import (
	"fmt"
	"math"
)

// replyParser follows a stream of RESP2 replies byte by byte. It keeps nothing but its position.
type replyParser struct {
	state  parserState
	kind   byte  // of the current line: one of + - : $ *
	length int64 // read from the current $ or * line so far, without its minus
	digits int   // characters of the current line, without a leading minus
	minus  bool  // the current line begins with a minus
	body   int64 // bytes left of a bulk string
	size   int64 // bytes of the current reply so far, with the announced ones of bulk strings
	depth  int
	left   [maxReplyDepth]int64 // entries left of each open array
	quiet  bool                 // errors do not quote the server
	sought uint64               // which reply that the next feed completes is sought; 0 for none
	began  int                  // where it begins in that feed; -1 if not all of it is there
	ended  int                  // where it ends, exclusively
}

type parserState uint8

const (
	atType   parserState = iota // before the first byte of a value
	inLine                      // behind that byte
	atLF                        // behind the \r of a line
	inBody                      // in a bulk string
	atBodyCR                    // before the line end of a bulk string
	atBodyLF
)

// feed follows p. It returns how many bytes of p may be handed on, how many replies became
// complete, and what is wrong with the first byte that may not, if there is one.
func (r *replyParser) feed(p []byte) (good int, complete uint64, err error) {
	began := -1
	r.began, r.ended = -1, -1
	for i := 0; i < len(p); i++ {
		if r.state == atType && r.depth == 0 {
			began = i
		}
		if r.state == inBody {
			step := min(r.body, int64(len(p)-i))
			r.body -= step
			i += int(step) - 1
			if r.body == 0 {
				r.state = atBodyCR
			}
			continue
		}
		done, err := r.step(p[i])
		if err != nil {
			if r.quiet {
				return i, complete, fmt.Errorf("%w: %w", ErrProtocol, err)
			}
			return i, complete, fmt.Errorf("%w: %w: %q", ErrProtocol, err, excerpt(p, i))
		}
		if done {
			if complete++; complete == r.sought {
				r.began, r.ended = began, i+1
			}
		}
	}
	return len(p), complete, nil
}

// step takes one byte outside a bulk string, and reports whether it completes a reply.
func (r *replyParser) step(b byte) (done bool, err error) {
	if r.size++; r.size > maxReplyBytes {
		return false, errTooLong
	}
	switch r.state {
	case atType:
		switch b {
		case '+', '-', ':', '$', '*':
			r.state, r.kind, r.length, r.digits, r.minus = inLine, b, 0, 0, false
			return false, nil
		case tlsAlert, tlsHandshake:
			return false, errIsTLS
		}
		return false, errNotRedis
	case inLine:
		if b == '\r' {
			if r.digits == 0 && (r.kind == '$' || r.kind == '*' || r.kind == ':') {
				return false, errBadNumber
			}
			r.state = atLF
			return false, nil
		}
		return false, r.character(b)
	case atLF:
		if b != '\n' {
			return false, errBadLine
		}
		return r.endLine()
	case atBodyCR:
		if b != '\r' {
			return false, errBadBody
		}
		r.state = atBodyLF
		return false, nil
	case atBodyLF:
		if b != '\n' {
			return false, errBadBody
		}
		return r.endValue(), nil
	case inBody:
	}
	panic("pool: a bulk string is not followed byte by byte")
}

// character takes one character of a line.
func (r *replyParser) character(b byte) error {
	if r.kind == '+' || r.kind == '-' {
		if r.digits++; r.digits > maxLineBytes {
			return errTooLong
		}
		if b == '\n' {
			return errBadLine
		}
		return nil
	}
	if b == '-' && r.digits == 0 && !r.minus {
		r.minus = true
		return nil
	}
	if b < '0' || b > '9' || r.length > (math.MaxInt64-int64(b-'0'))/10 {
		return errBadNumber
	}
	r.digits++
	r.length = r.length*10 + int64(b-'0')
	if r.kind == ':' {
		return nil
	}
	return r.announced()
}

// announced checks a length, and refuses it as soon as it is over its limit. The only negative
// length is -1, for null.
func (r *replyParser) announced() error {
	switch {
	case r.minus && (r.length != 1 || r.digits != 1):
		return errBadNumber
	case r.kind == '$' && r.size+r.length > maxReplyBytes:
		return errTooLong
	case r.kind == '*' && r.length > maxReplyEntries:
		return errTooMany
	}
	return nil
}

// endLine ends a line. Either the value is complete, or its body or entries follow.
func (r *replyParser) endLine() (done bool, err error) {
	switch {
	case r.kind == '$' && !r.minus:
		r.size += r.length
		if r.state, r.body = inBody, r.length; r.body == 0 {
			r.state = atBodyCR
		}
		return false, nil
	case r.kind == '*' && !r.minus && r.length > 0:
		if r.depth == maxReplyDepth {
			return false, errTooDeep
		}
		r.left[r.depth] = r.length
		r.depth++
		r.state = atType
		return false, nil
	}
	return r.endValue(), nil
}

// endValue ends a value, and the arrays whose last entry it was. It reports whether the reply is
// complete.
func (r *replyParser) endValue() bool {
	r.state = atType
	for r.depth > 0 {
		r.left[r.depth-1]--
		if r.left[r.depth-1] > 0 {
			return false
		}
		r.depth--
	}
	r.size = 0
	return true
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
)

// excerpt returns a few bytes around the wrong one, for the error.
func excerpt(p []byte, at int) []byte {
	return p[max(0, at-16):min(len(p), at+24)]
}
