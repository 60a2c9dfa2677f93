package scenario_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/internal/ledger"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// documentedACL returns the rule for a user in docs/operations.md, as the arguments of ACL.
func documentedACL(t *testing.T, user string) (args []any) {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/operations.md")
	require.NoError(t, err)
	_, rule, found := strings.Cut(string(text), "```\nACL SETUSER "+user+" ")
	require.True(t, found, "the rule has gone from docs/operations.md")
	rule, _, _ = strings.Cut(rule, "```")
	args = append(args, "SETUSER", user)
	for word := range strings.FieldsSeq(rule) {
		args = append(args, word)
	}
	return args
}

// aclUser makes a user with the documented rule for another, and some more rules. It returns URLs
// for it.
func aclUser(t *testing.T, c *cluster.Cluster, documented, user, rules string) (urls []string) {
	t.Helper()
	args := documentedACL(t, documented)
	args[1] = user
	for word := range strings.FieldsSeq(rules) {
		args = append(args, word)
	}
	for _, m := range c.Masters {
		do(t, m, "ACL", args...)
		urls = append(urls, "redis://"+user+":password@"+m.Addr())
	}
	return urls
}

// requireNothingDenied asserts that the server has logged no denial, but of keys that contain this.
func requireNothingDenied(t *testing.T, m cluster.Master, but string) {
	t.Helper()
	denied, err := redis.Values(m.Do("ACL", "LOG"))
	require.NoError(t, err)
	for _, entry := range denied {
		text := fmt.Sprintf("%s", entry)
		assert.True(t, but != "" && strings.Contains(text, but), "it was denied: %s", text)
	}
}

// A user with the documented rule can do everything, and learns who the servers are.
func TestDocumentedACLIsEnough(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	urls, name := aclUser(t, c, "locks", "locks", "on"), cluster.LockName(t)
	(&aclRow{}).works(t, c, urls, name)
	l := connected(t, urls)
	for _, m := range c.Masters { // a broken connection is killed at the server, without a NOPERM
		do(t, m, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
	lock, err := l.Lock(t.Context(), name+"f", redlock.WithFencing())
	require.NoError(t, err)
	give(t, lock)
	for _, m := range c.Masters {
		requireNothingDenied(t, m, "")
	}
}

// Two teams share the masters, each with a key prefix and a user of its own.
func TestDocumentedACLOfAPrefixIsEnoughAndReachesNobodyElse(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	urls := aclUser(t, c, "app", "app", "")
	// A name that begins with the prefix has the same key as its rest with WithKeyPrefix.
	(&aclRow{}).works(t, c, urls, "app:"+cluster.LockName(t))
	for i, m := range c.Masters {
		// The note of an adoption, which is deleted like a lock. Nobody waits for it.
		requireNothingDenied(t, m, ":redquorum:adopt:app:")
		conn, err := redis.DialURL(urls[i])
		require.NoError(t, err)
		defer conn.Close()
		for _, key := range []string{
			"other:x", "appx", "redquorum:fence:other:x", "redquorum:fence:other:app:x", "redquorum:wait:other:x",
			"redquorum:waits:other:x", "redquorum:adopt:other:x", "redquorum:others:other:x", "redquorum:readers:other:x",
			"redquorum:intent:other:x",
		} {
			_, err = conn.Do("GET", key)
			require.ErrorContains(t, err, "NOPERM", key)
			_, err = conn.Do("EVAL", "return redis.call('SET', ARGV[1], 'x')", 0, key)
			require.Error(t, err, key)
			there, err := redis.Int(m.Do("EXISTS", key))
			require.NoError(t, err)
			require.Zero(t, there, key)
		}
	}
}

// A user with a prefix leads if it may record its terms. Without one of the rights for that it does
// not lead, and Run says so; without ZRANGE nobody leads, for all that it knows, and ZPOPMIN is
// needed once the record is full.
func TestWhatACLUsersNeedForElections(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	const terms = "~redquorum:terms:app:* "
	for _, m := range c.Masters {
		for term := range ledger.Kept {
			do(t, m, "ZADD", "redquorum:terms:app:full", term+1, fmt.Sprint(term+1, " past"))
		}
	}
	for user, row := range map[string]struct {
		rules, election string
		leads, sees     bool
	}{
		"all":             {terms, "x", true, true},
		"no_key":          {"", "x", false, false},
		"no_zadd":         {terms + "-zadd", "x", false, false},
		"no_zcard":        {terms + "-zcard", "x", false, false},
		"no_zrange":       {terms + "-zrange", "x", true, false},
		"no_zpopmin":      {terms + "-zpopmin", "x", true, true},
		"no_zpopmin_full": {terms + "-zpopmin", "full", false, false},
	} {
		urls := aclUser(t, c, "app", user, row.rules)
		prefix := redlock.WithKeyPrefix("app:")
		candidate, err := election.New(connected(t, urls, prefix), row.election, election.WithID(user))
		require.NoError(t, err)
		watcher, err := election.New(connected(t, urls, prefix), row.election)
		require.NoError(t, err)
		led := false
		err = candidate.Run(t.Context(), func(ctx context.Context, _ int64) error {
			led = true
			leader, err := watcher.Leader(ctx)
			require.NoError(t, err, user)
			assert.Equal(t, row.sees, leader.ID == user, user)
			return nil
		})
		assert.Equal(t, row.leads, led, user)
		if row.leads {
			require.NoError(t, err, user)
		} else {
			require.ErrorIs(t, err, redlock.ErrNoQuorum, user)
			assert.ErrorContains(t, err, "record", user)
		}
	}
}
