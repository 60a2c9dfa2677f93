package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/redlock"
)

func TestInspectTellsWhoHoldsALockAndWhoWaits(t *testing.T) {
	t.Parallel()
	f := start(t, redlock.WithOwner("me\x1b[2J"), redlock.WithKeyPrefix("p:"), redlock.WithFencing())
	status, i, text := f.inspect("x")
	assert.Equal(t, 0, status)
	assert.Equal(t, "free", i.Verdict)
	assert.Contains(t, text, `"x" is free.`)

	lock, err := f.locker.TryLock(t.Context(), "x")
	require.NoError(t, err)
	callOff := f.queue(func(ctx context.Context) (*redlock.Lock, error) { return f.locker.Lock(ctx, "x") })
	clitest.WaitFor(t, "a waiter", func() bool {
		status, i, text = f.inspect("x", "--key-prefix", "p:")
		return i.waiting() == 1
	})
	assert.Equal(t, 0, status)
	assert.Equal(t, "held", i.Verdict)
	assert.Equal(t, lock.Value(), i.Value)
	assert.Equal(t, "me\x1b[2J", i.Owner)
	for _, node := range i.Nodes {
		if node.Value != "" { // the lock may not have waited for one of them
			assert.Equal(t, lock.Fence(), node.Fence)
			assert.InDelta(t, time.Minute.Milliseconds(), node.TTLMillis, 30_000)
		}
	}
	assert.Regexp(t, `"x" is held by me\\x1b\[2J: [23] of 3 masters have its value\.`, text)
	assert.Regexp(t, `^MASTER +VALUE +OWNER +TTL +FENCE +WAITING\n`, text)
	assert.NotContains(t, text, lock.Value()[:26], "with the value, anyone could release the lock")
	assert.NotContains(t, text, "\x1b")
	callOff()
	require.NoError(t, lock.Unlock(t.Context()))
	_, i, _ = f.inspect("x", "--key-prefix", "p:")
	assert.Zero(t, i.waiting())

	f.set(2, "y", "two")
	f.set(1, "y", "one|a")
	status, i, text = f.inspect("y")
	assert.Equal(t, 0, status)
	assert.Equal(t, "split", i.Verdict)
	assert.Equal(t, int64(-1), i.Nodes[0].TTLMillis)
	assert.Contains(t, text, "for ever")
	assert.Regexp(t, `^MASTER +VALUE +OWNER +TTL\n`, text, "the others would be empty")

	f.kill(0, 1)
	status, i, text = f.inspect("y")
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.Equal(t, "unknown", i.Verdict)
	assert.Contains(t, i.Nodes[0].Error, "refused")
	assert.Contains(t, text, "unknown: fewer than 2 of 3 masters answered")
	assert.Regexp(t, `^MASTER +VALUE +OWNER +TTL +ERROR\n`, text)
}

// Of a semaphore's name there is no lock, and "free" would be wrong.
func TestInspectTellsWhoHasWhichPermitAndWhoWaits(t *testing.T) {
	t.Parallel()
	f := start(t, redlock.WithOwner("holder\x1b"), redlock.WithFencing())
	s, err := f.locker.Semaphore("s", 2)
	require.NoError(t, err)
	first, err := s.TryAcquire(t.Context())
	require.NoError(t, err)
	clitest.WaitFor(t, "the permit at all masters", func() bool {
		_, i, _ := f.inspect(first.Name())
		return i.holding() == 3
	})
	_, i, text := f.inspect("s")
	assert.Equal(t, kindSemaphore, i.Kind)
	assert.Equal(t, "free", i.Verdict, "the lock of that name")
	require.Len(t, i.Permits, 2)
	for at, p := range i.Permits {
		want := holding{Name: fmt.Sprint("s#", at+1), Verdict: "free"}
		if p.Name == first.Name() {
			assert.InDelta(t, time.Minute.Milliseconds(), p.TTLMillis, 30_000)
			want = holding{p.Name, "held", first.Value(), "holder\x1b", p.TTLMillis, first.Fence(), 3}
		}
		assert.Equal(t, want, p)
	}
	assert.Contains(t, text, `"s" is a semaphore: 1 of 2 permits held.`)
	assert.NotContains(t, text, "is free")
	assert.NotContains(t, text, "Waiting: ")
	assert.Regexp(t, `(?m)^PERMIT +OWNER +TTL +FENCE +MASTERS\n`+first.Name()+` +holder\\x1b +.*s +[0-9]+ +3 of 3$`, text)

	second, err := s.TryAcquire(t.Context())
	require.NoError(t, err)
	callOff := f.queue(func(ctx context.Context) (*redlock.Lock, error) { return s.Acquire(ctx, redlock.WithOwner("waiter")) })
	clitest.WaitFor(t, "a waiter", func() bool {
		_, i, text = f.inspect("s")
		return i.waiting() > 0
	})
	assert.Equal(t, 1, i.waiting())
	assert.Contains(t, text, `"s" is a semaphore: 2 of 2 permits held.`+"\nWaiting: waiter.\n")
	callOff()

	status, stdout, stderr := f.line("unlock", "s", "--force")
	assert.Equal(t, cli.ExitUsage, status)
	assert.Contains(t, stdout, "2 of 2 permits held")
	assert.Contains(t, stderr, `"s" is a semaphore: give the name of one of its permits, such as "s#1"`)
	require.NoError(t, second.Verify(t.Context()))
	status, stdout, stderr = f.line("unlock", second.Name(), "--force")
	assert.Zero(t, status, stderr)
	assert.Contains(t, stdout, "Released")
	require.ErrorIs(t, second.Verify(t.Context()), redlock.ErrLost)
	require.NoError(t, first.Verify(t.Context()))

	_, err = f.locker.TryLock(t.Context(), "s")
	require.NoError(t, err)
	_, _, text = f.inspect("s")
	assert.Contains(t, text, `"s" is held by holder`, "a lock of the same name is another one")
	assert.Contains(t, text, `"s" is a semaphore: 1 of 2 permits held.`)
}

