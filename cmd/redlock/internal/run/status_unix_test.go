//go:build unix

package run

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

func TestStatusIsThatOfTheCommand(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	require.NoError(t, os.WriteFile(script, []byte("#!/nonexistent/interpreter\n"), 0o600))
	broken := filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(broken, []byte("#!/nonexistent/interpreter\n"), 0o700))
	for _, c := range []struct {
		command []string
		want    int
		says    string
	}{
		{[]string{"true"}, 0, ""},
		{[]string{"sh", "-c", "exit 3"}, 3, ""},
		{[]string{"sh", "-c", "exit 255"}, 255, ""},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143, ""},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137, ""},
		{[]string{"redlock-test-no-such-command"}, cli.ExitNotFound, "not found"},
		{[]string{"./no/such/file"}, cli.ExitNotFound, "no such file"},
		{[]string{dir}, cli.ExitNotExecutable, "is a directory"},
		{[]string{script}, cli.ExitNotExecutable, "permission denied"},
		{[]string{broken}, cli.ExitNotExecutable, "cannot run"},
	} {
		status, stdout, stderr := clitest.Run(t, urls, append([]string{"run", "--name", t.Name()}, c.command...)...)
		stderr = withoutVotes(stderr)
		if status != c.want || stdout != "" || !strings.Contains(stderr, c.says) || c.says == "" && stderr != "" {
			t.Errorf("%q: got status %d, stdout %q, stderr %q; want %d and %q", c.command, status, stdout, stderr, c.want, c.says)
		}
	}
	assert.True(t, inspect(t, urls, t.Name()).Free, "released after each of them")
}

func TestTakenAndUnavailableLocksHaveTheirOwnStatus(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartServers(t, 3)
	holder := clitest.Process(t, urls, "run", "--name", "x", "--owner", "the holder", "--", "cat")
	stdin, err := holder.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	clitest.WaitFor(t, "the lock is held", func() bool { return inspect(t, urls, "x").Owner == "the holder" })
	for _, c := range []struct {
		flags []string
		want  int
		says  string
	}{
		{[]string{"--no-wait"}, cli.ExitTaken, `lock "x" is taken by "the holder"`},
		{[]string{"--wait", "2s"}, cli.ExitTaken, `lock "x" is taken by "the holder"`},
		{[]string{"--wait", "0s", "--json"}, cli.ExitTaken, `{"event":"taken","name":"x","message":`},
		{[]string{"--no-wait", "--conflict-exit-code", "0"}, 0, "is taken"},
		{[]string{"--no-wait", "--conflict-exit-code", "9", "--quiet"}, 9, ""},
	} {
		status, _, stderr := clitest.Run(t, urls, append(append([]string{"run", "--name", "x"}, c.flags...), "echo", "no")...)
		if status != c.want || !strings.Contains(stderr, c.says) || c.says == "" && stderr != "" {
			t.Errorf("%q: got status %d and %q, want %d and %q", c.flags, status, stderr, c.want, c.says)
		}
	}
	require.NoError(t, stdin.Close())
	assert.Equal(t, 0, clitest.Await(t, holder))
	for _, s := range servers[1:] {
		require.NoError(t, s.Kill())
	}
	status, stdout, stderr := clitest.Run(t, urls, "run", "--name", "x", "--wait", "2s", "echo", "no")
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "redlock: no quorum: 1 of 3 masters votes, 2 are needed\n")
	assert.Contains(t, stderr, servers[1].Addr(), "which master, and why")
}

// The standard streams belong to the command: nothing sits in between, so nothing is lost at the
// end.
func TestStreamsAreTheCommandsOwn(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	input := make([]byte, 8<<20)
	_, err := rand.Read(input)
	require.NoError(t, err)
	cmd := clitest.Process(t, urls, "run", "--name", "x", "--", "sh", "-c", "cat; echo done >&2")
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &stdout, &stderr
	require.NoError(t, cmd.Start())
	assert.Equal(t, 0, clitest.Await(t, cmd))
	assert.True(t, bytes.Equal(input, stdout.Bytes()), "got %d bytes, want %d", stdout.Len(), len(input))
	assert.Equal(t, "done\n", withoutVotes(stderr.String()))
}

