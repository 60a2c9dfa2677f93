package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
				// Both expire after the lock.
				return strings.HasPrefix(key, "redquorum:others:") || strings.HasPrefix(key, "redquorum:permits:")
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
	Eventually(tb, 10*time.Second, func() string {
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
