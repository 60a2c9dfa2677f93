package pipeline

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readAll reads a stream of replies that were asked for, until the first mistake or its end.
func readAll(from io.Reader) (replies []any, err error) {
	r := &reader{from: from}
	r.asked.Store(1 << 40)
	for {
		reply, err := r.receive()
		if err != nil && !isReply(err) {
			return replies, err
		}
		if err != nil {
			reply = err
		}
		replies = append(replies, reply)
	}
}

// parse reads a stream at once, and again byte by byte, which must be the same.
func parse(t *testing.T, text string) (replies []any, err error) {
	t.Helper()
	replies, err = readAll(strings.NewReader(text))
	parts, failed := readAll(iotest.OneByteReader(strings.NewReader(text)))
	assert.Equal(t, replies, parts, "%.40q", text)
	assert.Error(t, failed)
	return replies, err
}

func TestReaderRefusesWhatIsBeyondTheLimits(t *testing.T) {
	for text, want := range map[string]error{
		"$99999999999999\r\n": errTooLong,
		"$1048577\r\n":        errTooLong,
		"*1000000000000\r\n":  errTooMany,
		"*4097\r\n":           errTooMany,
		"*2\r\n$600000\r\n" + strings.Repeat("a", 600000) + "\r\n$600000\r\n": errTooLong,
		strings.Repeat("*1\r\n", 9):               errTooDeep,
		"+" + strings.Repeat("a", maxLineBytes+1): errTooLong,
		"HTTP/1.1 400 Bad Request\r\n":            errNotRedis,
		"\x15\x03\x01":                            errIsTLS,
		"\x16\x03\x01":                            errIsTLS,
		"\r\n":                                    errNotRedis,
		"%1\r\n":                                  errNotRedis,
		"+OK\n":                                   errBadLine,
		"+OK\rX":                                  errBadLine,
		":12x\r\n":                                errBadNumber,
		":\r\n":                                   errBadNumber,
		":-\r\n":                                  errBadNumber,
		":1-\r\n":                                 errBadNumber,
		"$-\r\n":                                  errBadNumber,
		"*-\r\n":                                  errBadNumber,
		"$-01\r\n":                                errBadNumber,
		":9223372036854775808\r\n":                errBadNumber,
		"$\r\n":                                   errBadNumber,
		"$-2\r\n":                                 errBadNumber,
		"$-11\r\n":                                errBadNumber,
		"$+5\r\n":                                 errBadNumber,
		"$2\r\n0000":                              errBadBody,
		"$0\r\n\rx":                               errBadBody,
		"*1x\r\n":                                 errBadNumber,
	} {
		replies, err := parse(t, text)
		require.ErrorIs(t, err, ErrProtocol, "%.40q", text)
		assert.ErrorIs(t, err, want, "%.40q", text)
		assert.Empty(t, replies, "%.40q", text)
	}
}

func TestReaderReadsReplies(t *testing.T) {
	long := strings.Repeat("\n", 1048000)
	for text, want := range map[string][]any{
		"+OK\r\n:1\r\n$-1\r\n*-1\r\n-ERR x\r\n":                 {"OK", int64(1), nil, nil, redis.Error("ERR x")},
		"*0\r\n$0\r\n\r\n+\r\n":                                 {[]any{}, []byte{}, ""},
		"*2\r\n*1\r\n:1\r\n$2\r\n\r\n\r\n+OK":                   {[]any{[]any{int64(1)}, []byte("\r\n")}},
		"*2\r\n-ERR x\r\n$-1\r\n":                               {[]any{redis.Error("ERR x"), nil}},
		":-9223372036854775807\r\n":                             {int64(-9223372036854775807)},
		"$1048000\r\n" + long + "\r\n+OK\r\n":                   {[]byte(long), "OK"},
		"+" + strings.Repeat("a", maxLineBytes) + "\r\n:-0\r\n": {strings.Repeat("a", maxLineBytes), int64(0)},
	} {
		replies, err := parse(t, text)
		require.ErrorIs(t, err, io.EOF, "%.40q", text)
		assert.Equal(t, want, replies, "%.40q", text)
	}
	deep, err := parse(t, strings.Repeat("*1\r\n", maxReplyDepth)+":1\r\n")
	require.ErrorIs(t, err, io.EOF)
	assert.Len(t, deep, 1)
}

