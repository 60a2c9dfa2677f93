//go:build unix

package run

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// A permanent error must not look like a lock that is taken for ever.
func TestWaitEndsWhenMastersAnswerOnlyWithErrors(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	var urls []string
	for _, m := range c.Masters {
		_, err := m.Do("ACL", "SETUSER", "narrow", "on", ">sesame", "~redquorum:*", "&*", "+@all")
		require.NoError(t, err)
		urls = append(urls, strings.Replace(m.URL(), "redis://", "redis://narrow:sesame@", 1))
	}
	for _, flags := range []string{"", "--quiet", "--permits 2"} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			status, stdout, stderr := clitest.Run(t, urls, line("x", flags, "echo", "no")...)
			assert.Equal(t, cli.ExitNoQuorum, status)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, "NOPERM")
			assert.Contains(t, stderr, c.Masters[2].Addr())
			assert.NotContains(t, stderr, "sesame")
		})
	}
}

// It may be the key of something else, under a name that was mistyped: no release is to come, and a
// cron job that takes it for a conflict would never run, and never say so.
func TestKeyThatCanBeNoLockIsNoConflict(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	for _, m := range c.Masters[1:] {
		_, err := m.Do("SET", "p:lasting", "v")
		require.NoError(t, err)
		_, err = m.Do("RPUSH", "p:list", "v")
		require.NoError(t, err)
	}
	for name, why := range map[string]string{
		"lasting": "redlock: the key \"p:lasting\" does not expire: it is no lock; use another name or --key-prefix\n",
		"list":    "redlock: the key \"p:list\" is no string: it is no lock; use another name or --key-prefix\n",
	} {
		for _, flags := range []string{
			"--no-wait --conflict-exit-code 0 --quiet", "--no-wait --shared", "--wait 2s --quiet", "--wait 1m --quiet", "--quiet",
		} {
			t.Run(name+" "+flags, func(t *testing.T) {
				t.Parallel()
				status, stdout, stderr := run(t, c.URLs(), line(name, "--key-prefix p: "+flags, "echo", "no")...)
				assert.Equal(t, cli.ExitMisnamed, status)
				assert.Empty(t, stdout)
				assert.Equal(t, why, stderr)
			})
		}
		t.Run(name+" as JSON", func(t *testing.T) {
			t.Parallel()
			says := `"waiting for lock \"` + name + `\", but the key \"p:` + name + `\" `
			_, _, stderr := runUntilItSays(t, regexp.MustCompile(regexp.QuoteMeta(says)), c.URLs(), line(name, "--key-prefix p: --json", "true")...)
			assert.Contains(t, stderr, `{"event":"misnamed","name":"`+name+`","message":"the key \"p:`+name+`\" `)
		})
	}
}

// One master is no quorum: the others will forget the key, or another permit is free.
func TestKeyThatCanBeNoLockOnAMinorityIsAConflict(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	for i, m := range c.Masters {
		for _, key := range []string{"x", "two#1", "one#1"} {
			_, err := m.Do("SET", key, "v")
			require.NoError(t, err)
		}
		if i > 0 {
			_, err := m.Do("PEXPIRE", "x", 60_000)
			require.NoError(t, err)
		}
	}
	status, _, stderr := run(t, c.URLs(), line("x", "--no-wait", "echo", "no")...)
	assert.Equal(t, cli.ExitTaken, status)
	assert.Equal(t, "redlock: lock \"x\" is taken\n", stderr)

	status, _, stderr = run(t, c.URLs(), line("two", "--permits 2 --no-wait", "true")...)
	assert.Zero(t, status, stderr)
	status, _, stderr = run(t, c.URLs(), line("one", "--permits 1 --no-wait", "true")...)
	assert.Equal(t, cli.ExitMisnamed, status)
	assert.Contains(t, stderr, `the key "one#1" does not expire`)
}

func TestTooFewMastersAreNeverQuiet(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	clitest.Admit(t, c.URLs()...)
	for _, m := range c.Masters[1:] {
		require.NoError(t, m.Kill())
	}
	for _, flags := range []string{"--wait 2s", "--no-wait --conflict-exit-code 0 --quiet"} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			status, stdout, stderr := clitest.Run(t, c.URLs(), line("x", flags, "echo", "no")...)
			assert.Equal(t, cli.ExitNoQuorum, status)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, "redlock: no quorum: 0 of 3 masters vote, 2 are needed\n")
			assert.Contains(t, stderr, c.Masters[1].Addr(), "which master, and why")
		})
	}
}

