package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/cmd/redlock/internal/top"
	"github.com/redquorum/redquorum/internal/proof/docs"
	"github.com/redquorum/redquorum/redlock"
)

// await waits until the list has locks that satisfy a condition.
func (f *fleet) await(what string, condition func([]survey.Inspection) bool, args ...string) (text string) {
	f.t.Helper()
	clitest.WaitFor(f.t, what, func() bool {
		_, list, all, _ := f.list(args...)
		text = all
		return condition(list.Locks)
	})
	return text
}

func namesIn(locks []survey.Inspection) (names []string) {
	for _, i := range locks {
		names = append(names, i.Name)
	}
	return names
}

func everywhere(locks []survey.Inspection) bool {
	for i := range locks {
		if locks[i].Holders() != 3 {
			return false
		}
	}
	return true
}

func TestListTellsOfEveryKindOfLock(t *testing.T) {
	t.Parallel()
	k := startKinds(t)
	k.set(3, "p:foreign", "somebody", "PX", 60_000)
	k.set(3, "other:x", "not behind the prefix", "PX", 60_000)
	k.set(3, "p:redquorum:doctor:x", "1", "PX", 60_000)
	_, list, text, _ := k.list()
	assert.Equal(t, []string{"e", "foreign", "r", "s", "z"}, namesIn(list.Locks), "sorted, and no key of ours that is no lock")
	assert.True(t, list.Complete)
	assert.Zero(t, list.LeftOut.Total())
	assert.Equal(t, k.term, list.Locks[0].Term)
	assert.Len(t, list.Locks[2].Readers, 2)
	assert.Len(t, list.Locks[3].Permits, 3)
	assert.Equal(t, k.lock.Value(), list.Locks[4].Value)
	for _, want := range []string{
		`NAME     KIND       STATE  HOLDER          HELD +LEFT +WAITING  MASTERS`,
		`e        election   held   leader          [0-9]+s +[0-9]+s +-        3 of 3`,
		`foreign  lock       held   somebody        - +[0-9]+s +-        3 of 3`,
		`r        shared     held   2 readers       [0-9]+s +[0-9]+s +-        3 of 3`,
		`s        semaphore  held   2 of 3 permits  [0-9]+s +[0-9]+s +-        3 of 3`,
		`z        lock       held   me\\x1b          [0-9]+s +[0-9]+s +-        3 of 3`,
		`5 locks: 5 held\. Waiting: 0\.`,
	} {
		assert.Regexp(t, "(?m)^"+want+"$", text)
	}
	assert.NotContains(t, text, k.lock.Value()[:8], "with the value, anyone could release the lock")

	callOff := k.queue(func(ctx context.Context) (*redlock.Lock, error) { return k.locker.Lock(ctx, "z") })
	text = k.await("a waiter", func(locks []survey.Inspection) bool { return len(locks) == 1 && locks[0].Waiting() == 1 }, "[x-z]*")
	assert.Contains(t, text, "1 lock: 1 held. Waiting: 1.")
	callOff()
}

func TestListTellsMajorityFromSplitAndLeftoverAndNamesMastersThatAreDown(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.set(3, "split", "one", "PX", 60_000)
	f.set(2, "split", "two", "PX", 60_000)
	f.set(1, "split", "three", "PX", 60_000)
	f.set(2, "held", fmt.Sprintf("ABC|@%d|two", time.Now().Unix()-7500), "PX", 60_000)
	f.set(1, "left", "one", "PX", 60_000)
	status, list, text, stderr := f.list()
	assert.Zero(t, status, stderr)
	assert.Equal(t, []string{"held", "left", "split"}, namesIn(list.Locks))
	assert.Regexp(t, `(?m)^held  +lock  +held  +two  +2h5m  +[0-9]+s  +-  +2 of 3$`, text)
	assert.Regexp(t, `(?m)^left  +lock  +free  +-  +-  +-  +-  +1 of 3$`, text)
	assert.Regexp(t, `(?m)^split  +lock  +split  +-  +-  +-  +-  +3 of 3$`, text)
	assert.Contains(t, text, "3 locks: 1 held, 1 split, 1 free. Waiting: 0.")

	_, list, text, _ = f.list("--owner", "t?*")
	assert.Equal(t, []string{"held"}, namesIn(list.Locks), text)
	_, list, _, _ = f.list("--owner", "t")
	assert.Empty(t, list.Locks, "the whole owner must match")

	f.kill(2)
	status, list, text, stderr = f.list("[hl]*")
	assert.Zero(t, status, stderr)
	assert.Equal(t, []string{"held", "left"}, namesIn(list.Locks))
	assert.True(t, list.Complete)
	assert.Contains(t, list.Nodes[2].Error, "refused")
	assert.Contains(t, text, f.servers[2].URL()+" was not listed: dial tcp "+f.servers[2].Addr())
	assert.Contains(t, text, "2 of 3 masters were listed in full: every lock that is held is there.")

	f.kill(1)
	status, list, text, stderr = f.list("[hl]*")
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.False(t, list.Complete)
	assert.Equal(t, []string{"held", "left"}, namesIn(list.Locks))
	assert.Contains(t, text, "2 locks: 2 unknown.")
	assert.Regexp(t, `(?m)^held  +lock  +unknown  +two\?  +2h5m  +[0-9]+s  +-  +1 of 3$`, text)
	assert.Contains(t, text, "WHO HOLDS 2 LOCKS IS UNKNOWN: 0 of 3 masters told what counts, 2 are needed.")
	assert.Contains(t, text, "What is marked with ? is probably held: a master has it (2).")
	_, list, _, _ = f.list("--owner", "two")
	assert.Equal(t, []string{"held"}, namesIn(list.Locks), "probably its own")
	assert.Contains(t, text, "LOCKS MAY BE MISSING: 0 of 3 masters were listed in full, 2 are needed.")
	assert.Contains(t, stderr, "too few masters answer: 1 of 3, 2 are needed")
}