func TestInspectTellsWhoLeadsInWhichTerm(t *testing.T) {
	t.Parallel()
	f := start(t)
	term, resign := f.lead("e", "leader 1")
	_, i, text := f.inspect("e")
	assert.Equal(t, kindElection, i.Kind)
	assert.Equal(t, "held", i.Verdict)
	assert.Equal(t, "leader 1", i.Owner)
	assert.Equal(t, []int64{term, term}, []int64{i.Term, i.NewestTerm})
	assert.Contains(t, text, fmt.Sprintf(`"e" is led by leader 1 in term %d: `, term))
	resign()

	clitest.WaitFor(t, "the end of the term", func() bool {
		_, i, text = f.inspect("e")
		return i.Verdict == "free"
	})
	assert.Equal(t, kindElection, i.Kind)
	assert.Equal(t, []int64{0, term}, []int64{i.Term, i.NewestTerm})
	assert.Contains(t, text, fmt.Sprintf("Nobody leads. The newest term on record is %d.", term))

	_, err := f.locker.TryLock(t.Context(), "e")
	require.NoError(t, err)
	_, i, text = f.inspect("e")
	assert.Zero(t, i.Term)
	assert.Contains(t, text, `"e" is held by somebody without a name`)
	assert.Contains(t, text, "It is not elected, or not yet.")
}

func TestInspectTellsWhoReadsAndUnlockEndsAllReaders(t *testing.T) {
	t.Parallel()
	f := start(t)
	var readers []*redlock.Lock
	for _, owner := range []string{"one", "two\x1b"} {
		lock, err := f.locker.TryRLock(t.Context(), "r", redlock.WithOwner(owner))
		require.NoError(t, err)
		readers = append(readers, lock)
	}
	var i inspection
	var text string
	clitest.WaitFor(t, "both at all masters", func() bool {
		_, i, text = f.inspect("r")
		return len(i.Readers) == 2 && i.Readers[0].Masters+i.Readers[1].Masters == 6
	})
	assert.Equal(t, kindLock, i.Kind)
	assert.Equal(t, "held", i.Verdict)
	owners := map[string]string{}
	for _, r := range i.Readers {
		owners[r.Value] = r.Owner
		assert.Equal(t, "held", r.Verdict)
		assert.InDelta(t, time.Minute.Milliseconds(), r.TTLMillis, 30_000)
		assert.NotContains(t, text, r.Value[:26], "with the value, anyone could release the lock")
	}
	assert.Equal(t, map[string]string{readers[0].Value(): "one", readers[1].Value(): "two\x1b"}, owners)
	assert.Contains(t, text, `"r" is shared by 2 readers: 3 of 3 masters`)
	assert.Regexp(t, `(?m)^[A-Z2-7]{8}… +two\\x1b +.*s +- +3 of 3$`, text)

	status, stdout, stderr := f.line("unlock", "r", "--force")
	assert.Zero(t, status, stderr)
	assert.Contains(t, stdout, "was shared by 2 readers")
	for _, lock := range readers {
		require.ErrorIs(t, lock.Verify(t.Context()), redlock.ErrLost)
	}
	_, err := f.locker.TryLock(t.Context(), "r")
	require.NoError(t, err)
	_, i, _ = f.inspect("r")
	assert.Empty(t, i.Readers)
}