func TestReaderErrorQuotesTheServerUnlessQuiet(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		r := &reader{from: strings.NewReader("HTTP/1.1 400 Bad Request\r\n"), quiet: quiet}
		_, err := r.receive()
		require.ErrorIs(t, err, errNotRedis)
		assert.Equal(t, !quiet, strings.Contains(err.Error(), `"HTTP/1.1 400 Bad Request`), err)
	}
}

// What has come whole is not held up by what comes behind it.
func TestNobodyWaitsForTheRestOfALaterReply(t *testing.T) {
	for rest, then := range map[string]string{"*2\r\n$5\r\nhe": "llo\r\n:1\r\n", "X": "", "$9999999\r\n": ""} {
		r := &reader{from: io.MultiReader(strings.NewReader("+A\r\n+B\r\n"+rest), strings.NewReader(then))}
		r.asked.Store(3)
		first, err := r.receive()
		require.NoError(t, err)
		second, ok, err := r.ready()
		require.NoError(t, err)
		require.True(t, ok)
		assert.Equal(t, []any{"A", "B"}, []any{first, second})
		_, ok, err = r.ready()
		require.NoError(t, err)
		assert.False(t, ok)
		last, err := r.receive()
		if then == "" {
			assert.ErrorIs(t, err, ErrProtocol)
		} else {
			require.NoError(t, err)
			assert.Equal(t, []any{[]byte("hello"), int64(1)}, last)
		}
	}
}

// readOnly is a connection of which only the reading side is used.
type readOnly struct {
	net.Conn
	io.Reader
}

func (r readOnly) Read(p []byte) (int, error) { return r.Reader.Read(p) }
func (readOnly) Close() error                 { return nil }

// SetReadDeadline does nothing: redigo sets one for every reply.
func (readOnly) SetReadDeadline(time.Time) error { return nil }

// Whatever a server sends, the reader does not panic, and what it takes are the replies that redigo
// finds there. However the stream is cut, they are the same, and so is what is ready without
// waiting.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"+OK\r\n:1\r\n", "$99999999999999\r\n", "*1000000000000\r\n", "*2\r\n$3\r\nabc\r\n*-1\r\n", "-ERR x\r\n$-1\r\n"} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, chunk uint8) {
		replies, err := readAll(bytes.NewReader(stream))
		require.Error(t, err)
		twin := redis.NewConn(readOnly{Reader: bytes.NewReader(stream)}, 0, 0)
		for _, reply := range replies {
			same, err := twin.Receive()
			if err != nil {
				same = err
			}
			require.Equal(t, same, reply)
		}
		r := &reader{from: &chunks{stream, 1 + int(chunk)}}
		r.asked.Store(1 << 40)
		for _, reply := range replies {
			again, ok, err := r.ready()
			if !ok {
				require.NoError(t, err)
				again, err = r.receive()
			}
			if err != nil {
				again = err
			}
			require.Equal(t, reply, again)
		}
	})
}

// chunks is a stream that comes in parts of a size.
type chunks struct {
	left []byte
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.left[:min(c.size, len(c.left))])
	c.left = c.left[n:]
	return n, nil
}

func TestReaderRefusesRepliesNobodyAskedFor(t *testing.T) {
	r := &reader{from: strings.NewReader("+OK\r\n+OK\r\n")}
	r.asked.Store(1)
	_, err := r.receive()
	require.NoError(t, err)
	r.asked.Store(2) // later than it came
	_, ok, err := r.ready()
	assert.True(t, ok, "those that came with it are told of it at once, and trusted no more than it")
	assert.ErrorIs(t, err, ErrProtocol)
	_, err = r.receive()
	assert.ErrorIs(t, err, ErrProtocol, "and it stays so")
}
