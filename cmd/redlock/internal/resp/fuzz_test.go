package resp

import (
	"bufio"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever a client sends, what is read is within bounds. Unless it cannot be told where the next
// request begins, that is read as it was sent.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		"", "\r\n", "PING\r\n", "*1\r\n$4\r\nPING\r\n", "*2\r\n$3\r\nGET\r\n$0\r\n\r\n", "*0\r\n", "*-1\r\n", "*1\r\n$-1\r\n", "*x\r\n",
		"*2\r\n$70000\r\n" + strings.Repeat("x", 70_000) + "\r\n$1\r\ny\r\n", "*1\r\n$4\r\nPINGPING", strings.Repeat("x", 5000),
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, sent string, known bool) {
		r := &reader{Reader: bufio.NewReaderSize(strings.NewReader(sent+"\r\nNEXT one\r\n"), mostLine), known: known}
		var last []string
		for {
			args, err := r.request()
			var framing errFraming
			switch {
			case errors.As(err, &framing):
				return
			case errors.Is(err, errTooLarge):
				continue
			case err != nil: // the end
				if strings.HasSuffix(sent, "\n") && !strings.Contains(sent, "*") {
					require.Equal(t, []string{"NEXT", "one"}, last)
				}
				return
			}
			size := 0
			for _, arg := range args {
				size += len(arg)
			}
			require.LessOrEqual(t, size, mostRequest)
			require.LessOrEqual(t, len(args), mostLine)
			if len(args) > 0 {
				last = args
			}
		}
	})
}

// Whatever a script is, it ends, and has done nothing but to its keys.
func FuzzScript(f *testing.F) {
	for _, seed := range []string{
		"return redis.call('GET', KEYS[1])", "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end",
		"while true do end", "local function f() return f() end return f()", "return {1, {2, 'x'}, false}", "return redis.call('SET', KEYS[1], ARGV[1], 'PX', 10)",
		"return unpack(KEYS, -9, 9)", "local t = {} for i = 1, 99 do table.insert(t, t) end return t", "return redis.pcall('MSET', KEYS[1], 'x', KEYS[2], 'y')",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		known := scripts{known: map[string]*script{}}
		s, _, err := known.add(text)
		if err != nil {
			return
		}
		w := &world{states: []*state{{key: "k"}, {key: "l", held: true, token: "mine", seen: true, seenToken: "mine", left: time.Second}}}
		_, err = w.run(context.Background(), s, []string{"mine", "1000"})
		if err == nil && w.settle(0) == nil {
			for _, st := range w.states {
				if does := st.does(); does == acquires || does == extends {
					require.Positive(t, st.ttl)
				}
			}
		}
	})
}