// The lock can be had, but the next master that fails is one too many.
func TestMastersWithoutAVoteAreNamed(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	urls := c.URLs()
	clitest.Admit(t, urls...)
	require.NoError(t, c.Masters[1].Restart())
	require.NoError(t, c.Masters[2].Stop())
	for seconds, why := range map[string]string{
		"0": "(quarantined for another .*|no answer yet)", // it had a moment only
		"2": "quarantined for another .*",
	} {
		t.Run(seconds+"s", func(t *testing.T) {
			t.Parallel()
			status, _, stderr := clitest.Run(t, urls, line("sleep "+seconds, "", "sleep", seconds)...)
			assert.Equal(t, 0, status)
			assert.Regexp(t, `redlock: no vote from 2 of 5 masters \(a quorum takes 3\): `+
				urls[1]+": "+why+"; "+urls[2]+": (no answer yet|it does not answer: connected, but not ready within 1s)", stderr)
		})
	}
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		c := cluster.Start(t, 3)
		clitest.Admit(t, c.URLs()...)
		require.NoError(t, c.Masters[1].Kill())
		status, _, stderr := run(t, c.URLs(), line("x", patient, "sleep", "1")...)
		assert.Equal(t, 0, status)
		assert.Equal(t, 1, strings.Count(stderr, "no vote from 1 of 3 masters (a quorum takes 2): "+c.Masters[1].URL()), stderr)
		assert.Empty(t, withoutVotes(stderr))
	})
}

// A cluster that nobody has used before: what "redlock run" needs, and what it says if something is
// missing.
func TestNewMastersVoteOnceAllAreThere(t *testing.T) {
	t.Parallel()
	c := cluster.StartYoung(t, 3)
	require.NoError(t, c.Masters[2].Kill())
	missing := c.Masters[2].URL()
	loud := clitest.Start(t, c.URLs(), line("x", "--wait 2s", "echo", "no")...)
	quiet := clitest.Start(t, c.URLs(), line("x", "--wait 2s --quiet", "echo", "no")...)
	json := clitest.Start(t, c.URLs(), line("x", "--wait 2s --quiet --json", "echo", "no")...)

	// A wait that is given ten minutes must not be silent for ten minutes.
	status, stderr := loud.End(t)
	assert.Equal(t, cli.ExitNoQuorum, status)
	first, _, _ := strings.Cut(stderr, "\n")
	assert.Contains(t, first, `redlock: waiting for lock "x": no quorum: 0 of 3 masters vote, 2 are needed; `)
	for _, m := range c.Masters {
		assert.Contains(t, first, m.Addr())
	}

	status, stderr = quiet.End(t)
	assert.Equal(t, cli.ExitNoQuorum, status)
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	require.Len(t, lines, 4, stderr)
	assert.Contains(t, lines[0], "redlock: no quorum: ")
	assert.Contains(t, lines[1], missing, "what to mend comes first")
	for _, m := range c.Masters[:2] {
		assert.Regexp(t, `(?m)^  `+m.URL()+`: quarantined: a new cluster begins when all of its masters are there, also `+missing+` `, stderr)
	}
	assert.Contains(t, stderr, "\n  "+missing+": dial tcp ")

	_, stderr = json.End(t)
	assert.Equal(t, 1, strings.Count(stderr, "\n"), "one object: %s", stderr)
	assert.NotContains(t, stderr, `\n`)
	assert.Contains(t, stderr, "; "+c.Masters[0].URL())

	require.NoError(t, c.Masters[2].Restart())
	status, _, stderr = run(t, c.URLs(), line("x", patient, "true")...)
	assert.Equal(t, 0, status, stderr)
}

func TestStrictRunOnNewMastersNeedsInit(t *testing.T) {
	t.Parallel()
	c := cluster.StartYoung(t, 3)
	status, _, stderr := clitest.Run(t, c.URLs(), line("x", "--quiet --strict --wait 2s", "true")...)
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.Equal(t, 3, strings.Count(stderr, "or at once after `redlock init`"), stderr)
	l := cluster.NewConnected(t, c.URLs(), redlock.WithQuarantine(redlock.QuarantineStrict))
	clitest.WaitFor(t, "a majority begins the cluster", func() bool { return admin.Of(l).Init(t.Context(), false) == nil })
	status, _, stderr = run(t, c.URLs(), line("x", patient+"--strict", "true")...)
	assert.Equal(t, 0, status, stderr)
}

// endAfter runs a command, makes masters fail once all of them have the lock, and returns what
// redlock says when the command has ended.
func endAfter(t *testing.T, c *cluster.Cluster, flags, status string, fail func()) string {
	t.Helper()
	r := clitest.Start(t, c.URLs(), line("x", patient+flags, "sh", "-c", "cat; exit "+status)...)
	require.Equal(t, "on", r.Ask(t, "on"))
	clitest.WaitFor(t, "all masters have the lock", func() bool { return !slices.Contains(c.Holders(t, "x"), "") })
	fail()
	require.NoError(t, r.CloseInput())
	got, stderr := r.End(t)
	assert.Equal(t, status, strconv.Itoa(got))
	return withoutVotes(stderr)
}

