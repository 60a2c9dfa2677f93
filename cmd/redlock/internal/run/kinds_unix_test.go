//go:build unix

package run

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
)

// Votes split among many that ask at once must not leave the lock to nobody.
func TestAsManyAtOnceRunTheirCommandsAsTheNameAllows(t *testing.T) {
	t.Parallel()
	const contenders = 12
	c := cluster.Start(t, 5)
	for flags, names := range map[string][]string{"": {"s"}, "--permits 3": {"s#1", "s#2", "s#3"}} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			var all []*clitest.Redlock
			for range contenders {
				all = append(all, clitest.Start(t, c.URLs(), line("s", flags+" --no-wait", "sh", "-c", "echo $REDLOCK_NAME; cat")...))
			}
			clitest.WaitFor(t, "the others end", func() bool {
				running := slices.DeleteFunc(slices.Clone(all), func(r *clitest.Redlock) bool { return !r.Running() })
				return len(running) <= len(names)
			})
			var ran []string
			for _, r := range all {
				if r.Running() {
					ran = append(ran, r.Next(t))
					release(t, r)
					continue
				}
				status, stderr := r.End(t)
				assert.Equal(t, cli.ExitTaken, status, stderr)
			}
			assert.ElementsMatch(t, names, ran)
		})
	}
}

// The same without chance: two clients hold two masters each, as they may for a moment when many
// ask at once.
func TestNoWaitDoesNotTakeSplitVotesForAHolder(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	set := func(name string, ttl int, values ...string) {
		for i, value := range values {
			_, err := c.Masters[i].Do("SET", name, value, "PX", ttl)
			require.NoError(t, err)
		}
	}
	set("x", 500, "one", "one", "two", "two")
	set("for long", 600_000, "one", "one", "two", "two")
	status, stdout, stderr := run(t, c.URLs(), line("x", "--no-wait", "echo", "ran")...)
	assert.Equal(t, 0, status, stderr)
	assert.Equal(t, "ran\n", stdout)
	set("x", 60_000, "one", "one", "one")
	status, _, stderr = run(t, c.URLs(), line("x", "--no-wait", "echo", "no")...)
	assert.Equal(t, cli.ExitTaken, status, stderr)
	status, _, stderr = run(t, c.URLs(), line("for long", "--no-wait", "echo", "no")...)
	assert.Equal(t, cli.ExitTaken, status, stderr)
}

// That the minimum hold ends is in TestTwoMachinesWhoseClocksDifferKeepToTheMinimumHold.
func TestAtLeastKeepsTheLockTakenHoweverTheCommandEnds(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	for command, want := range map[string]int{
		"exit 0": 0, "exit 3": 3, "kill -KILL $$": 137, "kill -KILL $PPID": -1, // redlock itself
	} {
		const flags = "--ttl 5s --at-least 50s --no-wait"
		status, _, stderr := run(t, c.URLs(), line(command, flags, "sh", "-c", command)...)
		assert.Equal(t, want, status, stderr)
		assert.Empty(t, withoutVotes(stderr))
		status, _, _ = run(t, c.URLs(), line(command, flags, "true")...)
		assert.Equal(t, cli.ExitTaken, status, command)
		state := inspect(t, c.URLs(), command)
		assert.NotEmpty(t, state.Value)
		for _, node := range state.Nodes {
			assert.LessOrEqual(t, node.TTL, 50*time.Second, command)
			if node.Value != "" { // the third may not have been asked before the end
				assert.Greater(t, node.TTL, 5*time.Second, "%s: the TTL", command)
			}
		}
	}
}

// Readers and writers wait as run does, and whoever came first runs first.
func TestCommandsThatShareALockRunAtOnceAndNoneBesideAWriter(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	refused := func(flags, says string) {
		t.Helper()
		status, _, stderr := runUntilItSays(t, regexp.MustCompile(regexp.QuoteMeta(says)), c.URLs(), line("x", flags, "true")...)
		assert.Equal(t, cli.ExitTaken, status, stderr)
	}
	one := clitest.Start(t, c.URLs(), line("x", patient+"--shared --fence", "sh", "-c", "echo $REDLOCK_FENCE; cat")...)
	assert.Regexp(t, "^[0-9]{16}$", one.Next(t))
	two := hold(t, c.URLs(), "x", "--shared --no-wait")
	refused("--no-wait", `lock "x" is taken by readers`)
	release(t, one)
	refused("--no-wait", `lock "x" is taken by readers`)

	writer := clitest.Start(t, c.URLs(), line("x", patient+"--owner writer", "cat")...)
	require.NoError(t, writer.Tell("writes"))
	locker := cluster.NewConnected(t, c.URLs())
	clitest.WaitFor(t, "new readers are kept out", func() bool {
		lock, err := locker.TryRLock(t.Context(), "x")
		if err == nil {
			assert.NoError(t, lock.Unlock(t.Context()))
		}
		return err != nil
	})
	refused("--shared --no-wait", `lock "x" is shared, and a writer waits for it`)
	began := time.Now()
	refused("--shared --wait 2s", "and was for the last 2s")
	assert.GreaterOrEqual(t, time.Since(began), 2*time.Second)
	assert.Empty(t, writer.Lines(), "it runs beside a reader")
	release(t, two)
	assert.Equal(t, "writes", writer.Next(t))
	refused("--shared --no-wait", `lock "x" is taken by "writer"`)
	release(t, writer)
	release(t, hold(t, c.URLs(), "x", "--shared --no-wait"))
}