func TestListSaysWhenABoundWasMet(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, s := range f.servers {
		_, err := s.Do("EVAL", "for i = 1, 3000 do redis.call('SET', 'l' .. i, i, 'PX', 60000) end", 0)
		require.NoError(t, err)
	}
	status, list, text, stderr := f.list("--limit", "10", "l1*")
	assert.Zero(t, status, stderr)
	assert.False(t, list.Complete)
	assert.NotEmpty(t, list.Locks)
	assert.Less(t, len(list.Locks), 1111, "there are so many")
	for _, n := range list.Nodes {
		assert.True(t, n.Bounded)
		assert.Contains(t, text, n.Endpoint+" may have more: stopped after about ")
	}
	assert.Contains(t, text, "LOCKS MAY BE MISSING: 0 of 3 masters were listed in full, 2 are needed.")
	_, list, _, _ = f.list("--scan", "2000", "l17") // all keys count, also those that do not match
	assert.Equal(t, 2100, list.Nodes[0].Keys)
	assert.True(t, list.Nodes[0].Bounded)
	_, list, text, _ = f.list("l1?")
	assert.True(t, list.Complete)
	assert.Len(t, list.Locks, 10)
	assert.Contains(t, text, "10 locks: 10 held.")
}

// The rule of a client with a prefix, and what docs/operations.md adds to it for list.
func TestListNeedsTheDocumentedRights(t *testing.T) {
	t.Parallel()
	f := start(t, redlock.WithKeyPrefix("app:"))
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	require.NoError(t, err)
	allow := func(words ...string) {
		for _, s := range f.servers {
			_, err := s.Do("ACL", redis.Args{"SETUSER", "app"}.AddFlat(words)...)
			require.NoError(t, err)
		}
	}
	allow(docs.ACLRule(t, root, "app")...)
	_, err = f.locker.TryLock(t.Context(), "x")
	require.NoError(t, err)
	f.flags[1] = strings.ReplaceAll(f.flags[1], "redis://", "redis://app:password@")
	for _, refused := range []string{"SCAN", "STRLEN"} {
		status, list, text, stderr := f.list("--key-prefix", "app:")
		assert.Equal(t, cli.ExitFailed, status)
		assert.Empty(t, list.Locks)
		assert.Contains(t, text, refused+" is refused: NOPERM")
		assert.Contains(t, stderr, "allow scan and strlen to it (docs/operations.md has the rule)")
		allow("+" + strings.ToLower(refused))
	}
	assert.Contains(t, string(page), "`redlock list` and `redlock top` need `+scan +strlen`")
	f.set(3, "other:x", "y", "PX", 60_000)
	status, list, printed, stderr := f.list("--key-prefix", "app:")
	assert.Zero(t, status, stderr)
	assert.Equal(t, []string{"x"}, namesIn(list.Locks), printed)
	_, list, printed, _ = f.list()
	assert.Equal(t, survey.LeftOut{Forbidden: 1}, list.LeftOut, "another client's")
	assert.Contains(t, printed, "1 key that the user may not read")
	assert.False(t, list.Complete, "it may be a lock")
	assert.Contains(t, printed, "LOCKS MAY BE MISSING: the user may not read 1 key.")
}

