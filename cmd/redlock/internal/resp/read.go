package resp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Bounds on what one client may send. Names of locks have 4 KiB, tokens 128 bytes, and the scripts
// of lock libraries less than 4 KiB.
const (
	mostArguments = 1024
	mostBulk      = 64 << 10  // of one argument
	mostRequest   = 256 << 10 // of all of a request
	mostSkipped   = 64 << 20  // of what is too long to be kept, and is read over
	mostLine      = 4 << 10   // of an inline command, and of a length

	// Before it has logged in, a client needs little more than its password.
	mostArgumentsUnknown = 16
	mostBulkUnknown      = 4 << 10
)

// errFraming is what cannot be read over: where the next request begins is not known. As with
// Redis, the connection ends with it.
type errFraming string

func (e errFraming) Error() string { return "ERR Protocol error: " + string(e) }

// errTooLarge is a request that was read over, so the next one can be read.
var errTooLarge = fmt.Errorf("ERR a request has at most %d arguments of %d bytes each and %d in all: this server has locks only",
	mostArguments, mostBulk, mostRequest)

// reader reads requests.
type reader struct {
	*bufio.Reader

	known bool // the client has logged in
}

// request reads the next request: an array of strings, or the words of a line. An empty one has
// none.
func (r *reader) request() ([]string, error) {
	line, err := r.line()
	if err != nil || len(line) == 0 {
		return nil, err
	}
	if line[0] != '*' {
		var words []string
		for word := range bytes.FieldsSeq(line) {
			words = append(words, string(word))
		}
		return words, nil
	}
	n, err := length(line, 1<<20, "multibulk")
	if err != nil {
		return nil, err
	}
	arguments, bulk := mostArguments, mostBulk
	if !r.known {
		arguments, bulk = mostArgumentsUnknown, mostBulkUnknown
	}
	args := make([]string, 0, max(min(n, arguments), 0))
	size, skipped := 0, 0
	for range n {
		if line, err = r.line(); err != nil {
			return nil, err
		}
		if len(line) == 0 || line[0] != '$' {
			return nil, errFraming(fmt.Sprintf("expected '$', got %.16q", line))
		}
		one, err := length(line, mostSkipped, "bulk")
		if err != nil || one < 0 {
			return nil, errFraming("invalid bulk length")
		}
		if one > bulk || size+one > mostRequest || len(args) == arguments || skipped > 0 {
			if skipped += one + 1; skipped > mostSkipped {
				return nil, errFraming("too large a request")
			}
			_, err = io.CopyN(io.Discard, r, int64(one))
		} else {
			var text string
			text, err = r.text(one)
			args = append(args, text)
			size += one
		}
		if err == nil {
			err = r.end()
		}
		if err != nil {
			return nil, err
		}
	}
	if skipped > 0 {
		return nil, errTooLarge
	}
	return args, nil
}

// text reads so many bytes.
func (r *reader) text(n int) (string, error) {
	if n <= r.Size() {
		text, err := r.Peek(n)
		_, _ = r.Discard(len(text)) //nolint:errcheck // they are there
		return string(text), err
	}
	text := make([]byte, n)
	_, err := io.ReadFull(r, text)
	return string(text), err
}

// end reads what ends a string.
func (r *reader) end() error {
	var end [2]byte
	if _, err := io.ReadFull(r, end[:]); err != nil {
		return err
	}
	if end != [2]byte{'\r', '\n'} {
		return errFraming("a string is longer than its length")
	}
	return nil
}

// line reads to the end of a line, and returns it without that.
func (r *reader) line() ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) || err == nil && len(line) > mostLine {
		return nil, errFraming("too big inline request")
	}
	return bytes.TrimRight(line, "\r\n"), err
}

// length reads the number in a line.
func length(line []byte, most int, what string) (int, error) {
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil || n > most {
		return 0, errFraming("invalid " + what + " length")
	}
	return n, nil
}
