package fakeredis

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
)

// newNode returns a node that ends with the test.
func newNode(t testing.TB, opts ...Option) *Node {
	t.Helper()
	n := New(clocktest.New(), opts...)
	t.Cleanup(n.Close)
	return n
}

// inBubble runs a test in virtual time, on a new node.
func inBubble(t *testing.T, test func(t *testing.T, n *Node)) {
	t.Helper()
	InBubble(t, 1, func(t *testing.T, _ *clocktest.Clock, nodes Cluster) { test(t, nodes[0]) })
}

// dial returns a redigo connection to n that ends with the test.
func dial(t testing.TB, n *Node) redis.Conn {
	t.Helper()
	conn, err := n.Dial(context.Background())
	require.NoError(t, err)
	c := redis.NewConn(conn, 0, 0)
	t.Cleanup(func() { c.Close() })
	return c
}

// send sends a command, given as words, and waits for no reply.
func send(t testing.TB, c redis.Conn, words ...any) {
	t.Helper()
	require.NoError(t, c.Send(words[0].(string), words[1:]...))
	require.NoError(t, c.Flush())
}

// do sends a command, given as words, and returns its reply as text.
func do(c redis.Conn, words ...string) string {
	args := make([]any, len(words)-1)
	for i, word := range words[1:] {
		args[i] = word
	}
	return show(c.Do(words[0], args...))
}

// show writes a reply so that each kind looks different.
func show(reply any, err error) string {
	if err != nil {
		reply = err
	}
	switch r := reply.(type) {
	case redis.Error:
		return "-" + string(r)
	case error:
		return "broken: " + r.Error()
	case string:
		return "+" + r
	case []byte:
		return fmt.Sprintf("%q", r)
	case []any:
		items := make([]string, len(r))
		for i, item := range r {
			items[i] = show(item, nil)
		}
		return "[" + strings.Join(items, " ") + "]"
	}
	return fmt.Sprint(reply)
}

// infoOf returns a field of INFO.
func infoOf(t testing.TB, c redis.Conn, field string) string {
	t.Helper()
	info, err := redis.String(c.Do("INFO"))
	require.NoError(t, err)
	for line := range strings.SplitSeq(info, "\r\n") {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return value
		}
	}
	return ""
}