// watch returns a watcher of the masters.
func (f *fleet) watch() *watcher {
	f.t.Helper()
	var flags masters.Flags
	cmd := &cobra.Command{Use: "top"}
	cmd.SetContext(f.t.Context())
	flags.Add(cmd)
	require.NoError(f.t, cmd.ParseFlags(f.flags))
	operator, err := openToList(cmd, &flags, topTimeout)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { assert.NoError(f.t, operator.Close()) })
	return &watcher{operator: operator, query: admin.Query{Pattern: "*", Keys: 10_000, Locks: 100}, clock: clock.System()}
}

func statesOf(s *top.Snapshot) (states []string) {
	for _, m := range s.Masters {
		states = append(states, m.State)
	}
	return states
}

func TestTopLooksAtLocksAndMasters(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.set(3, "a", "one", "PX", 60_000)
	f.set(1, "b", "one", "PX", 60_000)
	_, err := f.locker.TryLock(t.Context(), "c")
	require.NoError(t, err)
	callOff := f.queue(func(ctx context.Context) (*redlock.Lock, error) { return f.locker.Lock(ctx, "c") })
	w := f.watch()
	var s top.Snapshot
	clitest.WaitFor(t, "a waiter", func() bool {
		s = w.look(t.Context(), "c")
		return len(s.Locks) == 1 && s.Locks[0].Waiting() == 1
	})
	assert.Empty(t, s.Masters, "it asks about the lock alone")
	s = w.look(t.Context(), "")
	assert.Equal(t, []string{"a", "b", "c"}, namesIn(s.Locks))
	assert.Contains(t, s.Count, "3 locks: 2 held, 1 free. Waiting: 1.")
	assert.Empty(t, s.Problem)
	assert.Empty(t, s.Notes)
	assert.Equal(t, []string{survey.MemberVotes, survey.MemberVotes, survey.MemberVotes}, statesOf(&s))
	for _, m := range s.Masters {
		assert.Positive(t, m.RoundTrip)
		assert.Positive(t, m.Clients)
		assert.GreaterOrEqual(t, m.Keys, int64(2), "redquorum:memory is one")
		assert.GreaterOrEqual(t, m.Commands, int64(0))
		assert.NotEqual(t, "-", m.Server)
	}
	callOff()

	for _, node := range []int{2, 1} {
		assert.Empty(t, s.Problem)
		assert.Empty(t, s.Notes, "every lock that is held is there")
		f.kill(node)
		clitest.WaitFor(t, "the loss of a master", func() bool {
			s = w.look(t.Context(), "")
			return s.Masters[node].State == survey.MemberDown
		})
		assert.NotEmpty(t, s.Masters[node].Why)
	}
	assert.Contains(t, s.Problem, "too few masters answer: 1 of 3, 2 are needed")
}

// tuned is a clock that the test sets.
type tuned struct{ at clock.Instant }

func (c *tuned) Now() clock.Instant { return c.at }
func (c *tuned) Wall() time.Time    { return time.Time{} }

func TestNewHoldersAreCountedFromLookToLook(t *testing.T) {
	source := &tuned{at: clock.Instant(time.Hour)}
	w := watcher{clock: clock.WithTimers(source)}
	held := func(values ...string) (locks []survey.Inspection) {
		for _, value := range values {
			locks = append(locks, survey.Inspection{Verdict: "held", Value: value})
		}
		return locks
	}
	assert.Empty(t, w.rate(held("a", "b")), "the first look has nothing to compare with")
	for _, c := range []struct {
		locks []survey.Inspection
		want  string
	}{
		{held("a", "b"), " New holders: at least 0.0/s."},
		{held("a", "c", "d", "e"), " New holders: at least 1.5/s."},
		{nil, " New holders: at least 0.0/s."},
		{[]survey.Inspection{
			{Verdict: "split", Value: "s"},
			{Verdict: "free", Permits: []survey.Holding{{Verdict: "held", Value: "p"}, {Verdict: "free"}}},
			{Verdict: "held", Value: "marker", Shared: true, Readers: []survey.Holding{{Verdict: "held", Value: "r"}, {Verdict: "split", Value: "q"}}},
		}, " New holders: at least 1.0/s."},
	} {
		source.at = source.at.Add(2 * time.Second)
		assert.Equal(t, c.want, w.rate(c.locks))
	}
}
