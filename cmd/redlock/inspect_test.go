package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/redlock"
)

// kinds is a fleet with a lock of each kind, behind a prefix, which all masters have.
type kinds struct {
	*fleet
	lock             *redlock.Lock
	semaphore        *redlock.Semaphore // of three
	permits, readers []*redlock.Lock    // two of each
	term             int64
	resign           func()
}

func startKinds(t *testing.T) *kinds {
	t.Helper()
	k := &kinds{fleet: start(t, redlock.WithOwner("me\x1b"), redlock.WithKeyPrefix("p:"), redlock.WithFencing())}
	k.flags = append(k.flags, "--key-prefix", "p:")
	var err error
	k.lock, err = k.locker.TryLock(t.Context(), "z")
	require.NoError(t, err)
	k.semaphore, err = k.locker.Semaphore("s", 3)
	require.NoError(t, err)
	for _, owner := range []string{"one", "two\x1b"} {
		permit, err := k.semaphore.TryAcquire(t.Context(), redlock.WithOwner(owner))
		require.NoError(t, err)
		reader, err := k.locker.TryRLock(t.Context(), "r", redlock.WithOwner(owner))
		require.NoError(t, err)
		k.permits, k.readers = append(k.permits, permit), append(k.readers, reader)
	}
	k.term, k.resign = k.lead("e", "leader")
	k.await("all locks on all masters", func(locks []survey.Inspection) bool { return len(locks) == 4 && everywhere(locks) })
	return k
}

func TestInspectTellsOfEveryKindOfLock(t *testing.T) {
	t.Parallel()
	k := startKinds(t)
	_, e, text := k.inspect("e")
	assert.Equal(t, []any{survey.KindElection, "held", "leader", k.term, k.term}, []any{e.Kind, e.Verdict, e.Owner, e.Term, e.NewestTerm})
	assert.Contains(t, text, fmt.Sprintf(`"e" is led by leader in term %d since `, k.term))

	_, r, shared := k.inspect("r")
	assert.Equal(t, []any{survey.KindLock, "held", 2}, []any{r.Kind, r.Verdict, len(r.Readers)})
	assert.Contains(t, shared, `"r" is shared by 2 readers: 3 of 3 masters`)

	// Of a semaphore's name there is no lock, and "free" would be wrong.
	_, s, text := k.inspect("s")
	assert.Equal(t, []any{survey.KindSemaphore, "free", 3}, []any{s.Kind, s.Verdict, len(s.Permits)}, "the lock of that name")
	assert.Contains(t, text, `"s" is a semaphore: 2 of 3 permits held.`)
	assert.NotContains(t, text, "is free")
	assert.NotContains(t, text, "Waiting: ")
	for i, owner := range []string{"one", "two\x1b"} {
		// With the value, anyone could release the lock.
		reader, permit, says := k.readers[i], k.permits[i], strings.Replace(owner, "\x1b", `\\x1b`, 1)
		assert.Regexp(t, fmt.Sprintf(`(?m)^%s… +%s +[0-9]+s +(?:1m0|[3-5][0-9.]+)s +- +3 of 3$`, reader.Value()[:8], says), shared)
		assert.Regexp(t, fmt.Sprintf(`(?m)^%s +%s +[0-9]+s +(?:1m0|[3-5][0-9.]+)s +%d +3 of 3$`, permit.Name(), says, permit.Fence()), text)
		at := slices.IndexFunc(r.Readers, func(h survey.Holding) bool { return h.Value == reader.Value() })
		h := r.Readers[at]
		assert.Equal(t, survey.Holding{
			Name: "r", Verdict: "held", Value: reader.Value(), Owner: owner, Tenure: h.Tenure, TTLMillis: h.TTLMillis, Masters: 3,
		}, h)
		assert.NotEmpty(t, h.Since)
		at = slices.IndexFunc(s.Permits, func(h survey.Holding) bool { return h.Value == permit.Value() })
		h = s.Permits[at]
		assert.Equal(t, survey.Holding{
			Name: permit.Name(), Verdict: "held", Value: permit.Value(), Owner: owner, Tenure: h.Tenure, TTLMillis: h.TTLMillis,
			Fence: permit.Fence(), Masters: 3,
		}, h)
		assert.NotEmpty(t, h.Since)
	}
	free := slices.IndexFunc(s.Permits, func(h survey.Holding) bool { return h.Verdict == "free" })
	assert.Equal(t, survey.Holding{Name: fmt.Sprint("s#", free+1), Verdict: "free"}, s.Permits[free])

	_, err := k.semaphore.TryAcquire(t.Context())
	require.NoError(t, err)
	callOff := k.queue(func(ctx context.Context) (*redlock.Lock, error) {
		return k.semaphore.Acquire(ctx, redlock.WithOwner("waiter"))
	})
	clitest.WaitFor(t, "a waiter", func() bool {
		_, s, text = k.inspect("s")
		return s.Waiting() > 0
	})
	assert.Equal(t, 1, s.Waiting())
	assert.Contains(t, text, `"s" is a semaphore: 3 of 3 permits held.`+"\nWaiting: waiter.\n")
	callOff()
}

