package cluster

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/pipeline"
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
		return !errors.Is(node.Barred, pipeline.ErrQuarantined) || node.QuarantinedFor > 0
	})
	return l
}

// RequireUp waits until all nodes are up, and ok.
func RequireUp(tb testing.TB, l *redlock.Locker, ok func(node redlock.NodeStats) bool) {
	tb.Helper()
	Eventually(tb, time.Minute, func() (missing string) {
		for _, node := range l.Stats().Nodes {
			if node.State != pipeline.Up || !ok(node) {
				missing += fmt.Sprintf("%s is %v: %v %v\n", node.Endpoint, node.State, node.Err, node.Barred)
			}
		}
		return missing
	})
}

// LockName makes a test's name that of its lock.
func LockName(tb testing.TB) string { return strings.ReplaceAll(tb.Name(), "/", ":") }

// To look costs a connection to each master, and many tests wait at once. So a pause is as long as
// the wait so far, but for a factor: the wait is hardly longer for it.
const (
	shortestPoll = 2 * time.Millisecond
	longestPoll  = 50 * time.Millisecond
	pollShare    = 16
)

// Eventually waits until nothing is missing, and fails the test when the limit has passed. It
// returns how long it took.
func Eventually(tb testing.TB, limit time.Duration, missing func() string) time.Duration {
	tb.Helper()
	for began := time.Now(); ; {
		looked := time.Since(began)
		what := missing()
		if what == "" {
			return looked
		}
		if looked > limit {
			tb.Errorf("not within %v: %s", limit, what)
			return looked
		}
		time.Sleep(min(max(looked/pollShare, shortestPoll), longestPoll))
	}
}

// CleanWithin bounds how long a key of a finished attempt may live once its node can be reached. It
// is shorter than the default TTL: a key that goes within it was released and did not expire.
const CleanWithin = 8 * time.Second

// RequireClean waits until none of the masters has a key, and logs how long it took.
func RequireClean(tb testing.TB, masters ...Master) {
	tb.Helper()
	took := Eventually(tb, CleanWithin, func() (left string) {
		for i, m := range masters {
			keys, err := m.Keys()
			keys = slices.DeleteFunc(keys, func(key string) bool {
				// They expire after the lock.
				return strings.HasPrefix(key, "redquorum:others:") || strings.HasPrefix(key, "redquorum:permits:") || strings.HasPrefix(key, "redquorum:log")
			})
			if err != nil {
				left += fmt.Sprintf("\nnode %d (%s): %v", i, m.Addr(), err)
			} else if len(keys) > 0 {
				left += fmt.Sprintf("\nnode %d (%s) still has %d keys: %.200q", i, m.Addr(), len(keys), keys)
			}
		}
		return left
	})
	if tb.Failed() {
		tb.FailNow()
	}
	tb.Logf("no key left after %v", took.Round(time.Millisecond))
}

// Holder returns what a master holds under a key, by a raw GET: "" for nothing.
func Holder(tb testing.TB, m Master, key string) string {
	tb.Helper()
	reply, err := m.Do("GET", key)
	assert.NoError(tb, err)
	value, ok := reply.([]byte)
	assert.True(tb, ok || reply == nil, "%T", reply)
	return string(value)
}

// Holders returns what each master holds under a key: "" for nothing.
func (c *Cluster) Holders(tb testing.TB, key string) (values []string) {
	tb.Helper()
	for _, m := range c.Masters {
		values = append(values, Holder(tb, m, key))
	}
	return values
}

// Holding returns on how many masters a key has a value.
func (c *Cluster) Holding(tb testing.TB, key, value string) (n int) {
	tb.Helper()
	return len(slices.DeleteFunc(c.Holders(tb, key), func(held string) bool { return held != value }))
}

// AwaitHeldEverywhere waits until every master has the value under the key.
func (c *Cluster) AwaitHeldEverywhere(tb testing.TB, key, value string) {
	tb.Helper()
	Eventually(tb, time.Minute, func() string {
		if got := c.Holders(tb, key); c.Holding(tb, key, value) != len(c.Masters) {
			return fmt.Sprintf("%q on every node, there is %q", value, got)
		}
		return ""
	})
}

// Waiting returns how many waiters a name has, on all nodes together.
func (c *Cluster) Waiting(tb testing.TB, name string) (sum int) {
	tb.Helper()
	for _, m := range c.Masters {
		n, err := m.Do("ZCARD", "redquorum:wait:"+name)
		require.NoError(tb, err)
		sum += int(n.(int64))
	}
	return sum
}

// Main runs the tests of a package. It fails the package if a goroutine of the library remains:
// every test closes its Lockers.
func Main(m *testing.M) {
	code := m.Run()
	left := libraryGoroutines()
	for deadline := time.Now().Add(time.Minute); left != "" && time.Now().Before(deadline); left = libraryGoroutines() {
		time.Sleep(5 * time.Millisecond)
	}
	if left != "" && code == 0 {
		fmt.Fprintf(os.Stderr, "goroutines of the library are left:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// libraryGoroutines returns the stacks of the goroutines that run a function of the library, or
// were started by one.
func libraryGoroutines() string {
	buf := make([]byte, 16<<20) // some thousand stacks; more are left out
	buf = buf[:runtime.Stack(buf, true)]
	var left []string
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		for _, library := range []string{"redlock", "election", "pool", "internal/pipeline"} {
			if strings.Contains(stack, "redquorum/redquorum/"+library+".") {
				left = append(left, stack)
				break
			}
		}
	}
	return strings.Join(left, "\n\n")
}