func TestEnvironmentTellsTheLockAndNoPassword(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3, redistest.WithPassword("sesame"))
	cmd := clitest.Process(t, clitest.URLs(servers), "run", "--name", "a b", "--", "sh", "-c", `env; tr '\0' '\n' </proc/$$/environ 2>/dev/null || true`)
	cmd.Env = append(cmd.Env, "REDLOCK_FENCE=7", "REDLOCK_NAME=outer", "KEPT=1")
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	before := time.Now()
	require.NoError(t, cmd.Start())
	require.Equal(t, 0, clitest.Await(t, cmd))
	env := map[string]string{}
	for line := range strings.Lines(stdout.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	assert.Equal(t, "a b", env["REDLOCK_NAME"])
	assert.Equal(t, "1", env["KEPT"])
	assert.NotContains(t, env, "REDLOCK_FENCE", "that of another lock")
	assert.NotContains(t, env, "REDLOCK_NODES")
	assert.NotContains(t, stdout.String(), "sesame")
	until, err := time.Parse("2006-01-02T15:04:05.000Z07:00", env["REDLOCK_UNTIL"])
	require.NoError(t, err)
	assert.Greater(t, until.Sub(before), 20*time.Second, "the end of a TTL of 30 s")
	assert.Less(t, until.Sub(before), clitest.Patience+30*time.Second)
}

func TestSignalsArePassedOnAndTheStatusIsTheCommands(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	for _, s := range []struct {
		signal syscall.Signal
		name   string
	}{
		{syscall.SIGINT, "INT"},
		{syscall.SIGTERM, "TERM"},
		{syscall.SIGHUP, "HUP"},
		{syscall.SIGQUIT, "QUIT"},
		{syscall.SIGUSR1, "USR1"},
		{syscall.SIGUSR2, "USR2"},
		{syscall.SIGWINCH, "WINCH"},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(s.signal) {
				t.Skip("ignored by the parent of the tests (nohup), and so by redlock")
			}
			ready := filepath.Join(t.TempDir(), "ready")
			cmd := clitest.Process(t, urls, "run", "--name", s.name, "--", "sh", "-c",
				`trap 'echo got $1; exit 42' $1; : > "$0"; while :; do sleep 0.01; done`, ready, s.name)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			require.NoError(t, cmd.Start())
			clitest.WaitFor(t, "the command runs", exists(ready))
			require.NoError(t, cmd.Process.Signal(s.signal))
			assert.Equal(t, 42, clitest.Await(t, cmd))
			assert.Equal(t, "got "+s.name+"\n", stdout.String())
			assert.NotContains(t, stderr.String(), "redlock", "the shell may have a word on its sleep")
		})
	}
}

// A command that SIGTERM ends has ended, so its lock is free at once.
func TestLockIsReleasedAtOnceWhenASignalEndsTheCommand(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	pidFile := filepath.Join(t.TempDir(), "pid")
	cmd := clitest.Process(t, urls, "run", "--name", "x", "--", "sh", "-c", `echo $$ > "$0"; exec sleep 60`, pidFile)
	require.NoError(t, cmd.Start())
	pid := pidIn(t, pidFile)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, clitest.Await(t, cmd))
	assert.True(t, dead(pid)(), "the command is gone")
	status, stdout, _ := clitest.Run(t, urls, "run", "--name", "x", "--no-wait", "echo", "next")
	assert.Equal(t, 0, status)
	assert.Equal(t, "next\n", stdout)
}

func TestSignalEndsTheWaitForTheLock(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	holder := clitest.Process(t, urls, "run", "--name", "x", "--", "cat")
	stdin, err := holder.StdinPipe()
	require.NoError(t, err)
	stdout, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	_, err = io.WriteString(stdin, "on\n")
	require.NoError(t, err)
	_, err = io.ReadFull(stdout, make([]byte, 3))
	require.NoError(t, err, "it runs")
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1} {
		if signal.Ignored(s) {
			t.Logf("%v is ignored by the parent of the tests (nohup), and so by redlock", s)
			continue
		}
		cmd := clitest.Process(t, urls, "run", "--name", "x", "--verbose", "--", "echo", "no")
		log, err := cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = io.ReadFull(log, make([]byte, 1))
		require.NoError(t, err, "it is at work")
		require.NoError(t, cmd.Process.Signal(s))
		late := time.AfterFunc(clitest.Patience, func() { _ = cmd.Process.Kill() }) //nolint:errcheck // the test fails below
		text, err := io.ReadAll(log)
		late.Stop()
		require.NoError(t, err)
		assert.Equal(t, 128+int(s), clitest.Await(t, cmd))
		assert.Contains(t, string(text), "ended while waiting: "+s.String())
	}
	require.NoError(t, stdin.Close())
	assert.Equal(t, 0, clitest.Await(t, holder))
}

