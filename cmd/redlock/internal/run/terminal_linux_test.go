package run

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/pgroup"
	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
)

// talk goes through a dialog: it presses the keys after a ">", and awaits the other texts.
func talk(t *testing.T, term *clitest.Terminal, dialog ...string) {
	t.Helper()
	for _, text := range dialog {
		if keys, is := strings.CutPrefix(text, ">"); is {
			term.Press(t, keys)
		} else {
			term.AwaitText(t, text)
		}
	}
}

// startShell starts a shell on a terminal. RUN in its script is redlock run.
func startShell(t *testing.T, urls []string, mode, script string) (*clitest.Terminal, *child.Process) {
	t.Helper()
	run := fmt.Sprintf(`"$0" run %s--name '%s'`, patient, t.Name())
	return clitest.StartOnTerminal(t, urls, mode, strings.ReplaceAll(script, "RUN", run))
}

func TestKeysReachTheCommand(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	const reads = `RUN -- sh -c 'echo ask; read answer; echo "<$answer>"; exit 5'; echo "status=$?"; read more; echo "<$more>"`
	// The shell has its terminal back at the end.
	reading := []string{"ask", ">yes\n", "<yes>", "status=5", ">after\n", "<after>"}
	within := strings.Replace(reads, "-- sh", `-- "$0" run `+patient+`--name inner --nodes `+strings.Join(c.URLs(), ",")+" -- sh", 1)
	container := "unshare --user --map-root-user --pid --fork --mount-proc --kill-child "
	for name, s := range map[string]struct {
		mode, script string
		dialog       []string
	}{
		"a run within a run reads":     {"-mc", within, reading},
		"in a container":               {"-mc", container + within, reading},
		"it reads":                     {"-mc", reads, reading},
		"it reads without job control": {"-c", reads, reading},
		// In the background: redlock gets the key and passes it on.
		"interrupt": {"-mc", `trap : INT; RUN -- sh -c 'echo ready; exec sleep 60'; echo "status=$?"`, []string{"ready", ">\x03", "status=130"}},
		// In the foreground: the command gets the key.
		"interrupt what reads": {"-mc", `trap : INT; RUN -- sh -c 'echo ready; read x; exit 1'; echo "status=$?"`, []string{"ready", ">\x03", "status=130"}},
		// Nobody could continue the job, so the key does nothing, as without redlock.
		"suspend without job control": {
			"-c", `RUN -- sh -c 'echo ready; sleep 0.2; read y; echo "<$y>"; exit 6'; echo "status=$?"`,
			[]string{"ready", ">\x1a", ">go on\n", "<go on>", "status=6"},
		},
		"suspend what reads without job control": {
			"-c", `RUN -- sh -c 'read x; echo ready; read y; echo "<$y>"; exit 6'; echo "status=$?"`,
			[]string{">first\n", "ready", ">\x1a", ">go on\n", "<go on>", "status=6"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if args := strings.Fields(container); strings.HasPrefix(s.script, container) && exec.Command(args[0], append(args[1:], "true")...).Run() != nil {
				t.Skip("no namespaces here")
			}
			term, shell := startShell(t, c.URLs(), s.mode, s.script)
			talk(t, term, s.dialog...)
			assert.Zero(t, shell.Wait(t))
		})
	}
}

