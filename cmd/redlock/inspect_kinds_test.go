package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/redlock"
)

// asked are masters, and a Locker that has connected to all of them.
type asked struct {
	t      *testing.T
	nodes  string
	locker *redlock.Locker
}

func startAsked(t *testing.T, opts ...redlock.Option) *asked {
	t.Helper()
	_, urls := clitest.StartServers(t, 3)
	return &asked{t, strings.Join(urls, ","), openAll(t, urls, opts...)}
}

// openAll returns a Locker that has connected to all masters, and waits for each of them.
func openAll(t *testing.T, urls []string, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	opts = append([]redlock.Option{redlock.WithTTL(time.Minute), redlock.WithNodeTimeout(10 * time.Second)}, opts...)
	l, err := redlock.New(urls, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	clitest.WaitFor(t, "the votes of all masters", func() bool {
		for _, n := range l.Stats().Nodes {
			if n.Barred != nil || n.RunID == "" {
				return false
			}
		}
		return true
	})
	return l
}

// inspect returns what inspect tells of a name, as JSON and then as text.
func (a *asked) inspect(name string) (i inspection, text string) {
	a.t.Helper()
	status, encoded, stderr := line("inspect", "--nodes", a.nodes, name, "--json")
	require.Zero(a.t, status, stderr)
	require.NoError(a.t, json.Unmarshal([]byte(encoded), &i), encoded)
	status, text, stderr = line("inspect", "--nodes", a.nodes, name)
	require.Zero(a.t, status, stderr)
	return i, text
}

// Of a semaphore's name there is no lock, and "free" would be wrong.
func TestInspectTellsWhoHasWhichPermitAndWhoWaits(t *testing.T) {
	t.Parallel()
	a := startAsked(t, redlock.WithOwner("holder\x1b"), redlock.WithFencing())
	s, err := a.locker.Semaphore("s", 2)
	require.NoError(t, err)
	first, err := s.TryAcquire(t.Context())
	require.NoError(t, err)
	clitest.WaitFor(t, "the permit at all masters", func() bool {
		i, _ := a.inspect(first.Name())
		return i.holding() == 3
	})
	i, text := a.inspect("s")
	assert.Equal(t, kindSemaphore, i.Kind)
	assert.Equal(t, "free", i.Verdict, "the lock of that name")
	require.Len(t, i.Permits, 2)
	for at, p := range i.Permits {
		assert.Equal(t, fmt.Sprint("s#", at+1), p.Name)
		if p.Name != first.Name() {
			assert.Equal(t, holding{Name: p.Name, Verdict: "free"}, p)
			continue
		}
		assert.Equal(t, "held", p.Verdict)
		assert.Equal(t, first.Value(), p.Value)
		assert.Equal(t, first.Fence(), p.Fence)
		assert.Equal(t, 3, p.Masters)
		assert.InDelta(t, time.Minute.Milliseconds(), p.TTLMillis, 30_000)
	}
	assert.Contains(t, text, `"s" is a semaphore: 1 of 2 permits held.`)
	assert.NotContains(t, text, "is free")
	assert.NotContains(t, text, "Waiting: ")
	assert.Regexp(t, `(?m)^PERMIT +OWNER +TTL +FENCE +MASTERS\n`+first.Name()+` +holder\\x1b +.*s +[0-9]+ +3 of 3$`, text)

	second, err := s.TryAcquire(t.Context())
	require.NoError(t, err)
	waiting, stop := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := s.Acquire(waiting, redlock.WithOwner("waiter"))
		waited <- err
	}()
	clitest.WaitFor(t, "a waiter", func() bool {
		i, text = a.inspect("s")
		return i.waiting() > 0
	})
	assert.Equal(t, 1, i.waiting())
	assert.Contains(t, text, `"s" is a semaphore: 2 of 2 permits held.`+"\nWaiting: waiter.\n")
	stop()
	require.ErrorIs(t, <-waited, context.Canceled)

	status, stdout, stderr := line("unlock", "--nodes", a.nodes, "s", "--force")
	assert.Equal(t, cli.ExitUsage, status)
	assert.Contains(t, stdout, "2 of 2 permits held")
	assert.Contains(t, stderr, `"s" is a semaphore: give the name of one of its permits, such as "s#1"`)
	require.NoError(t, second.Verify(t.Context()))
	status, stdout, stderr = line("unlock", "--nodes", a.nodes, second.Name(), "--force")
	assert.Zero(t, status, stderr)
	assert.Contains(t, stdout, "Released")
	require.ErrorIs(t, second.Verify(t.Context()), redlock.ErrLost)
	require.NoError(t, first.Verify(t.Context()))

	lock, err := a.locker.TryLock(t.Context(), "s")
	require.NoError(t, err)
	_, text = a.inspect("s")
	assert.Contains(t, text, `"s" is held by holder`, "a lock of the same name is another one")
	assert.Contains(t, text, `"s" is a semaphore: 1 of 2 permits held.`)
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestInspectTellsWhoLeadsInWhichTerm(t *testing.T) {
	t.Parallel()
	a := startAsked(t)
	e, err := election.New(a.locker, "e", election.WithID("leader 1"))
	require.NoError(t, err)
	led, over := make(chan int64), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- e.Run(t.Context(), func(_ context.Context, term int64) error {
			led <- term
			<-over
			return nil
		})
	}()
	term := <-led
	i, text := a.inspect("e")
	assert.Equal(t, kindElection, i.Kind)
	assert.Equal(t, "held", i.Verdict)
	assert.Equal(t, "leader 1", i.Owner)
	assert.Equal(t, term, i.Term)
	assert.Equal(t, term, i.NewestTerm)
	assert.Contains(t, text, fmt.Sprintf(`"e" is led by leader 1 in term %d: `, term))
	close(over)
	require.NoError(t, <-done)

	clitest.WaitFor(t, "the end of the term", func() bool {
		i, text = a.inspect("e")
		return i.Verdict == "free"
	})
	assert.Equal(t, kindElection, i.Kind)
	assert.Zero(t, i.Term)
	assert.Equal(t, term, i.NewestTerm)
	assert.Contains(t, text, fmt.Sprintf("Nobody leads. The newest term on record is %d.", term))

	lock, err := a.locker.TryLock(t.Context(), "e")
	require.NoError(t, err)
	i, text = a.inspect("e")
	assert.Zero(t, i.Term)
	assert.Contains(t, text, `"e" is held by somebody without a name`)
	assert.Contains(t, text, "It is not elected, or not yet.")
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestInspectTellsWhoReadsAndUnlockEndsAllReaders(t *testing.T) {
	t.Parallel()
	a := startAsked(t)
	var readers []*redlock.Lock
	for _, owner := range []string{"one", "two\x1b"} {
		lock, err := a.locker.TryRLock(t.Context(), "r", redlock.WithOwner(owner))
		require.NoError(t, err)
		readers = append(readers, lock)
	}
	var i inspection
	var text string
	clitest.WaitFor(t, "both at all masters", func() bool {
		i, text = a.inspect("r")
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

	status, stdout, stderr := line("unlock", "--nodes", a.nodes, "r", "--force")
	assert.Zero(t, status, stderr)
	assert.Contains(t, stdout, "was shared by 2 readers")
	for _, lock := range readers {
		require.ErrorIs(t, lock.Verify(t.Context()), redlock.ErrLost)
	}
	writer, err := a.locker.TryLock(t.Context(), "r")
	require.NoError(t, err)
	i, _ = a.inspect("r")
	assert.Empty(t, i.Readers)
	require.NoError(t, writer.Unlock(t.Context()))
}

func TestKeysThatAreNoLocksAreSaidToBeWhatTheyAre(t *testing.T) {
	for name, says := range map[string]string{
		"redquorum:terms:x":         `"redquorum:terms:x" is no lock, but the newest terms of the election "x"`,
		"redquorum:permits:a:b":     `the number of permits of the semaphore "a:b"`,
		"redquorum:permit:wait:x":   `the wait list of the semaphore "x"`,
		"redquorum:readers:x":       `the readers of the shared lock "x"`,
		"redquorum:intent:x":        `a writer waits for the readers of the lock "x"`,
		"redquorum:memory":          "do not delete it",
		"redquorum:something:else:": "reserved",
	} {
		for _, command := range []string{"inspect", "unlock --force"} {
			args := append(strings.Fields(command), "--nodes", "redis://127.0.0.1:1", name)
			status, _, stderr := line(args...)
			assert.Equal(t, cli.ExitUsage, status, name)
			assert.Contains(t, stderr, says)
		}
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
