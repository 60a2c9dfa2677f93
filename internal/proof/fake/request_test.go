package fake

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRequestsAreParsed(t *testing.T) {
	for text, want := range map[string]struct {
		args []string
		size int
		err  string
	}{
		"*1\r\n$4\r\nPING\r\n*1":            {args: []string{"PING"}, size: 14},
		"*2\r\n$3\r\nGET\r\n$0\r\n\r\n":     {args: []string{"GET", ""}, size: 19},
		"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n": {args: []string{"GET", "\r\n"}, size: 21},
		"PING  a\r\n":                       {args: []string{"PING", "a"}, size: 9},
		"\r\n":                              {size: 2},
		"*0\r\n":                            {size: 4},
		"*-1\r\n":                           {size: 5},
		"":                                  {},
		"*1":                                {},
		"*1\r\n$4\r\nPIN":                   {},
		"*1\r\n$4\r\nPING\r":                {},
		"*x\r\n":                            {err: "Protocol error: invalid multibulk length"},
		"*9999999\r\n":                      {err: "Protocol error: invalid multibulk length"},
		"*1\r\n:4\r\n":                      {err: "Protocol error: expected '$', got ':'"},
		"*1\r\n$-1\r\n":                     {err: "Protocol error: invalid bulk length"},
		"*1\r\n$99999999999999\r\n":         {err: "Protocol error: invalid bulk length"},
	} {
		args, size, err := parseRequest([]byte(text))
		if want.err != "" {
			assert.EqualError(t, err, want.err, "%q", text)
			continue
		}
		require.NoError(t, err, "%q", text)
		assert.ElementsMatch(t, want.args, args, "%q", text)
		assert.Equal(t, want.size, size, "%q", text)
	}
}

// A request reads the same whatever follows it, and is never read before it is complete.
func FuzzParseRequest(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"))
	f.Add([]byte("PING\r\n*1\r\n"))
	f.Add([]byte("*1\r\n$-1\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		args, size, err := parseRequest(data)
		if err != nil || size == 0 {
			return
		}
		require.LessOrEqual(t, size, len(data))
		again, sizeAgain, err := parseRequest(append(append([]byte{}, data...), "garbage"...))
		require.NoError(t, err)
		require.Equal(t, args, again)
		require.Equal(t, size, sizeAgain)
		_, early, err := parseRequest(data[:size-1])
		if data[0] == '*' {
			require.NoError(t, err)
			require.Zero(t, early)
		}
		if len(args) > 0 {
			encoded := bulks(args...).appendTo(nil)
			decoded, _, err := parseRequest(encoded)
			require.NoError(t, err)
			require.Equal(t, args, decoded, strconv.Quote(string(encoded)))
		}
	})
}
