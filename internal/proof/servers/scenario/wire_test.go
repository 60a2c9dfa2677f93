package scenario_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// wire is what each of five servers executes.
type wire struct {
	cluster  *cluster.Cluster
	monitors []*redistest.Monitor
}

func listen(t *testing.T) *wire {
	t.Helper()
	w := &wire{cluster: &cluster.Cluster{Real: true}}
	servers := redistest.Start(t, 5)
	for _, server := range servers {
		w.cluster.Masters = append(w.cluster.Masters, server)
	}
	w.cluster.Meet(t)
	for _, server := range servers {
		w.monitors = append(w.monitors, server.Monitor(t))
	}
	return w
}

// spoken is what a server was sent about a key, and what scripts did with the key, as MONITOR
// quotes it.
type spoken struct{ commands, inScripts []string }

// writes returns what scripts did with the key except reads.
func (s spoken) writes() []string {
	return slices.DeleteFunc(slices.Clone(s.inScripts), func(command string) bool { return strings.HasPrefix(command, `"GET"`) })
}

func (w *wire) about(t *testing.T, node int, key string) (s spoken) {
	t.Helper()
	m := w.monitors[node]
	m.WaitFor(fmt.Sprintf(`"1" %q`, key), 1) // a script with that key
	m.Sync()
	for _, line := range m.Matching(fmt.Sprintf("%q", key)) {
		source, command, found := strings.Cut(line, "] ")
		require.True(t, found, line)
		if strings.HasSuffix(source, " lua") {
			s.inScripts = append(s.inScripts, command)
		} else {
			s.commands = append(s.commands, command)
		}
	}
	return s
}

// isSetAndRelease asserts the whole conversation about a key: one SET and one release by value,
// both in the common form. The release ends with the grace for a waiter.
func (w *wire) isSetAndRelease(t *testing.T, node int, s spoken, key, value string, ttlMillis int) {
	t.Helper()
	require.Len(t, s.commands, 2, "node %d: %v", node, s.commands)
	assert.Equal(t, fmt.Sprintf(`"SET" %q %q "NX" "PX" "%d"`, key, value, ttlMillis), s.commands[0], "node %d", node)
	release := regexp.MustCompile(`^"EVALSHA" "([0-9a-f]{40})" "1" "` + regexp.QuoteMeta(key) + `" "` + regexp.QuoteMeta(value) + `" "2000"$`)
	match := release.FindStringSubmatch(s.commands[1])
	require.NotNil(t, match, "node %d: %s", node, s.commands[1])
	known, err := w.cluster.Masters[node].Do("SCRIPT", "EXISTS", match[1])
	require.NoError(t, err)
	assert.Equal(t, []any{int64(1)}, known, "node %d", node)
}

func TestEveryNodeIsSentOneSetAndOneReleaseAndNothingElse(t *testing.T) {
	t.Parallel()
	w := listen(t)
	l := cluster.NewConnected(t, w.cluster.URLs(), redlock.WithKeyPrefix("app:"), redlock.WithNodeTimeout(patience))
	lock, err := l.TryLock(t.Context(), "orders/42", redlock.WithTTL(7*time.Second))
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
	const key = "app:orders/42"
	for node := range w.monitors {
		s := w.about(t, node, key)
		w.isSetAndRelease(t, node, s, key, lock.Value(), 7000)
		assert.Equal(t, []string{`"GET" "` + key + `"`, `"DEL" "` + key + `" "redquorum:waits:` + key + `"`}, s.inScripts, "node %d: compare, and delete", node)
	}
	cluster.RequireClean(t, w.cluster.Masters...)
}

func TestAttemptThatFailedIsUndoneOnEveryNode(t *testing.T) {
	t.Parallel()
	w := listen(t)
	const key = "orders/42"
	for _, m := range w.cluster.Masters[1:4] {
		_, err := m.Do("SET", key, "another's", "PX", longTTL.Milliseconds())
		must(t, err)
	}
	for _, m := range w.monitors {
		m.Sync()
		m.Clear()
	}
	l := cluster.NewConnected(t, w.cluster.URLs(), redlock.WithNodeTimeout(patience))
	_, err := l.TryLock(t.Context(), key, redlock.WithTTL(7*time.Second), redlock.WithValue("ours"))
	require.ErrorIs(t, err, redlock.ErrTaken)
	for node := range w.monitors {
		s := w.about(t, node, key)
		w.isSetAndRelease(t, node, s, key, "ours", 7000)
		want := []string{`"GET" "` + key + `"`}
		if node == 0 || node == 4 {
			want = append(want, `"DEL" "`+key+`" "redquorum:waits:`+key+`"`)
		}
		assert.Equal(t, want, s.inScripts, "node %d: delete only our own", node)
	}
	assert.Equal(t, []string{"", "another's", "another's", "another's", ""}, w.cluster.Holders(t, key))
}

func TestExtendAndVerifyAreOneCommandPerNode(t *testing.T) {
	t.Parallel()
	w := listen(t)
	l := cluster.NewConnected(t, w.cluster.URLs())
	const key = "orders/42"
	lock, err := l.TryLock(t.Context(), key)
	require.NoError(t, err)
	require.NoError(t, lock.Extend(t.Context(), 20*time.Second))
	require.NoError(t, lock.Verify(t.Context()))
	for node, m := range w.monitors {
		cluster.Eventually(t, slack, func() string { // Verify returns with the third answer
			if s := w.about(t, node, key); len(s.commands) < 3 {
				return fmt.Sprint(s.commands)
			}
			return ""
		})
		s := w.about(t, node, key)
		require.Len(t, s.commands, 3, "node %d: %v", node, s.commands)
		assert.Regexp(t, `^"EVALSHA" "[0-9a-f]{40}" "1" "orders/42" "`+regexp.QuoteMeta(lock.Value())+`" "20000"$`, s.commands[1])
		assert.Regexp(t, `^"(GET|EVALSHA)" .*"orders/42"`, s.commands[2], "node %d", node)
		assert.Contains(t, s.inScripts, `"GET" "orders/42"`)
		assert.Equal(t, []string{`"PEXPIRE" "orders/42" "20000"`}, s.writes(), "node %d: the value is compared, nothing else is written", node)
		m.Clear()
	}
	require.NoError(t, lock.Unlock(t.Context()))
	cluster.RequireClean(t, w.cluster.Masters...)
}