// ^Z stops the command and redlock, so that the shell continues; fg continues both.
func TestSuspendKeyStopsTheJobAndForegroundContinuesIt(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	// It waits for a file without starting a process: a shell that starts one stops only together
	// with it (vfork).
	const waits = `while ! [ -e "$GO_ON" ]; do :; done; `
	const goesOn = waits + `read y; echo "<$y>"; exit 6`
	const stopsItself = `trap "kill -STOP \$\$" TSTP; echo ready; ` + goesOn
	for name, command := range map[string]string{
		"plain":                          `sh -c 'echo ready; ` + goesOn + `'`,
		"it has the terminal":            `sh -c 'read x; echo ready; ` + goesOn + `'`,
		"stops itself":                   `sh -c '` + stopsItself + `'`,
		"has the terminal, stops itself": `sh -c 'read x; ` + stopsItself + `'`,
		// A redlock run that ^Z stops sends SIGSTOP to itself.
		"a run within a run": `"$0" run ` + patient + `--name inner --nodes ` + strings.Join(c.URLs(), ",") + ` -- sh -c 'echo ready; ` + waits + `echo "<command>"; exit 6'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			goOn := filepath.Join(t.TempDir(), "go on")
			term, shell := startShell(t, c.URLs(), "-mc", fmt.Sprintf(`GO_ON='%s'; export GO_ON; RUN -- %s
				echo "stopped"; read between; echo "<$between>"; fg >/dev/null; echo "status=$?"`, goOn, command))
			if strings.Contains(command, "read x") {
				term.Press(t, "first\n")
			}
			talk(t, term, "ready", ">\x1a", "stopped")
			require.NoError(t, os.WriteFile(goOn, nil, 0o600))
			talk(t, term, ">shell\n", "<shell>", ">command\n", "<command>", "status=6")
			assert.Zero(t, shell.Wait(t))
		})
	}
}

// suspended is a job on a terminal. One member ignores ^Z and writes the time into a file; another
// forks all the time.
type suspended struct {
	term         *clitest.Terminal
	shell        *child.Process
	pulse, trace string // files: of the member that ignores ^Z, and of the forking one
	pid, group   int    // of the member that ignores ^Z; the group is the command itself
}

// startSuspended starts the job from a shell that then runs script. In main is what the command
// itself does.
func startSuspended(t *testing.T, urls []string, flags, main, script string) *suspended {
	t.Helper()
	dir := t.TempDir()
	s := &suspended{pulse: filepath.Join(dir, "pulse"), trace: filepath.Join(dir, "trace")}
	members := fmt.Sprintf(`(trap "" TSTP; exec %s) & (trap "" TSTP; while :; do (echo >> %s); done) & `,
		strings.Join(clitest.As("beat", s.pulse, "1ms"), " "), s.trace)
	s.term, s.shell = startShell(t, urls, "-mc", fmt.Sprintf(`RUN %s -- sh -c '%secho ready; %s'; %s`, flags, members, main, script))
	s.term.AwaitText(t, "ready")
	clitest.WaitFor(t, "the members run", func() bool {
		pid, _, err := readBeat(s.pulse)
		_, missing := os.Stat(s.trace)
		s.pid = pid
		return err == nil && missing == nil
	})
	var err error
	s.group, err = syscall.Getpgid(s.pid)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(-s.group, syscall.SIGKILL) }) //nolint:errcheck // it has ended, if all went well
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

// goOn continues the job, and waits until that has happened.
func (s *suspended) goOn(t *testing.T) {
	t.Helper()
	_, before, err := readBeat(s.pulse)
	require.NoError(t, err)
	s.term.Press(t, "continue\n")
	clitest.WaitFor(t, "the member continues", func() bool {
		_, last, err := readBeat(s.pulse)
		return err == nil && last > before
	})
}

// interrupt presses a key to which only redlock reacts, and waits for the end of everything.
func (s *suspended) interrupt(t *testing.T, status string) {
	t.Helper()
	talk(t, s.term, ">\x03", status)
	s.gone(t)
	assert.Zero(t, s.shell.Wait(t))
}

// gone waits until the group is known to be dead: not while too many others are created to tell.
func (s *suspended) gone(t *testing.T) {
	t.Helper()
	clitest.WaitFor(t, "the group is gone", func() bool { return pgroup.Dead(s.group) })
}

// once is a script for a job that is stopped once.
const once = `echo "stopped"; read x; fg >/dev/null; echo "status=$?"`

func TestNothingOfASuspendedCommandRunsWhileAnotherHasItsLock(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	s := startSuspended(t, c.URLs(), "--ttl "+lossTTL.String(), "wait", once)
	talk(t, s.term, ">\x1a", "stopped")
	assert.True(t, pgroup.Still(s.group), "all of the group")
	before := s.marks(t)
	status, _, stderr := run(t, c.URLs(), line(t.Name(), patient, "true")...)
	require.Equal(t, 0, status, stderr)
	assert.Equal(t, before, s.marks(t), "while another client held the lock")
	talk(t, s.term, ">continue\n", "status=70")
	assert.Equal(t, before, s.marks(t), "when redlock continued")
	s.gone(t)
	assert.Zero(t, s.shell.Wait(t))
}

// Once the process itself has ended, nobody reports stops to redlock any more. The key reaches
// redlock.
func TestWhatTheCommandLeftRunningIsStoppedAndContinues(t *testing.T) {
	t.Parallel()
	const told = "the command has ended; lock"
	c := cluster.Start(t, 1)
	t.Run("by a command that dies while it is stopped", func(t *testing.T) {
		t.Parallel()
		s := startSuspended(t, c.URLs(), "--kill-after 100ms", "wait", once)
		talk(t, s.term, ">\x1a", "stopped")
		require.NoError(t, syscall.Kill(s.group, syscall.SIGKILL))
		s.goOn(t)
		talk(t, s.term, told)
		s.interrupt(t, "status=137")
	})
	t.Run("by a command that has ended before", func(t *testing.T) {
		t.Parallel()
		s := startSuspended(t, c.URLs(), "--kill-after 100ms", "exit 7", once)
		talk(t, s.term, told, ">\x1a", "stopped")
		assert.True(t, pgroup.Still(s.group))
		s.goOn(t)
		s.interrupt(t, "status=7")
	})
}

// A SIGCONT that arrives just before redlock stops itself must not take effect just after.
func TestNothingRunsWhileRedlockIsStoppedWheneverAndHoweverOftenItIsContinued(t *testing.T) {
	t.Parallel()
	rounds := 10
	if os.Getenv("REDQUORUM_SOAK") == "1" {
		rounds = 400
	}
	c := cluster.Start(t, 1)
	s := startSuspended(t, c.URLs(), "", "wait", `n=1; while :; do echo "stop $n"; n=$((n+1)); read x; fg >/dev/null; done`)
	for _, stop := range []string{"stop 1", "stop 2"} {
		talk(t, s.term, ">\x1a", stop)
		s.goOn(t)
	}
	_, fields, ok := pgroup.ReadStat(strconv.Itoa(s.group))
	require.True(t, ok)
	redlock, err := strconv.Atoi(string(fields[1]))
	require.NoError(t, err)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	stops := 0
	for range rounds {
		s.term.Press(t, "\x1a")
		for range random.IntN(4) {
			time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond) // the moment varies
			require.NoError(t, syscall.Kill(redlock, syscall.SIGCONT))
		}
		time.Sleep(60 * time.Millisecond) // either way, it is over
		_, fields, ok := pgroup.ReadStat(strconv.Itoa(redlock))
		require.True(t, ok)
		if fields[0][0] == 'T' {
			stops++
			assert.True(t, pgroup.Still(s.group))
			before := s.marks(t)
			time.Sleep(10 * time.Millisecond) // ten beats
			assert.Equal(t, before, s.marks(t))
		}
		require.NoError(t, syscall.Kill(redlock, syscall.SIGCONT))
		s.term.Press(t, "continue\n")
		time.Sleep(30 * time.Millisecond) // or the key comes while the shell is still busy
	}
	t.Logf("%d of %d stops were checked", stops, rounds)
}

// A background job that needs the terminal waits for its turn, with its whole group.
func TestBackgroundJobThatReadsStopsUntilItIsInTheForeground(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pulse := filepath.Join(dir, "pulse")
	term, shell := startShell(t, cluster.Start(t, 1).URLs(), "-mc", fmt.Sprintf(
		`RUN --kill-rest --kill-after 100ms -- sh -c '(trap "" TSTP; exec %s) & read y; echo "<$y>"; exit 8' &
		cd %s; until jobs >jobs; grep -q Stopped jobs; do sleep 0.02; done; %s`, strings.Join(clitest.As("beat", pulse, "10ms"), " "), dir, once))
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
	talk(t, term, ">answer\n", "<answer>", "status=8")
	assert.Zero(t, shell.Wait(t))
}