func TestMasterThatMissesTheReleaseIsNamedUnlessAllWentWell(t *testing.T) {
	t.Parallel()
	const stays = `the key of lock "x" may stay for up to 30s at `
	for name, r := range map[string]struct {
		flags, status string
		fail          func(cluster.Master) error
		says          string // before the master's URL
	}{
		"killed":  {"", "5", cluster.Master.Kill, "redlock: " + stays},
		"stopped": {"", "5", cluster.Master.Stop, "redlock: " + stays},
		// Cron would mail it after each run, although the next run gets the lock all the same.
		"went well": {"", "0", cluster.Master.Stop, ""},
		"verbose":   {"--verbose", "0", cluster.Master.Stop, stays},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c *cluster.Cluster
			var got string
			clitest.WaitFor(t, "a quorum confirms the release in time", func() bool {
				c = cluster.Start(t, 3)
				got = endAfter(t, c, r.flags, r.status, func() { require.NoError(t, r.fail(c.Masters[1])) })
				return !strings.Contains(got, "may stay for up to 30s: no quorum")
			})
			switch {
			case r.says == "":
				assert.Empty(t, got)
			case r.flags == "":
				assert.Equal(t, r.says+c.Masters[1].URL()+"\n", got)
			default:
				assert.Contains(t, got, r.says+c.Masters[1].URL())
			}
		})
	}
}

func TestMasterThatNeverHadTheKeyIsNotNamed(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	clitest.Admit(t, c.URLs()...)
	require.NoError(t, c.Masters[1].Kill())
	clitest.WaitFor(t, "a quorum confirms the release in time", func() bool {
		status, _, stderr := run(t, c.URLs(), line("x", patient, "sh", "-c", "exit 5")...)
		if strings.Contains(stderr, "may stay for up to 30s: no quorum") {
			return false
		}
		assert.Equal(t, 5, status)
		assert.Empty(t, withoutVotes(stderr))
		return true
	})
}

func TestAReleaseThatFailedIsNeverQuiet(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	stop := func() {
		require.NoError(t, c.Masters[0].Stop())
		require.NoError(t, c.Masters[1].Stop())
	}
	assert.Contains(t, endAfter(t, c, "--quiet", "0", stop), `lock "x" may stay for up to 30s: no quorum`)
}

// fullPipe returns the write end of a pipe that is full and that nobody reads.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, errors.Join(reader.Close(), writer.Close())) })
	for n := 0; n == 0; { // it may come to writing too late
		require.NoError(t, writer.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
		n, err = writer.Write(make([]byte, 1<<20))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	return writer
}

// brokenPipe returns the write end of a pipe whose reader is gone.
func brokenPipe(t *testing.T) *os.File {
	t.Helper()
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	t.Cleanup(func() { writer.Close() })
	return writer
}

// The log and the messages have to wait, the lock does not.
func TestStderrThatNobodyReadsDelaysNothingAndOneWhoseReaderIsGoneEndsNothing(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	hold(t, c.URLs(), "taken", "")
	for kind, pipe := range map[string]func(*testing.T) *os.File{"full": fullPipe, "broken": brokenPipe} {
		for i, r := range []struct {
			name, flags, command string
			want                 int
		}{
			{"", patient + "--verbose", "exit 5", 5},
			{"", patient + "--verbose --json", "exit 5", 5},
			{"taken", "--no-wait", "exit 5", cli.ExitTaken},
			{"", "--ttl 1s --max-hold 500ms", "sleep 60", cli.ExitLost},
			{"", "--nodes 127.0.0.1:1 --wait 100ms", "exit 5", cli.ExitNoQuorum},
		} {
			t.Run(kind+" "+r.flags, func(t *testing.T) {
				t.Parallel()
				name := cmp.Or(r.name, fmt.Sprint(kind, i))
				cmd := clitest.Command(c.URLs(), line(name, r.flags, "sh", "-c", r.command)...)
				cmd.Stderr = pipe(t)
				assert.Equal(t, r.want, child.Start(t, cmd).Wait(t))
				if r.want == 5 {
					release(t, hold(t, c.URLs(), name, "--no-wait"))
				}
			})
		}
	}
	// The signal ends the command itself, as it would without redlock.
	cmd := clitest.Command(c.URLs(), line("y", patient, "sh", "-c", "echo >&2; exit 1")...)
	cmd.Stderr = brokenPipe(t)
	assert.Equal(t, cli.ExitSignal+int(syscall.SIGPIPE), child.Start(t, cmd).Wait(t))
}
