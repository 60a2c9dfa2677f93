package scenario_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// aclRow is a user without one right of the documented rule, and what the table in
// docs/operations.md says about it. What a row does not mention works.
type aclRow struct {
	without string // as the table names it
	rule    string // what takes it from the user

	unidentified bool // servers do not tell who they are
	notWoken     bool // waiters are not handed the lock
	notFenced    bool // no fencing
	markerless   bool // the memory marker is not read
	noChoice     bool // no semaphores, and no LockAny
	noReaders    bool // nobody reads
	readersStay  bool // readers end with their TTL, not before
	timeless     bool // nobody is told how long a key lives
}

var aclRows = []aclRow{
	{without: "nothing"},
	{without: "`info`", rule: "-info", unidentified: true},
	{without: "`config\\|get`", rule: "-config|get"},
	{without: "`client\\|id`", rule: "-client|id"},
	{without: "`client\\|kill`", rule: "-client|kill"},
	{without: "`script\\|load`", rule: "-script|load"},
	{without: "`subscribe`", rule: "-subscribe", notWoken: true},
	{without: "the channels", rule: "resetchannels", notWoken: true},
	{without: "`publish`", rule: "-publish", notWoken: true},
	{without: "`zadd`", rule: "-zadd", notWoken: true, noReaders: true},
	{without: "`zscore`", rule: "-zscore", notWoken: true, noReaders: true},
	{without: "`zpopmin`", rule: "-zpopmin", notWoken: true},
	{without: "`mget`", rule: "-mget", noChoice: true},
	{without: "`zrem`", rule: "-zrem", readersStay: true},
	{without: "`zcard`", rule: "-zcard"},
	{without: "`zrange`", rule: "-zrange", noReaders: true},
	{without: "`pexpireat`", rule: "-pexpireat", noReaders: true},
	{without: "`zremrangebyscore`", rule: "-zremrangebyscore", noReaders: true},
	{without: "`redquorum:readers:*`", rule: "resetkeys ~TestWhat* ~redquorum:[a-q]* ~redquorum:[s-z]*", noReaders: true},
	{without: "`redquorum:intent:*`", rule: "resetkeys ~TestWhat* ~redquorum:[a-h]* ~redquorum:[j-z]*", noReaders: true},
	{without: "`pubsub\\|numsub`", rule: "-pubsub|numsub"},
	{without: "`time`", rule: "-time", notWoken: true, notFenced: true, noReaders: true},
	{without: "the key `redquorum:memory`", rule: "resetkeys ~TestWhat* ~redquorum:[a-l]* ~redquorum:[n-z]*", markerless: true},
	{without: "`pttl`", rule: "-pttl", timeless: true, notWoken: true},
	{without: "`eval`", rule: "-eval"},
}

// aclUser makes a user with the documented rule but without one right, and returns URLs for it.
func aclUser(t *testing.T, c *cluster.Cluster, user, rule string) (urls []string) {
	t.Helper()
	args := documentedACL(t, "locks")
	args[1] = user
	for word := range strings.FieldsSeq(rule) {
		args = append(args, word)
	}
	for _, m := range c.Masters {
		do(t, m, "ACL", args...)
		urls = append(urls, "redis://"+user+":password@"+m.Addr())
	}
	return urls
}