func TestUnlockDeletesALockWhoeverHoldsIt(t *testing.T) {
	t.Parallel()
	f := start(t, redlock.WithOwner("me"))
	lock, err := f.locker.TryLock(t.Context(), "x")
	require.NoError(t, err)
	status, stdout, stderr := f.line("unlock", "x")
	assert.Equal(t, cli.ExitUsage, status)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "its holder may be at work")
	require.NoError(t, lock.Verify(t.Context()), "without --force, nothing was done")

	status, stdout, stderr = f.line("unlock", "x", "--force")
	assert.Zero(t, status, stderr)
	assert.Contains(t, stdout, `"x" was held by me: `)
	assert.Contains(t, stdout, "Released")
	require.ErrorIs(t, lock.Verify(t.Context()), redlock.ErrLost)
	_, stdout, _ = f.line("unlock", "x", "--force")
	assert.Contains(t, stdout, "\"x\" is free.\nNothing to release.\n")
	f.set(1, "x", "remnant", "PX", 60_000)
	_, stdout, _ = f.line("unlock", "x", "--force")
	assert.Contains(t, stdout, "\"x\" is free.\nNobody held it. What was left of it is deleted.\n")

	f.kill(0, 1)
	status, stdout, stderr = f.line("unlock", "x", "--force")
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.NotContains(t, stdout, "Released")
	assert.Contains(t, stderr, "no quorum")
}

// What does not expire, or is no string, is somebody's data.
func TestAKeyThatCanBeNoLockIsToldAndKept(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.set(2, "p:data", "v")
	f.set(3, "p:both", "v", "PX", 60_000)
	f.set(1, "p:both", "v")
	f.set(2, "p:empty", "")
	for _, s := range f.servers {
		_, err := s.Do("RPUSH", "p:list", "v")
		require.NoError(t, err)
	}
	const ours = "it is no lock of ours. If it is yours, delete it with DEL\n"
	for name, why := range map[string]string{
		"data":  `redlock: "p:data" does not expire: ` + ours,
		"list":  `redlock: "p:list" is no string: ` + ours,
		"both":  `redlock: "p:both" does not expire on ` + f.servers[0].URL() + `: ` + ours,
		"empty": `redlock: "p:empty" does not expire: ` + ours,
	} {
		status, stdout, stderr := f.line("unlock", "--key-prefix", "p:", name, "--force")
		assert.Equal(t, cli.ExitFailed, status)
		assert.Empty(t, stdout)
		assert.Equal(t, why, stderr)
		kept, err := redis.Int(f.servers[0].Do("EXISTS", "p:"+name))
		require.NoError(t, err)
		assert.Equal(t, 1, kept, name)
	}
	status, stdout, stderr := f.line("inspect", "--key-prefix", "p:", "list")
	assert.Equal(t, cli.ExitMisnamed, status)
	assert.Empty(t, stderr, "it was said")
	assert.Contains(t, stdout, "the key \"p:list\" is no string: it is no lock; use another name or --key-prefix.\n")
	assert.NotContains(t, stdout, "WRONGTYPE")
	assert.NotContains(t, stdout, "script")

	// An empty value keeps everybody out like any other.
	status, _, _ = f.line("run", "--key-prefix", "p:", "--name", "empty", "--no-wait", "go")
	assert.Equal(t, cli.ExitMisnamed, status)
	_, stdout, _ = f.line("inspect", "--key-prefix", "p:", "empty")
	for _, want := range []string{`"empty" is held by `, "for ever", "It does not expire, so it is no lock: use another name or --key-prefix."} {
		assert.Contains(t, stdout, want)
	}
}

func TestOfAValueOnlyTheBeginningIsShown(t *testing.T) {
	for value, want := range map[string]string{"": "", "short": "short", "12345678": "12345678", "123456789": "12345678…", "ab|owner": "ab", "\n": `\n`} {
		assert.Equal(t, want, shortened(value))
	}
}

// Two of three masters have a value for so long; it ends with the shorter of the longest two.
func TestATTLIsThatOfAMajority(t *testing.T) {
	for _, c := range []struct {
		left []time.Duration
		want int64
	}{
		{nil, 0},
		{[]time.Duration{time.Second}, 0},
		{[]time.Duration{time.Second, 3 * time.Second, 2 * time.Second}, 2000},
		{[]time.Duration{-1, time.Second}, 1000},
		{[]time.Duration{-1, time.Second, -time.Second}, -1},
	} {
		assert.Equal(t, c.want, millisOf(c.left, 2))
	}
}
