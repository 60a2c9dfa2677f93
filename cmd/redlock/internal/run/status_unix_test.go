//go:build unix

package run

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
)

func TestStatusIsThatOfTheCommand(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	require.NoError(t, os.WriteFile(script, []byte("#!/nonexistent/interpreter\n"), 0o600))
	broken := filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(broken, []byte("#!/nonexistent/interpreter\n"), 0o700))
	for i, r := range []struct {
		command []string
		want    int
		says    string
	}{
		{[]string{"true"}, 0, ""},
		{[]string{"sh", "-c", "exit 3"}, 3, ""},
		{[]string{"sh", "-c", "exit 255"}, 255, ""},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143, ""},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137, ""},
		{[]string{"redlock-test-no-such-command"}, cli.ExitNotFound, "not found in $PATH\n"},
		{[]string{"--quiet", "redlock-test-no-such-command"}, cli.ExitNotFound, "not found"},
		{[]string{"echo ran"}, cli.ExitNotFound, "not found in $PATH; for a shell line: sh -c '…'\n"},
		{[]string{"./no/such/file"}, cli.ExitNotFound, "no such file"},
		{[]string{dir}, cli.ExitNotExecutable, "is a directory"},
		{[]string{script}, cli.ExitNotExecutable, "permission denied"},
		{[]string{broken}, cli.ExitNotExecutable, "cannot run"},
		{[]string{"--owner", strings.Repeat("x", 257), "true"}, cli.ExitUsage, "owner has 257 bytes"},
	} {
		t.Run(fmt.Sprint(r.command), func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprint("x", i) // on a busy machine one could wait for a release, and say so
			var status int
			var stdout, stderr string
			clitest.WaitFor(t, "a quorum confirms the release in time", func() bool {
				status, stdout, stderr = run(t, c.URLs(), append([]string{"run", "--name", name}, r.command...)...)
				stderr = withoutVotes(stderr)
				return !strings.Contains(stderr, "may stay for up to 30s: no quorum")
			})
			assert.Equal(t, r.want, status, stderr)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, r.says)
			assert.Equal(t, r.says == "", stderr == "", stderr)
			assert.True(t, inspect(t, c.URLs(), name).Free, "released")
		})
	}
}

