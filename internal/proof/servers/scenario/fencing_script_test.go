package scenario_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// documentedScript returns the script of docs/fencing.md.
func documentedScript(t *testing.T) string {
	t.Helper()
	return documentedScriptOf(t, "In Redis")
}

// documentedScriptOf returns the script in a section of docs/fencing.md.
func documentedScriptOf(t *testing.T, section string) string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/fencing.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	require.True(t, found)
	_, rest, found = strings.Cut(rest, "```lua\n")
	require.True(t, found)
	script, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	return script
}

// writeFenced writes with the documented script, and reports whether the script did it. Without a
// value, it reads.
func writeFenced(t *testing.T, s *redistest.Server, key string, token int64, value ...any) bool {
	t.Helper()
	_, err := s.Do("EVAL", append([]any{documentedScript(t), 2, key, "fence:" + key, token}, value...)...)
	if err != nil {
		require.ErrorContains(t, err, "STALE")
	}
	return err == nil
}

func TestDocumentedScriptRefusesOlderTokens(t *testing.T) {
	t.Parallel()
	s := redistest.StartOne(t)
	value := ""
	for _, step := range []struct {
		token int64
		want  bool
	}{
		{0, false}, // of a lock without WithFencing
		{10, true},
		{9, false},
		{10, true},
		{11, true},
		{10, false},
		{1763678400123456, true},
		{1763678400123455, false},
		{1763678400123456, true},
		{1<<53 - 2, true},
		{1<<53 - 1, true},
		{1<<53 - 2, false},
		{1<<53 - 1, true},
	} {
		text := strings.Repeat("x", len(value)+1)
		require.Equal(t, step.want, writeFenced(t, s, "a", step.token, text), step.token)
		if step.want {
			value = text
		}
		assert.Equal(t, value, cluster.Holder(t, s, "a"))
	}
}

// The script for readers and writers decides as the gate does, up to the largest token.
func TestDocumentedScriptOfReadersAndWritersAgreesWithTheGate(t *testing.T) {
	t.Parallel()
	s, script := redistest.StartOne(t), documentedScriptOf(t, "Readers and writers")
	rapid.Check(t, func(t *rapid.T) {
		for _, key := range []string{"a", "tokens"} {
			_, err := s.Do("DEL", key)
			require.NoError(t, err)
		}
		var gate fence.RWGate
		content := any(nil)
		for i := range rapid.IntRange(1, 12).Draw(t, "uses") {
			token := 1<<53 - rapid.Int64Range(1, 6).Draw(t, "below")
			args := []any{script, 2, "a", "tokens", token}
			if rapid.Bool().Draw(t, "reads") {
				as := rapid.SampledFrom([]string{"reader", "writer"}).Draw(t, "as")
				admit := map[string]func(int64) error{"reader": gate.AdmitRead, "writer": gate.AdmitWrite}[as]
				reply, err := s.Do("EVAL", append(args, as)...)
				if admit(token) != nil {
					require.ErrorContains(t, err, "STALE")
				} else {
					require.NoError(t, err)
					require.Equal(t, content, reply)
				}
			} else {
				_, err := s.Do("EVAL", append(args, "writer", i)...)
				if gate.AdmitWrite(token) != nil {
					require.ErrorContains(t, err, "STALE")
				} else {
					require.NoError(t, err)
					content = []byte(strconv.Itoa(i))
				}
			}
		}
	})
}

func TestDocumentedScriptTakesTheTokensOfALock(t *testing.T) {
	t.Parallel()
	c, s := cluster.Start(t, 5), redistest.StartOne(t)
	l := cluster.NewConnected(t, c.URLs(), redlock.WithFencing(), redlock.WithNodeTimeout(patience))
	var tokens []int64
	for range 20 {
		lock, err := l.Lock(t.Context(), "a")
		require.NoError(t, err)
		tokens = append(tokens, lock.Fence())
		require.True(t, writeFenced(t, s, "a", lock.Fence(), "1"))
		require.True(t, writeFenced(t, s, "a", lock.Fence(), "2"))
		require.NoError(t, lock.Unlock(t.Context()))
	}
	for _, old := range tokens[:19] {
		assert.False(t, writeFenced(t, s, "a", old, "3"))
	}
	assert.Equal(t, "2", cluster.Holder(t, s, "a"))
}
