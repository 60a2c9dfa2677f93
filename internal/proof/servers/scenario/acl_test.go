package scenario_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/internal/ledger"
	"github.com/redquorum/redquorum/internal/proof/docs"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// aclUser makes a user with the documented rule for another, and some more rules. It returns URLs
// for it.
func aclUser(t *testing.T, c *cluster.Cluster, documented, user, rules string) (urls []string) {
	t.Helper()
	args := redis.Args{"SETUSER", user}.AddFlat(docs.ACLRule(t, "../../../..", documented)).AddFlat(strings.Fields(rules))
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
	for _, m := range c.Masters {
		for term := range ledger.Kept {
			do(t, m, "ZADD", "redquorum:terms:app:full", term+1, fmt.Sprint(term+1, " past"))
		}
	}
	for user, row := range map[string]struct {
		rules, election string
		leads, sees     bool
	}{
		"all":             {"", "x", true, true},
		"no_key":          {"resetkeys ~app:* ~redquorum:[a-su-z]*", "x", false, false},
		"no_zadd":         {"-zadd", "x", false, false},
		"no_zcard":        {"-zcard", "x", false, false},
		"no_zrange":       {"-zrange", "x", true, false},
		"no_zpopmin":      {"-zpopmin", "x", true, true},
		"no_zpopmin_full": {"-zpopmin", "full", false, false},
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

// aclRow is a user without one right of the documented rule, and what that costs, which `redlock
// doctor` and docs/operations.md tell. What a row does not mention works.
type aclRow struct {
	rule string // what takes it from the user

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
	{rule: "-info", unidentified: true},
	{rule: "-config|get"},
	{rule: "-acl|dryrun"},
	{rule: "-client|id"},
	{rule: "-client|kill"},
	{rule: "-script|load"},
	{rule: "-subscribe", notWoken: true},
	{rule: "resetchannels", notWoken: true},
	{rule: "-publish", notWoken: true},
	{rule: "-zadd", notWoken: true, noReaders: true},
	{rule: "-zscore", notWoken: true, noReaders: true},
	{rule: "-zpopmin", notWoken: true},
	{rule: "-mget", noChoice: true},
	{rule: "-zrem", readersStay: true},
	{rule: "-zcard"},
	{rule: "-zrange", noReaders: true},
	{rule: "-pexpireat", noReaders: true},
	{rule: "-zremrangebyscore", noReaders: true},
	{rule: "resetkeys ~Test* ~redquorum:[a-q]* ~redquorum:[s-z]*", noReaders: true},
	{rule: "resetkeys ~Test* ~redquorum:[a-h]* ~redquorum:[j-z]*", noReaders: true},
	{rule: "-pubsub|numsub"},
	{rule: "-time", notWoken: true, notFenced: true, noReaders: true},
	{rule: "resetkeys ~Test* ~redquorum:[a-l]* ~redquorum:[n-z]*", markerless: true},
	{rule: "-pttl", timeless: true, notWoken: true},
	{rule: "-eval"},
}

func TestUsersWithoutARightGoWithoutWhatNeedsItAlone(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	for i, row := range aclRows {
		t.Run(strings.Trim(row.rule, "-"), func(t *testing.T) {
			t.Parallel()
			row.works(t, c, aclUser(t, c, "locks", fmt.Sprint("user", i), row.rule), cluster.LockName(t))
		})
	}
}

// works does everything that a user can do.
func (row *aclRow) works(t *testing.T, c *cluster.Cluster, urls []string, name string) {
	t.Helper()
	l := connected(t, urls)
	for _, node := range l.Stats().Nodes {
		assert.Equal(t, row.unidentified, node.Unidentified)
		assert.Equal(t, row.markerless, node.Memory == "", "memory %q", node.Memory)
	}
	renewed := renewTogether(t, urls, name)
	row.holdsSets(t, l, name)
	row.waits(t, c, l, connected(t, urls, row.patience()...), name)
	row.fences(t, l, name)
	row.adopts(t, l, name)
	row.retains(t, l, name+"m")
	row.chooses(t, l, name)
	row.shares(t, l, name+"r")
	renewed()
}

// renewTogether holds enough locks for their renewals to share a script, until the function that it
// returns has seen that each was renewed.
func renewTogether(t *testing.T, urls []string, name string) (renewed func()) {
	t.Helper()
	const locks, ttl = 8, 4 * time.Second
	l := cluster.NewConnected(t, urls, redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl/2))
	var held []*redlock.Lock
	for i := range locks {
		held = append(held, take(t, l, fmt.Sprint(name, "r", i)))
	}
	return func() {
		t.Helper()
		await(t, "all are renewed", func() bool { return l.Stats().Renewed >= locks })
		assert.Zero(t, l.Stats().Lost)
		for _, lock := range held {
			give(t, lock)
		}
	}
}

func (row *aclRow) holdsSets(t *testing.T, l *redlock.Locker, name string) {
	t.Helper()
	names := []string{name + "1", name + "2", name + "3"}
	set, err := l.TryLockAll(t.Context(), names)
	require.NoError(t, err)
	require.NoError(t, set.Extend(t.Context(), longTTL))
	require.NoError(t, set.Verify(t.Context()))
	give(t, set)
	set, err = l.LockAll(t.Context(), names)
	require.NoError(t, err)
	give(t, set)
}

// patience keeps a poll from coming before the message.
func (row *aclRow) patience() []redlock.Option {
	if row.notWoken {
		return nil
	}
	return []redlock.Option{redlock.WithRetry(aMinute, aMinute)}
}

// waits has one waiter that is handed the lock or finds it by polling, and then one that waits for
// a holder of another library.
func (row *aclRow) waits(t *testing.T, c *cluster.Cluster, holder, waiter *redlock.Locker, name string) {
	t.Helper()
	lock, err := holder.Lock(t.Context(), name)
	require.NoError(t, err)
	got := waiting(t, waiter, name)
	if !row.notWoken {
		await(t, "it has a place on a list", func() bool { return c.Waiting(t, name) > 0 })
	}
	give(t, lock)
	give(t, <-got)
	assert.Equal(t, row.notWoken, waiter.Stats().Woken == 0, "%+v", waiter.Stats())
	for _, m := range c.Masters {
		do(t, m, "SET", name, "of another library", "PX", 100)
	}
	lock, err = waiter.Lock(t.Context(), name)
	require.NoError(t, err)
	give(t, lock)
}

func (row *aclRow) fences(t *testing.T, l *redlock.Locker, name string) {
	t.Helper()
	// A waiter that may not leave its place may have been handed a vote, which lasts for a grace.
	free, err := l.Lock(t.Context(), name)
	require.NoError(t, err)
	give(t, free)
	lock, err := l.TryLock(t.Context(), name, redlock.WithFencing())
	if row.notFenced {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	assert.Positive(t, lock.Fence())
	give(t, lock)
}

func (row *aclRow) adopts(t *testing.T, l *redlock.Locker, name string) {
	t.Helper()
	lock := take(t, l, name)
	adopted, err := l.Adopt(t.Context(), name, lock.Value())
	if row.timeless {
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NoError(t, lock.Verify(t.Context()))
		bounded, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = l.Lock(bounded, name)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, redlock.ErrTaken)
		give(t, lock)
		return
	}
	require.NoError(t, err)
	give(t, adopted)
	_, err = admin.Of(l).Inspect(t.Context(), name)
	require.NoError(t, err)
	require.NoError(t, admin.Of(l).ForceUnlock(t.Context(), name))
}

// retains releases within a minimum hold. Every master keeps the key for the rest.
func (row *aclRow) retains(t *testing.T, l *redlock.Locker, name string) {
	t.Helper()
	const d = longTTL / 2
	lock := take(t, l, name, redlock.WithMinHold(d))
	require.NoError(t, lock.Extend(t.Context(), longTTL))
	give(t, lock)
	status, err := admin.Of(l).Inspect(t.Context(), name)
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
	got := inBackground(t, func() (*redlock.Lock, error) { return s.Acquire(t.Context()) })
	require.NoError(t, permit.Extend(t.Context(), longTTL))
	require.NoError(t, permit.Verify(t.Context()))
	await(t, "somebody waits", func() bool { return l.Stats().Waiting > 0 })
	give(t, permit)
	give(t, last)
	give(t, <-got)
	lock, err := l.LockAny(t.Context(), []string{name, name + "1"})
	require.NoError(t, err)
	give(t, lock)
}

// shares has two readers, and a writer that waits for them and keeps others out.
func (row *aclRow) shares(t *testing.T, l *redlock.Locker, name string) {
	t.Helper()
	ctx := t.Context()
	var opts []redlock.LockOption
	if !row.notFenced {
		opts = append(opts, redlock.WithFencing())
	}
	first, err := l.TryRLock(ctx, name, opts...)
	if row.noReaders {
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		lock, err := l.Lock(ctx, name)
		require.NoError(t, err, "what was undone keeps nobody out")
		give(t, lock)
		return
	}
	require.NoError(t, err)
	require.NoError(t, first.Extend(ctx, longTTL))
	require.NoError(t, first.Verify(ctx))
	if row.readersStay {
		require.Error(t, first.Unlock(ctx))
		_, err := l.TryLock(ctx, name)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, admin.Of(l).ForceUnlock(ctx, name))
		return
	}
	second, err := l.RLock(ctx, name, opts...)
	require.NoError(t, err)
	got := inBackground(t, func() (*redlock.Lock, error) { return l.Lock(ctx, name, opts...) })
	await(t, "the writer keeps readers out", func() bool {
		if row.timeless && l.Stats().Waiting > 0 {
			return true // readers come in as long as they like
		}
		lock, err := l.TryRLock(ctx, name)
		if err == nil {
			give(t, lock)
			return false
		}
		require.ErrorIs(t, err, redlock.ErrTaken)
		return true
	})
	give(t, first)
	give(t, second)
	writer := <-got
	require.NotNil(t, writer)
	if !row.notFenced {
		assert.Greater(t, writer.Fence(), max(first.Fence(), second.Fence()))
	}
	give(t, writer)
}
