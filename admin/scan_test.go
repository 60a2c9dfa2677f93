package admin

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/ask"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/pipeline"
)

// scanned is what a master tells that answers each SCAN with so many keys, and never comes to an
// end.
func scanned(t *testing.T, q Query, perStep int, key func(n int) string) Scan {
	t.Helper()
	server := fakeredis.New(clock.System())
	t.Cleanup(server.Close)
	told := 0
	server.ReplyRaw(func(cmd []string) []byte {
		if !strings.EqualFold(cmd[0], "SCAN") {
			return nil
		}
		reply := fmt.Appendf(nil, "*2\r\n$1\r\n7\r\n*%d\r\n", perStep)
		for range perStep {
			k := key(told)
			told++
			reply = fmt.Appendf(reply, "$%d\r\n%s\r\n", len(k), k)
		}
		return reply
	})
	node, err := pipeline.NewNode("m:1", pipeline.WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) { return server.Dial(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, node.Close()) })
	q.Pattern = "*"
	return scan(t.Context(), ask.Master{Node: node, Clock: clock.System(), Patience: 10 * time.Second}, "", &q)
}

func TestAMasterThatTellsKeysWithoutAnEndIsBounded(t *testing.T) {
	t.Parallel()
	found := scanned(t, Query{Keys: 3000, Locks: 1000}, 1000, func(n int) string { return fmt.Sprint("gone", n) })
	require.NoError(t, found.Err)
	assert.True(t, found.Bounded)
	assert.Equal(t, 3000, found.Keys, "as many as were received, whatever was asked for")

	found = scanned(t, Query{Keys: 100_000, Locks: 1000}, 500, func(n int) string { return fmt.Sprint(termsPrefix, n) })
	require.NoError(t, found.Err)
	assert.True(t, found.Bounded)
	assert.Len(t, found.elections, 1000)

	found = scanned(t, Query{Keys: 1000, Locks: 1000}, 100, func(int) string { return termsPrefix + "the same" })
	require.NoError(t, found.Err)
	assert.Len(t, found.elections, 1)

	found = scanned(t, Query{Keys: 1_000_000, Locks: 1000}, 1, func(int) string { return strings.Repeat("x", 1_000_000) })
	require.NoError(t, found.Err)
	assert.True(t, found.Bounded, "of so many bytes")
	assert.Empty(t, found.LeftOut, "nothing of it can be a lock")
}

func TestAnswersToScanAreChecked(t *testing.T) {
	cursor, keys, ok := pageOf([]any{[]byte("17"), []any{[]byte("a"), []byte("b")}})
	assert.True(t, ok)
	assert.Equal(t, "17", cursor)
	assert.Equal(t, []string{"a", "b"}, keys)
	for _, reply := range []any{nil, int64(1), []any{}, []any{[]byte("0")}, []any{[]byte("0"), []byte("x")}, []any{int64(0), []any{}}} {
		_, _, ok := pageOf(reply)
		assert.False(t, ok, "%v", reply)
	}
}
