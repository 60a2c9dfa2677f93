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

// monitored starts five masters, and records what they execute.
func monitored(t *testing.T) (*cluster.Cluster, []*redistest.Monitor) {
	t.Helper()
	c := cluster.Start(t, 5)
	var monitors []*redistest.Monitor
	for _, m := range c.Masters {
		monitors = append(monitors, m.(*redistest.Server).Monitor(t))
	}
	return c, monitors
}

// spoken returns what a server was sent about a key, at least so much, and what scripts wrote
// there, as MONITOR quotes it.
func spoken(t *testing.T, m *redistest.Monitor, key string, atLeast int) (commands, writes []string) {
	t.Helper()
	await(t, fmt.Sprintf("%d commands about %s", atLeast, key), func() bool {
		m.Sync()
		commands, writes = nil, nil
		for _, line := range m.Matching(fmt.Sprintf("%q", key)) {
			source, command, _ := strings.Cut(line, "] ")
			switch {
			case !strings.HasSuffix(source, " lua"):
				commands = append(commands, command)
			case !strings.HasPrefix(command, `"GET"`):
				writes = append(writes, command)
			}
		}
		return len(commands) >= atLeast
	})
	return commands, writes
}

// requireSpoken asserts the whole conversation with each server about a key, as regular
// expressions. The release ends with the grace for a waiter.
func requireSpoken(t *testing.T, monitors []*redistest.Monitor, key string, want []string, writes func(node int) []string) {
	t.Helper()
	for node, m := range monitors {
		commands, written := spoken(t, m, key, len(want))
		require.Len(t, commands, len(want), "node %d: %v", node, commands)
		for i := range want {
			assert.Regexp(t, "^"+want[i]+"$", commands[i], "node %d", node)
		}
		assert.Equal(t, writes(node), written, "node %d", node)
	}
}

// An attempt is one SET on each node, in the common form, an extension, a look and a release are
// one script or command each, and nothing else is sent about a lock. A release compares, and
// deletes only what is ours.
func TestEveryNodeIsSentOneCommandForEachCallAndNothingElse(t *testing.T) {
	t.Parallel()
	c, monitors := monitored(t)
	l := connected(t, c.URLs(), redlock.WithKeyPrefix("app:"), redlock.WithTTL(7*time.Second))
	const key = "app:orders/42"
	set := func(value string) string {
		return regexp.QuoteMeta(fmt.Sprintf(`"SET" %q %q "NX" "PX" "7000"`, key, value))
	}
	script := func(value, last string) string {
		return `"EVALSHA" "[0-9a-f]{40}" "1" "` + key + `" "` + regexp.QuoteMeta(value) + `" "` + last + `"`
	}
	deleted := `"DEL" "` + key + `" "redquorum:waits:` + key + `"`

	lock, err := l.TryLock(t.Context(), "orders/42", redlock.WithoutRenewal())
	require.NoError(t, err)
	require.NoError(t, lock.Extend(t.Context(), 20*time.Second))
	require.NoError(t, lock.Verify(t.Context()))
	look := `"(GET|EVALSHA)" .*"` + key + `".*`
	give(t, lock)
	requireSpoken(t, monitors, key, []string{set(lock.Value()), script(lock.Value(), "20000"), look, script(lock.Value(), "2000")},
		func(int) []string { return []string{`"PEXPIRE" "` + key + `" "20000"`, deleted} })
	cluster.RequireClean(t, c.Masters...)

	for _, m := range c.Masters[1:4] {
		do(t, m, "SET", key, "another's", "PX", longTTL.Milliseconds())
	}
	for _, m := range monitors {
		m.Sync()
		m.Clear()
	}
	_, err = l.TryLock(t.Context(), "orders/42", redlock.WithValue("ours"))
	require.ErrorIs(t, err, redlock.ErrTaken)
	requireSpoken(t, monitors, key, []string{set("ours"), script("ours", "2000")}, func(node int) []string {
		if slices.Contains([]int{1, 2, 3}, node) {
			return nil
		}
		return []string{deleted}
	})
	assert.Equal(t, []string{"", "another's", "another's", "another's", ""}, c.Holders(t, key))
}

// Servers that forgot the scripts are sent them again.
func TestScriptFlushCostsNothing(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	l := connected(t, c.URLs())
	flush := func(n int) {
		for _, m := range c.Masters[:n] {
			do(t, m, "SCRIPT", "FLUSH")
		}
	}
	for n := range 6 {
		lock := take(t, l, cluster.LockName(t))
		flush(n)
		require.NoError(t, lock.Extend(t.Context(), longTTL))
		flush(n)
		require.NoError(t, lock.Unlock(t.Context()), "%d nodes forgot the scripts", n)
		cluster.RequireClean(t, c.Masters...)
	}
}