func TestTakenLocksHaveTheirOwnStatusAndAWaitSaysWhoHasThem(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	holder := clitest.Start(t, c.URLs(), "run", "--name", "x", "--owner", "the holder", "--wait", "1m", "--", "cat")
	require.Equal(t, "on", holder.Ask(t, "on"))
	hold(t, c.URLs(), "s", "--permits 1")
	hold(t, c.URLs(), "now", "--owner now --no-wait")
	hold(t, c.URLs(), "read", "--shared --owner first")
	hold(t, c.URLs(), "read", "--shared --owner second")
	for _, r := range []struct {
		name, flags string
		want        int
		says        string
	}{
		{"x", "--no-wait", cli.ExitTaken, `lock "x" is taken by "the holder"SINCE\n`},
		{"x", "--no-wait --shared", cli.ExitTaken, `lock "x" is taken by "the holder"SINCE\n`},
		{"x", "--wait 2s", cli.ExitTaken, `lock "x" is taken by "the holder"SINCE, and was for the last 2s`},
		{"x", "--wait 2s", cli.ExitTaken, `redlock: waiting for lock "x", held by "the holder"SINCE`},
		{"x", "--wait 2s --quiet", cli.ExitTaken, ""},
		{"x", "--wait 0s --json", cli.ExitTaken, `{"event":"taken","name":"x","message":"[^{]*","holder":"the holder","since":"YYYY","held_ms":\d+,"waited":(true|false)}`},
		{"x", "--no-wait --conflict-exit-code 0", 0, "is taken"},
		{"x", "--no-wait --conflict-exit-code 9 --quiet", 9, ""},
		{"x", "--no-wait --conflict-exit-code 0 --quiet --stale 1h", 0, ""},
		{"x", "--no-wait --conflict-exit-code 0 --quiet --stale 1ms", cli.ExitTaken, `"the holder"SINCE: for longer than --stale 1ms\n`},
		{"now", "--no-wait", cli.ExitTaken, `lock "now" is taken by "now"SINCE\n`},
		{"read", "--no-wait --json", cli.ExitTaken, `is taken by readers, the first of them .*"holder":"(first|second)","since":"YYYY"`},
		{"s", "--wait 2s --permits 1", cli.ExitTaken, `waiting for one of 1 permits of "s", which are all taken, the first by ".*"SINCE`},
		{"s", "--no-wait --permits 1", cli.ExitTaken, `all permits of "s" are taken, the first by ".*"SINCE\n`},
		{"s", "--no-wait --permits 1 --stale 1ms --quiet", cli.ExitTaken, "for longer than --stale 1ms"},
		{"s", "--permits 3", cli.ExitUsage, `semaphore "s" has 1 permits at a quorum of nodes, not 3`},
	} {
		t.Run(r.name+" "+r.flags, func(t *testing.T) {
			t.Parallel()
			says := strings.ReplaceAll(r.says, "SINCE", "( since YYYY, for [0-9dhms]+|, which asked for it at YYYY, [0-9dhms]+ ago)")
			says = strings.ReplaceAll(says, "YYYY", `2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
			status, stdout, stderr := runUntilItSays(t, regexp.MustCompile(says), c.URLs(), line(r.name, r.flags, "echo", "no")...)
			assert.Equal(t, r.want, status)
			assert.Empty(t, stdout)
			assert.Equal(t, r.says == "", stderr == "", stderr)
		})
	}
}

// The standard streams belong to the command: nothing sits in between, so nothing is lost at the
// end.
func TestStreamsAreTheCommandsOwn(t *testing.T) {
	t.Parallel()
	input := make([]byte, 8<<20)
	_, err := rand.Read(input)
	require.NoError(t, err)
	cmd := clitest.Command(cluster.Start(t, 1).URLs(), line("x", patient, "sh", "-c", "cat; echo done >&2")...)
	var stdout bytes.Buffer
	cmd.Stdin, cmd.Stdout = bytes.NewReader(input), &stdout
	status, stderr := clitest.StartCommand(t, cmd).End(t)
	assert.Equal(t, 0, status)
	assert.True(t, bytes.Equal(input, stdout.Bytes()), "got %d bytes, want %d", stdout.Len(), len(input))
	assert.True(t, strings.HasPrefix(withoutVotes(stderr), "done\n"), stderr) // and what a busy machine makes redlock say
}

func TestEnvironmentTellsTheLock(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	for _, flag := range []string{"--quiet", "--fence"} {
		cmd := clitest.Command(c.URLs(), "run", flag, "--wait", "1m", "--name", "a b", "--", "sh", "-c", `env; tr '\0' '\n' </proc/$$/environ 2>/dev/null || true`)
		cmd.Env = append(cmd.Env, "REDLOCK_FENCE=7", "REDLOCK_NAME=outer", "KEPT=1")
		var stdout bytes.Buffer
		cmd.Stdout = &stdout
		before := time.Now()
		status, stderr := clitest.StartCommand(t, cmd).End(t)
		require.Equal(t, 0, status, stderr)
		env := map[string]string{}
		for line := range strings.Lines(stdout.String()) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			env[name] = value
		}
		assert.Equal(t, "a b", env["REDLOCK_NAME"])
		assert.Equal(t, "1", env["KEPT"])
		if flag == "--fence" {
			assert.Regexp(t, "^[0-9]{16}$", env["REDLOCK_FENCE"])
		} else {
			assert.NotContains(t, env, "REDLOCK_FENCE", "that of another lock")
		}
		until, err := time.Parse("2006-01-02T15:04:05.000Z07:00", env["REDLOCK_UNTIL"])
		require.NoError(t, err)
		assert.Greater(t, until.Sub(before), 20*time.Second, "the end of a TTL of 30 s")
		assert.Less(t, until.Sub(before), time.Minute+30*time.Second)
	}
}

func TestSignalsArePassedOnAndTheStatusIsTheCommands(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	for name, s := range map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(s) {
				t.Skip("ignored by the parent of the tests (nohup), and so by redlock")
			}
			r := clitest.Start(t, c.URLs(), line(name, patient, "sh", "-c",
				`trap 'echo got $0; exit 42' $0; echo ready; while :; do sleep 0.01; done`, name)...)
			require.Equal(t, "ready", r.Next(t))
			require.NoError(t, syscall.Kill(r.Pid(), s))
			assert.Equal(t, "got "+name, r.Next(t))
			status, stderr := r.End(t)
			assert.Equal(t, 42, status)
			assert.NotContains(t, withoutVotes(stderr), "redlock", "the shell may have a word on its sleep")
		})
	}
}

// A command that SIGTERM ends has ended, so its lock is free at once.
func TestLockIsReleasedAtOnceWhenASignalEndsTheCommand(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	r := clitest.Start(t, c.URLs(), line("x", patient, "sh", "-c", `echo $$; exec sleep 60`)...)
	pid := number(t, r)
	require.NoError(t, syscall.Kill(r.Pid(), syscall.SIGTERM))
	assert.Equal(t, 143, r.Wait(t))
	assert.True(t, dead(pid)(), "the command is gone")
	release(t, hold(t, c.URLs(), "x", "--no-wait"))
}

func TestSignalEndsTheWaitForTheLock(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3) // at each of which some wait
	hold(t, c.URLs(), "x", "")
	waiting := map[syscall.Signal]*clitest.Redlock{}
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1} {
		if signal.Ignored(s) {
			t.Logf("%v is ignored by the parent of the tests (nohup), and so by redlock", s)
			continue
		}
		waiting[s] = clitest.Start(t, c.URLs(), line("x", patient, "echo", "no")...)
	}
	clitest.WaitFor(t, "all of them wait", func() bool { return c.Waiting(t, "x") == len(waiting) })
	for s, r := range waiting {
		require.NoError(t, syscall.Kill(r.Pid(), s))
		status, stderr := r.End(t)
		assert.Equal(t, 128+int(s), status)
		assert.Contains(t, stderr, "ended while waiting: "+s.String())
		assert.Empty(t, r.Lines())
	}
}

func TestWrongLinesAreUsageErrorsThatNameTheFlag(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"run -- true", "--name NAME"},
		{"run --name x", "needs a command"},
		{"run --name x --ttl 999ms true", "--ttl: 999ms"},
		{"run --name x --ttl 61s true", "--ttl: 1m1s is above the --max-ttl of 1m0s: give a shorter --ttl, or a longer --max-ttl"},
		{"run --name x --ttl 3s --kill-after 1001ms true", "--kill-after: 1.001s is not between 0s and 1s, a third of the TTL"},
		{"run --name x --wait -1s true", "--wait: -1s"},
		{"run --name x --ttl 30 true", `--ttl: "30" is no duration: give it with a unit, as 30s, 5m or 4h`},
		{"run --name x --wait 1d true", `--wait: "1d" is no duration: give it with a unit, as 30s, 5m or 4h`},
		{"run --name x --no-wait=5s true", "redlock: --no-wait takes no value\n"},
		{"run --name x --at-least -1s true", "--at-least: -1s is negative"},
		{"run --name x --at-least 61s true", "--at-least: 1m1s is above the --max-ttl of 1m0s: give a shorter --at-least, or a longer --max-ttl to everyone"},
		{"run --name x --at-least 11s --max-ttl 10s --ttl 10s true", "--at-least: 11s is above the --max-ttl of 10s"},
		{"run --name x --permits 0 true", "--permits: 0 is not between 1 and 1024"},
		{"run --name x --permits -1 true", "--permits: -1"},
		{"run --name x --permits 1025 true", "--permits: 1025"},
		{"run --name x --permits x true", "--permits"},
		{"run --name x --permits 3 --at-least 1s true", "--permits and --at-least: give only one of them"},
		{"run --name x --shared --permits 3 true", "--shared and --permits: give only one of them"},
		{"run --name x --shared --at-least 1s true", "--shared and --at-least: give only one of them"},
		{"run --name x --wait 1s --no-wait true", "--wait and --no-wait"},
		{"run --name x --replace --no-wait true", "--replace: it waits for one run"},
		{"run --name x --replace --owner " + strings.Repeat("x", 240) + " true", "--owner: with --replace, 240 bytes are more than 227"},
		{"run --name x --max-hold 5s true", "--max-hold: 5s is below 5.5s"},
		{"run --name x --conflict-exit-code 256 true", "--conflict-exit-code: 256"},
		{"run --name x --stale -1s true", "--stale: -1s is negative"},
		{"run --name x --quiet --verbose true", "--quiet and --verbose"},
		{"run --name " + strings.Repeat("x", 4097) + " true", "--name: 4097 bytes"},
		{"run --name x --frobnicate true", "unknown flag: --frobnicate"},
		{"elect --name x", "needs a command"},
		{"elect -- true", "--name NAME"},
		{"elect --name x --ttl 999ms true", "--ttl"},
		{"elect --name x --kill-after 11s true", "--kill-after"},
		{"elect --name x --kill-after -1s true", "--kill-after"},
		{"elect --name x --ttl 2m true", "--ttl: 2m0s is above the --max-ttl of 1m0s"},
		{"elect --name x --owner= true", "--owner"},
		{"elect --name x --owner " + strings.Repeat("o", 257) + " true", "--owner"},
		{"elect --name " + strings.Repeat("n", 4097) + " true", "--name"},
		{"elect --name redquorum:x true", "reserved"},
		{"elect --name x --quiet --verbose true", "--verbose"},
		{"elect --name x --no-wait true", "no-wait"},
		{"elect --name x --wait 0s true", "--wait: 0s is not above 0s"},
	} {
		root := clitest.Root(NewCommand(), NewElectCommand())
		status, stdout, stderr := clitest.Line(root, strings.Fields(strings.Replace(c.args, " ", " --nodes 127.0.0.1:1 ", 1))...)
		assert.Equal(t, cli.ExitUsage, status, c.args)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, c.want, c.args)
	}
}