func TestWhatACLUsersLackIsWhatTheTableSays(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	documented, err := os.ReadFile("../../../../docs/operations.md")
	require.NoError(t, err)
	for i, row := range aclRows {
		if row.rule != "" {
			assert.Contains(t, string(documented), row.without, "no row for it")
		}
		t.Run(strings.Trim(row.rule, "-"), func(t *testing.T) {
			t.Parallel()
			urls := aclUser(t, c, fmt.Sprint("user", i), row.rule)
			l := cluster.NewConnected(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
			for _, node := range l.Stats().Nodes {
				assert.Equal(t, row.unidentified, node.Unidentified)
				assert.Equal(t, row.markerless, node.Memory == "", "memory %q", node.Memory)
			}
			name := cluster.LockName(t)
			row.worksWith(t, c, l, urls, name)
		})
	}
}

// worksWith does everything that a user can do.
func (row *aclRow) worksWith(t *testing.T, c *cluster.Cluster, l *redlock.Locker, urls []string, name string) {
	t.Helper()
	row.holdsSets(t, l, name)
	row.renewsTogether(t, urls, name)
	row.waits(t, c, urls, name)
	row.fences(t, l, name)
	row.adopts(t, l, name)
	row.retains(t, l, name+"m")
	row.chooses(t, l, name)
	row.shares(t, l, name+"r")
}

// retains releases within a minimum hold. Every master keeps the key for the rest.
func (row *aclRow) retains(t *testing.T, l *redlock.Locker, name string) {
	t.Helper()
	const d = longTTL / 2
	lock, err := l.TryLock(t.Context(), name, redlock.WithMinHold(d))
	require.NoError(t, err)
	require.NoError(t, lock.Extend(t.Context(), longTTL))
	require.NoError(t, lock.Unlock(t.Context()))
	status, err := l.Inspect(t.Context(), name)
	if row.timeless {
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		return
	}
	require.NoError(t, err)
	assert.Equal(t, lock.Value(), status.Value)
	kept := 0
	for _, node := range status.Nodes {
		if node.Value == lock.Value() && node.TTL <= d {
			kept++
		}
	}
	assert.GreaterOrEqual(t, kept, status.Quorum)
}

// chooses takes all permits of a semaphore, and one of several names.
func (row *aclRow) chooses(t *testing.T, l *redlock.Locker, name string) {
	t.Helper()
	s, err := l.Semaphore(name+"s", 2)
	require.NoError(t, err)
	permit, err := s.TryAcquire(t.Context())
	if row.noChoice {
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		_, err = l.TryLockAny(t.Context(), []string{name, name + "1"})
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		return
	}
	require.NoError(t, err)
	last, err := s.Acquire(t.Context())
	require.NoError(t, err)
	waited := make(chan error, 1)
	go func() {
		next, err := s.Acquire(t.Context())
		if err == nil {
			err = next.Unlock(t.Context())
		}
		waited <- err
	}()
	require.NoError(t, permit.Extend(t.Context(), longTTL))
	require.NoError(t, permit.Verify(t.Context()))
	cluster.Eventually(t, slack, func() string {
		if l.Stats().Waiting == 0 {
			return "somebody waits"
		}
		return ""
	})
	require.NoError(t, permit.Unlock(t.Context()))
	require.NoError(t, last.Unlock(t.Context()))
	require.NoError(t, <-waited)
	lock, err := l.LockAny(t.Context(), []string{name, name + "1"})
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
}

func (row *aclRow) holdsSets(t *testing.T, l *redlock.Locker, name string) {
	t.Helper()
	names := []string{name + "1", name + "2", name + "3"}
	set, err := l.TryLockAll(t.Context(), names)
	require.NoError(t, err)
	require.NoError(t, set.Extend(t.Context(), longTTL))
	require.NoError(t, set.Verify(t.Context()))
	require.NoError(t, set.Unlock(t.Context()))
	set, err = l.LockAll(t.Context(), names)
	require.NoError(t, err)
	require.NoError(t, set.Unlock(t.Context()))
}

// renewsTogether holds enough locks for their renewals to share a script, until each was renewed.
func (row *aclRow) renewsTogether(t *testing.T, urls []string, name string) {
	t.Helper()
	const locks, renewed = 8, 4 * time.Second
	l := cluster.NewConnected(t, urls, redlock.WithTTL(renewed), redlock.WithNodeTimeout(renewed/2))
	for i := range locks {
		lock, err := l.TryLock(t.Context(), fmt.Sprint(name, "r", i))
		require.NoError(t, err)
		defer func() { assert.NoError(t, lock.Unlock(t.Context())) }()
	}
	cluster.Eventually(t, renewed/2+slack, func() string {
		if n := l.Stats().Renewed; n < locks {
			return fmt.Sprintf("%d renewals, not %d", n, locks)
		}
		return ""
	})
	assert.Zero(t, l.Stats().Lost)
}

// waits has one waiter that is handed the lock or finds it by polling, and then one that waits for
// a holder of another library.
func (row *aclRow) waits(t *testing.T, c *cluster.Cluster, urls []string, name string) {
	t.Helper()
	holder := cluster.NewConnected(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
	opts := []redlock.Option{redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience)}
	if !row.notWoken { // a poll may come before the message
		opts = append(opts, redlock.WithRetry(4*slack, 4*slack))
	}
	waiter := cluster.NewConnected(t, urls, opts...)
	lock, err := holder.Lock(t.Context(), name)
	require.NoError(t, err)
	got := make(chan *redlock.Lock, 1)
	wait := func() {
		lock, err := waiter.Lock(t.Context(), name)
		assert.NoError(t, err)
		got <- lock
	}
	go wait()
	cluster.Eventually(t, slack, func() string {
		if waiter.Stats().Waiting == 0 || (!row.notWoken && c.Waiting(t, name) == 0) {
			return "somebody waits"
		}
		return ""
	})
	require.NoError(t, lock.Unlock(t.Context()))
	lock = <-got
	require.NotNil(t, lock)
	assert.Equal(t, row.notWoken, waiter.Stats().Woken == 0, "%+v", waiter.Stats())
	require.NoError(t, lock.Unlock(t.Context()))
	for _, m := range c.Masters {
		do(t, m, "SET", name, "of another library", "PX", 100)
	}
	go wait()
	lock = <-got
	require.NotNil(t, lock)
	require.NoError(t, lock.Unlock(t.Context()))
}

func (row *aclRow) fences(t *testing.T, l *redlock.Locker, name string) {
	t.Helper()
	// A waiter that may not leave its place may have been handed a vote, which lasts for a grace.
	free, err := l.Lock(t.Context(), name)
	require.NoError(t, err)
	require.NoError(t, free.Unlock(t.Context()))
	lock, err := l.TryLock(t.Context(), name, redlock.WithFencing())
	if row.notFenced {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	assert.Positive(t, lock.Fence())
	require.NoError(t, lock.Unlock(t.Context()))
}

func (row *aclRow) adopts(t *testing.T, l *redlock.Locker, name string) {
	t.Helper()
	lock, err := l.TryLock(t.Context(), name)
	require.NoError(t, err)
	adopted, err := l.Adopt(t.Context(), name, lock.Value())
	if row.timeless {
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NoError(t, lock.Verify(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = l.Lock(ctx, name)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, lock.Unlock(t.Context()))
		return
	}
	require.NoError(t, err)
	require.NoError(t, adopted.Unlock(t.Context()))
	_, err = l.Inspect(t.Context(), name)
	require.NoError(t, err)
	require.NoError(t, l.ForceUnlock(t.Context(), name))
}

// Two teams share the masters, each with a key prefix and a user of its own.
func TestDocumentedACLOfAPrefixIsEnoughAndReachesNobodyElse(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	var urls []string
	for _, m := range c.Masters {
		do(t, m, "ACL", documentedACL(t, "app")...)
		urls = append(urls, "redis://app:password@"+m.Addr())
	}
	row := aclRow{without: "nothing"}
	// A name that begins with the prefix has the same key as its rest with WithKeyPrefix.
	row.worksWith(t, c, cluster.NewConnected(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience)), urls, "app:"+cluster.LockName(t))
	for i, m := range c.Masters {
		denied, err := redis.Values(m.Do("ACL", "LOG"))
		require.NoError(t, err)
		for _, entry := range denied {
			// The note of an adoption, which is deleted like a lock. Nobody waits for it.
			assert.Contains(t, fmt.Sprintf("%s", entry), ":redquorum:adopt:app:", "it was denied")
		}
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
			there, err := m.Do("EXISTS", key)
			require.NoError(t, err)
			require.Zero(t, there, key)
		}
	}
}