func TestUnlockEndsOnePermitAndAllReadersAndATermEndsItself(t *testing.T) {
	t.Parallel()
	k := startKinds(t)
	status, stdout, stderr := k.line("unlock", "s", "--force", "--reason", "because")
	assert.Equal(t, cli.ExitUsage, status)
	assert.Contains(t, stdout, "2 of 3 permits held")
	assert.Contains(t, stderr, `"s" is a semaphore: give the name of one of its permits, such as "s#1"`)
	require.NoError(t, k.permits[1].Verify(t.Context()))
	status, stdout, stderr = k.line("unlock", k.permits[1].Name(), "--force", "--reason", "because")
	assert.Zero(t, status, stderr)
	assert.Contains(t, stdout, "Released")
	require.ErrorIs(t, k.permits[1].Verify(t.Context()), redlock.ErrLost)
	require.NoError(t, k.permits[0].Verify(t.Context()))
	status, stdout, stderr = k.line("unlock", "r", "--force", "--reason", "because")
	assert.Zero(t, status, stderr)
	assert.Contains(t, stdout, "was shared by 2 readers")
	for _, reader := range k.readers {
		require.ErrorIs(t, reader.Verify(t.Context()), redlock.ErrLost)
	}
	k.resign()
	clitest.WaitFor(t, "the end of the term", func() bool {
		_, e, _ := k.inspect("e")
		return e.Verdict == "free"
	})
	_, e, text := k.inspect("e")
	assert.Equal(t, []any{survey.KindElection, int64(0), k.term}, []any{e.Kind, e.Term, e.NewestTerm})
	assert.Contains(t, text, fmt.Sprintf("Nobody leads. The newest term on record is %d.", k.term))

	// Locks of these names are others.
	for _, name := range []string{"s", "r", "e"} {
		_, err := k.locker.TryLock(t.Context(), name, redlock.WithOwner(""))
		require.NoError(t, err)
	}
	_, _, text = k.inspect("s")
	assert.Contains(t, text, `"s" is held by somebody without a name`)
	assert.Contains(t, text, `"s" is a semaphore: 1 of 3 permits held.`)
	_, r, _ := k.inspect("r")
	assert.Empty(t, r.Readers)
	_, e, text = k.inspect("e")
	assert.Zero(t, e.Term)
	assert.Contains(t, text, "It is not elected, or not yet.")
}

