package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// NewLocker returns a Locker that may not be connected yet. It is closed with the test.
func NewLocker(tb testing.TB, urls []string, opts ...redlock.Option) *redlock.Locker {
	tb.Helper()
	l, err := redlock.New(urls, opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		if err := l.Close(); !errors.Is(err, redlock.ErrUndelivered) { // masters may be away
			assert.NoError(tb, err)
		}
	})
	return l
}

// NewConnected returns a Locker that is connected to every node and knows which of them vote, so
// that what follows begins from a healthy state.
func NewConnected(tb testing.TB, urls []string, opts ...redlock.Option) *redlock.Locker {
	tb.Helper()
	l := NewLocker(tb, urls, opts...)
	RequireUp(tb, l, func(node redlock.NodeStats) bool {
		return !errors.Is(node.Barred, pool.ErrQuarantined) || node.QuarantinedFor > 0
	})
	return l
}

// RequireUp waits until all nodes are up, and ok.
func RequireUp(tb testing.TB, l *redlock.Locker, ok func(node redlock.NodeStats) bool) {
	tb.Helper()
	Eventually(tb, 10*time.Second, func() (missing string) {
		for _, node := range l.Stats().Nodes {
			if node.State != pool.Up || !ok(node) {
				missing += fmt.Sprintf("%s is %v: %v %v\n", node.Endpoint, node.State, node.Err, node.Barred)
			}
		}
		return missing
	})
}

// LockName makes a test's name that of its lock.
func LockName(tb testing.TB) string { return strings.ReplaceAll(tb.Name(), "/", ":") }

// Eventually waits until nothing is missing, and fails the test when the limit has passed. It
// returns how long it took.
func Eventually(tb testing.TB, limit time.Duration, missing func() string) time.Duration {
	tb.Helper()
	for began := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		looked := time.Since(began)
		what := missing()
		if what == "" {
			return looked
		}
		if looked > limit {
			tb.Errorf("not within %v: %s", limit, what)
			return looked
		}
	}
}