func TestWrongRunIsAUsageErrorThatNamesTheFlag(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--", "true"}, "--name"},
		{[]string{"--name", "x"}, "needs a command"},
		{[]string{"--name", "x", "--ttl", "999ms", "true"}, "--ttl: 999ms"},
		{[]string{"--name", "x", "--ttl", "61s", "true"}, "--ttl: 1m1s is above the --max-ttl of 1m0s: give a shorter --ttl, or a longer --max-ttl"},
		{[]string{"--name", "x", "--ttl", "3s", "--kill-after", "1001ms", "true"}, "--kill-after: 1.001s is not between 0s and 1s, a third of the TTL"},
		{[]string{"--name", "x", "--wait", "-1s", "true"}, "--wait: -1s"},
		{[]string{"--name", "x", "--ttl", "30", "true"}, `--ttl: "30" is no duration: give it with a unit, as 30s, 5m or 4h`},
		{[]string{"--name", "x", "--wait", "1d", "true"}, `--wait: "1d" is no duration: give it with a unit, as 30s, 5m or 4h`},
		{[]string{"--name", "x", "--no-wait=5s", "true"}, "redlock: --no-wait takes no value\n"},
		{[]string{"--name", "x", "--at-least", "55m", "true"}, "give a shorter --at-least, or a longer --max-ttl to everyone"},
		{[]string{"--name", "x", "--wait", "1s", "--no-wait", "true"}, "--wait and --no-wait"},
		{[]string{"--name", "x", "--max-hold", "5s", "true"}, "--max-hold: 5s is below 5.5s"},
		{[]string{"--name", "x", "--conflict-exit-code", "256", "true"}, "--conflict-exit-code: 256"},
		{[]string{"--name", "x", "--quiet", "--verbose", "true"}, "--quiet and --verbose"},
		{[]string{"--name", strings.Repeat("x", 4097), "true"}, "--name: 4097 bytes"},
		{[]string{"--name", "x", "--owner", strings.Repeat("x", 257), "true"}, "owner has 257 bytes"},
		{[]string{"--name", "x", "--frobnicate", "true"}, "unknown flag: --frobnicate"},
	} {
		status, stdout, stderr := clitest.Run(t, []string{"127.0.0.1:1"}, append([]string{"run"}, c.args...)...)
		if status != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: got status %d, stdout %q, stderr %q; want %d and %q", c.args, status, stdout, stderr, cli.ExitUsage, c.want)
		}
	}
}

// A cluster that nobody has used before: what "redlock run" needs, and what it says if something is
// missing.
func TestRunOnANewCluster(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartNewServers(t, 3)
	run := func(args ...string) (status int, stdout, stderr string) {
		return clitest.Run(t, urls, append([]string{"run", "--name", "x"}, args...)...)
	}
	require.NoError(t, servers[2].Kill())
	missing := servers[2].URL()
	status, _, stderr := run("--quiet", "--wait", "3s", "true")
	assert.Equal(t, cli.ExitNoQuorum, status)
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	require.Len(t, lines, 4, stderr)
	assert.Contains(t, lines[0], "redlock: no quorum: ")
	assert.Contains(t, lines[1], missing, "what to mend comes first")
	for _, s := range servers[:2] {
		assert.Regexp(t, `(?m)^  `+s.URL()+`: quarantined for another \S+: a new master votes then, or at once when `+missing+" is there too, or after `redlock init`$", stderr)
	}
	assert.Contains(t, stderr, "\n  "+missing+": dial tcp ")
	_, _, stderr = run("--quiet", "--wait", "3s", "--json", "true")
	assert.Equal(t, 1, strings.Count(stderr, "\n"), "one object: %s", stderr)
	assert.NotContains(t, stderr, `\n`)
	assert.Contains(t, stderr, "; "+servers[0].URL())

	require.NoError(t, servers[2].Restart())
	status, _, stderr = run("true")
	assert.Equal(t, 0, status, stderr)
	_, urls = clitest.StartNewServers(t, 3)
	status, _, stderr = run("--quiet", "--strict", "--wait", "3s", "true")
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.Equal(t, 3, strings.Count(stderr, "or at once after `redlock init`"), stderr)
	require.NoError(t, open(t, urls).Init(t.Context(), false))
	status, _, stderr = run("--strict", "true")
	assert.Equal(t, 0, status, stderr)
}