func TestInspectTellsWhoHoldsALockAndWhoWaits(t *testing.T) {
	t.Parallel()
	f := start(t, redlock.WithOwner("me\x1b[2J"), redlock.WithKeyPrefix("p:"), redlock.WithFencing())
	f.flags = append(f.flags, "--key-prefix", "p:")
	status, i, text := f.inspect("x")
	assert.Equal(t, 0, status)
	assert.Equal(t, "free", i.Verdict)
	assert.Contains(t, text, `"x" is free.`)

	lock, err := f.locker.TryLock(t.Context(), "x")
	require.NoError(t, err)
	callOff := f.queue(func(ctx context.Context) (*redlock.Lock, error) { return f.locker.Lock(ctx, "x") })
	clitest.WaitFor(t, "a waiter", func() bool {
		status, i, text = f.inspect("x")
		return i.Waiting() == 1
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
	assert.Regexp(t, `"x" is held by me\\x1b\[2J since `+i.Since+`, for [0-9]+s: [23] of 3 masters have its value\.`, text)
	assert.NotContains(t, text, lock.Value()[:26], "with the value, anyone could release the lock")
	assert.NotContains(t, text, "\x1b")
	callOff()
	require.NoError(t, lock.Unlock(t.Context()))
	_, i, _ = f.inspect("x")
	assert.Zero(t, i.Waiting())

	f.set(2, "p:y", "two")
	f.set(1, "p:y", "one|a")
	status, i, text = f.inspect("y")
	assert.Equal(t, 0, status)
	assert.Equal(t, "split", i.Verdict)
	assert.Equal(t, int64(-1), i.Nodes[0].TTLMillis)
	assert.Contains(t, text, "for ever")

	f.kill(0, 1)
	status, i, text = f.inspect("y")
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.Equal(t, "unknown", i.Verdict)
	assert.Contains(t, i.Nodes[0].Error, "refused")
	assert.Contains(t, text, "unknown: fewer than 2 of 3 masters answered")
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

	status, stdout, stderr = f.line("unlock", "x", "--force", "--reason", "because")
	assert.Zero(t, status, stderr)
	assert.Contains(t, stdout, `"x" was held by me since `)
	assert.Contains(t, stdout, "Released")
	assert.Regexp(t, `Its holder, if there still is one, knows by 20[^ ]+Z, in [0-9ms]+: until then it may go on\.`, stdout)
	require.ErrorIs(t, lock.Verify(t.Context()), redlock.ErrLost)
	clitest.WaitFor(t, "the line of the holder", func() bool {
		status, stdout, stderr = f.line("log")
		return strings.Contains(stdout, "  lost ")
	})
	assert.Zero(t, status, stderr)
	program := regexp.QuoteMeta(filepath.Base(os.Args[0]))
	assert.Regexp(t, `(?m)^TIME +WHAT +LOCK +HOLDER +BY +WHY\n20[^ ]+Z +forced +x +me +[^ ]+@[^ ]+:[0-9]+ `+program+` +because\n`, stdout)
	assert.Regexp(t, `(?m)^20[^ ]+Z +lost +x +me +.* a quorum of nodes no longer has it: (verify|extend): 0 granted, [23] refused, 2 needed$`, stdout)
	_, stdout, _ = f.line("unlock", "x", "--force", "--reason", "because")
	assert.Contains(t, stdout, "\"x\" is free.\nNothing to release.\n")
	f.set(1, "x", "remnant", "PX", 60_000)
	_, stdout, _ = f.line("unlock", "x", "--force", "--reason", "because")
	assert.Contains(t, stdout, "\"x\" is free.\nNobody held it. What was left of it is deleted.\n")

	f.kill(0, 1)
	status, stdout, stderr = f.line("unlock", "x", "--force", "--reason", "because")
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.NotContains(t, stdout, "Released")
	assert.Contains(t, stderr, "no quorum")
}

// What does not expire, is too long or is no string, is somebody's data.
func TestAKeyThatCanBeNoLockIsToldAndKept(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.flags = append(f.flags, "--key-prefix", "p:")
	f.set(2, "p:data", "v")
	f.set(3, "p:both", "v", "PX", 60_000)
	f.set(1, "p:both", "v")
	f.set(2, "p:empty", "")
	f.set(2, "p:page", strings.Repeat("x", 1<<20), "PX", 60_000)
	f.set(3, "p:longest", strings.Repeat("v", 1024)+"|"+strings.Repeat("o", 256), "PX", 60_000)
	for _, s := range f.servers {
		_, err := s.Do("RPUSH", "p:list", "v")
		require.NoError(t, err)
	}
	status, list, text, stderr := f.list()
	assert.Zero(t, status, stderr)
	assert.Equal(t, []string{"both", "longest"}, namesIn(list.Locks), "a key that expires on any of the masters is listed")
	assert.Equal(t, survey.LeftOut{Lasting: 2, Large: 1, OtherType: 1}, list.LeftOut)
	assert.Contains(t, text, "Left out: 2 keys without a TTL, 1 key too large for a lock, 1 key of another type.")

	const ours = "it is no lock of ours. If it is yours, delete it with DEL\n"
	for name, why := range map[string]string{
		"data":  `redlock: "p:data" does not expire: ` + ours,
		"list":  `redlock: "p:list" is no string: ` + ours,
		"both":  `redlock: "p:both" does not expire on ` + f.servers[0].URL() + `: ` + ours,
		"empty": `redlock: "p:empty" does not expire: ` + ours,
	} {
		status, text, stderr = f.line("unlock", name, "--force", "--reason", "because")
		assert.Equal(t, cli.ExitFailed, status)
		assert.Empty(t, text)
		assert.Equal(t, why, stderr)
		kept, err := redis.Int(f.servers[0].Do("EXISTS", "p:"+name))
		require.NoError(t, err)
		assert.Equal(t, 1, kept, name)
	}
	status, text, stderr = f.line("inspect", "list")
	assert.Equal(t, cli.ExitMisnamed, status)
	assert.Empty(t, stderr, "it was said")
	assert.Contains(t, text, "the key \"p:list\" is no string: it is no lock; use another name or --key-prefix.\n")
	assert.NotRegexp(t, "WRONGTYPE|script", text)

	// An empty value keeps everybody out like any other.
	status, _, _ = f.line("run", "--name", "empty", "--no-wait", "go")
	assert.Equal(t, cli.ExitMisnamed, status)
	_, text, _ = f.line("inspect", "empty")
	for _, want := range []string{`"empty" is held by `, "for ever", "It does not expire, so it is no lock: use another name or --key-prefix."} {
		assert.Contains(t, text, want)
	}
}
