package run

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/pgroup"
)

// suspended is a job on a terminal. One member ignores ^Z and writes the time into a file; another
// forks all the time.
type suspended struct {
	term  *clitest.Terminal
	shell *exec.Cmd
	pulse string // file of the member that ignores ^Z
	trace string // file that grows with each process of the forking member
	pid   int    // of the member that ignores ^Z
}

// startSuspended starts the job from a shell that then runs script. In main, the command itself,
// "$0" is a file for its number.
func startSuspended(t *testing.T, urls []string, name, flags, main, script string) *suspended {
	t.Helper()
	dir := t.TempDir()
	s := &suspended{pulse: filepath.Join(dir, "pulse"), trace: filepath.Join(dir, "trace")}
	members := fmt.Sprintf(`(trap "" TSTP; exec %s) & (trap "" TSTP; while :; do (echo >> %s); done) & `,
		strings.Join(asPart(t, "beat", s.pulse), " "), s.trace)
	s.term, s.shell = clitest.StartOnTerminal(t, urls, "-mc", fmt.Sprintf(`"$0" run --name %s %s -- sh -c '%secho ready; %s' %s; %s`,
		name, flags, members, main, filepath.Join(dir, "main"), script))
	s.term.AwaitText(t, "ready")
	clitest.WaitFor(t, "the members run", func() bool {
		var err error
		s.pid, _, err = readBeat(s.pulse)
		return err == nil && exists(s.trace)()
	})
	t.Cleanup(func() {
		if group, err := syscall.Getpgid(s.pid); err == nil {
			_ = syscall.Kill(-group, syscall.SIGKILL) //nolint:errcheck // it has ended, if all went well
		}
	})
	return s
}

// marks returns what changes as long as a member runs.
func (s *suspended) marks(t *testing.T) string {
	t.Helper()
	_, last, err := readBeat(s.pulse)
	require.NoError(t, err)
	trace, err := os.Stat(s.trace)
	require.NoError(t, err)
	return fmt.Sprint(last, trace.Size())
}

func (s *suspended) awaitProgress(t *testing.T) {
	t.Helper()
	_, before, err := readBeat(s.pulse)
	require.NoError(t, err)
	clitest.WaitFor(t, "the member continues", func() bool {
		_, last, err := readBeat(s.pulse)
		return err == nil && last > before
	})
}

func TestNothingOfASuspendedCommandRunsWhileAnotherHasItsLock(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	s := startSuspended(t, urls, "x", "--ttl 3s", "wait", `echo "stopped"; read x; fg >/dev/null; echo "status=$?"`)
	group, err := syscall.Getpgid(s.pid)
	require.NoError(t, err)
	s.term.Press(t, "\x1a")
	s.term.AwaitText(t, "stopped")
	assert.True(t, pgroup.Still(group), "all of the group")
	before := s.marks(t)
	status, _, stderr := clitest.Run(t, urls, "run", "--name", "x", "--wait", "20s", "true")
	require.Equal(t, 0, status, stderr)
	assert.Equal(t, before, s.marks(t), "while another client held the lock")
	s.term.Press(t, "continue\n")
	s.term.AwaitText(t, "status=70")
	assert.Equal(t, before, s.marks(t), "when redlock continued")
	clitest.WaitFor(t, "the group is gone", func() bool { return pgroup.Dead(group) })
	clitest.Await(t, s.shell)
}

func TestSuspendedCommandContinuesUnderItsLockAgainAndAgain(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	const fg = `read x; fg >/dev/null; `
	s := startSuspended(t, urls, "x", "", "wait", `echo "stop 1"; `+fg+`echo "stop 2"; `+fg+`echo "status=$?"`)
	for _, stop := range []string{"stop 1", "stop 2"} {
		s.term.Press(t, "\x1a")
		s.term.AwaitText(t, stop)
		s.term.Press(t, "continue\n")
		s.awaitProgress(t)
	}
	group, err := syscall.Getpgid(s.pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(-group, syscall.SIGKILL))
	s.term.AwaitText(t, "status=137")
	clitest.Await(t, s.shell)
}

// The started process dies while the job is stopped. What it leaves continues, and is waited for.
func TestCommandThatDiesWhileSuspendedLeavesARestThatContinues(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	s := startSuspended(t, urls, "x", "", `echo $$ > "$0"; wait`, `echo "stopped"; read x; fg >/dev/null; echo "status=$?"`)
	main := pidIn(t, filepath.Join(filepath.Dir(s.pulse), "main"))
	s.term.Press(t, "\x1a")
	s.term.AwaitText(t, "stopped")
	require.NoError(t, syscall.Kill(main, syscall.SIGKILL))
	s.term.Press(t, "continue\n")
	s.awaitProgress(t)
	s.term.AwaitText(t, "the command has ended; lock")
	s.term.Press(t, "\x03") // only redlock reacts to it
	s.term.AwaitText(t, "status=137")
	assert.True(t, dead(s.pid)())
	clitest.Await(t, s.shell)
}

// Once the process itself has ended, nobody reports stops to redlock any more. The key reaches
// redlock.
func TestSuspendKeyStopsWhatTheCommandLeftRunning(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	s := startSuspended(t, urls, "x", "--kill-after 100ms", `exit 7`, `echo "stopped"; read x; fg >/dev/null; echo "status=$?"`)
	group, err := syscall.Getpgid(s.pid)
	require.NoError(t, err)
	s.term.AwaitText(t, "the command has ended; lock")
	s.term.Press(t, "\x1a")
	s.term.AwaitText(t, "stopped")
	assert.True(t, pgroup.Still(group))
	s.term.Press(t, "continue\n")
	s.awaitProgress(t)
	s.term.Press(t, "\x03")
	s.term.AwaitText(t, "status=7")
	assert.True(t, pgroup.Dead(group))
	clitest.Await(t, s.shell)
}

// A background job that needs the terminal waits for its turn, with its whole group.
func TestBackgroundJobThatReadsStopsUntilItIsInTheForeground(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	dir := t.TempDir()
	pulse := filepath.Join(dir, "pulse")
	beat := strings.Join(asPart(t, "beat", pulse), " ")
	term, cmd := clitest.StartOnTerminal(t, urls, "-mc", fmt.Sprintf(
		`"$0" run --name x --kill-rest --kill-after 100ms -- sh -c '(trap "" TSTP; exec %s) & read y; echo "<$y>"; exit 8' &
		cd %s; until jobs >jobs; grep -q Stopped jobs; do sleep 0.02; done; echo "stopped"; read x; fg >/dev/null; echo "status=$?"`, beat, dir))
	term.AwaitText(t, "stopped")
	if pid, _, err := readBeat(pulse); err == nil { // it may be stopped before its first beat
		group, err := syscall.Getpgid(pid)
		require.NoError(t, err)
		assert.True(t, pgroup.Still(group))
	}
	term.Press(t, "foreground\n")
	clitest.WaitFor(t, "the member runs", func() bool {
		_, _, err := readBeat(pulse)
		return err == nil
	})
	term.Press(t, "answer\n")
	term.AwaitText(t, "<answer>")
	term.AwaitText(t, "status=8")
	clitest.Await(t, cmd)
}
