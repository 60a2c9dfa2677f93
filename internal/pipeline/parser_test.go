package pipeline

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parse feeds the parser a stream at once, and again byte by byte, which must be the same.
func parse(t *testing.T, text string) (good int, complete uint64, err error) {
	t.Helper()
	var whole, parts replyParser
	good, complete, err = whole.feed([]byte(text))
	goodParts, completeParts := 0, uint64(0)
	for i := range len(text) {
		g, c, failed := parts.feed([]byte(text[i : i+1]))
		goodParts, completeParts = goodParts+g, completeParts+c
		if failed != nil {
			assert.Error(t, err, "%.40q", text)
			break
		}
	}
	assert.Equal(t, good, goodParts, "%.40q", text)
	assert.Equal(t, complete, completeParts, "%.40q", text)
	return good, complete, err
}

func TestParserRefusesWhatIsBeyondTheLimits(t *testing.T) {
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
		_, complete, err := parse(t, text)
		require.ErrorIs(t, err, ErrProtocol, "%.40q", text)
		assert.ErrorIs(t, err, want, "%.40q", text)
		assert.Zero(t, complete, "%.40q", text)
	}
}

func TestParserCountsReplies(t *testing.T) {
	for text, want := range map[string]uint64{
		"+OK\r\n:1\r\n$-1\r\n*-1\r\n-ERR x\r\n":                        5,
		"*0\r\n$0\r\n\r\n":                                             2,
		"*2\r\n*1\r\n:1\r\n$2\r\n\r\n\r\n+OK":                          1,
		":-9223372036854775807\r\n":                                    1,
		strings.Repeat("*1\r\n", 8) + ":1\r\n":                         1,
		"$1048000\r\n" + strings.Repeat("\n", 1048000) + "\r\n+OK\r\n": 2,
	} {
		good, complete, err := parse(t, text)
		require.NoError(t, err, "%.40q", text)
		assert.Equal(t, len(text), good, "%.40q", text)
		assert.Equal(t, want, complete, "%.40q", text)
	}
}

func TestParserErrorQuotesTheServerUnlessQuiet(t *testing.T) {
	p := replyParser{}
	_, _, err := p.feed([]byte("HTTP/1.1 400 Bad Request\r\n"))
	assert.ErrorContains(t, err, `"HTTP/1.1 400 Bad Request`)
	p = replyParser{quiet: true}
	_, _, err = p.feed([]byte("HTTP/1.1 400 Bad Request\r\n"))
	assert.NotContains(t, err.Error(), "HTTP")
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

// Whatever a server sends, redigo behind the guard neither panics nor allocates more than the
// stream paid for, and the guard counts the replies as redigo does.
func FuzzGuard(f *testing.F) {
	for _, s := range []string{"+OK\r\n:1\r\n", "$99999999999999\r\n", "*1000000000000\r\n", "*2\r\n$3\r\nabc\r\n*-1\r\n", "-ERR x\r\n$-1\r\n"} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, chunk uint8) {
		g := &guard{Conn: readOnly{Reader: bufio.NewReaderSize(bytes.NewReader(stream), 16+int(chunk))}}
		g.asked.Store(1 << 40)
		conn := redis.NewConn(g, 0, 0)
		var received uint64
		for {
			_, err := conn.Receive()
			if err != nil && !isReply(err) {
				break
			}
			received++
		}
		if received > g.replies {
			t.Fatalf("redigo took %d replies, the guard handed on %d", received, g.replies)
		}
		if g.err == nil && received != g.replies {
			t.Fatalf("redigo took %d replies of %d without an error of the guard", received, g.replies)
		}
	})
}

func TestGuardRefusesRepliesNobodyAskedFor(t *testing.T) {
	g := &guard{Conn: readOnly{Reader: strings.NewReader("+OK\r\n+OK\r\n")}}
	g.asked.Store(1)
	p := make([]byte, 100)
	n, err := g.Read(p)
	assert.Zero(t, n, "not even the first is trusted: the two came together, and either may be the surplus one")
	assert.ErrorIs(t, err, ErrProtocol)
	_, err = g.Read(p)
	assert.ErrorIs(t, err, ErrProtocol, "and it stays so")
}
