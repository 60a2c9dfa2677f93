package run

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// The ways in which a lock changes hands. The work lasts so many marks, if nothing ends it. After a
// signal it has left enough with six more of each. A mark is a process (sleep), so there are few:
// the next holder works for as long as three take.
const (
	byItself = "at its end"
	bySignal = "after SIGTERM"
	byLoss   = "after a loss"
)

var marksOf = map[string]int{byItself: 8, bySignal: 80, byLoss: 20_000}

// shapes makes scripts, each in a file of its own.
type shapes struct {
	t     *testing.T
	dir   string
	marks int
	n     int  // scripts
	works int  // that leave marks
	slow  bool // until the end comes
}

// pause is how many seconds are between two marks. A loss takes long to come.
func (s *shapes) pause() float64 {
	if s.slow {
		return 0.3
	}
	return 0.1
}

// script returns a command that runs these lines.
func (s *shapes) script(lines string) string {
	s.n++
	path := filepath.Join(s.dir, fmt.Sprint(s.n, ".sh"))
	require.NoError(s.t, os.WriteFile(path, []byte(lines), 0o600))
	return "sh " + path
}

// work returns a command that leaves marks.
func (s *shapes) work(before string) string {
	s.works++
	return s.script(fmt.Sprintf("%s\ni=0; while [ $i -lt %d -a ! -e %s/enough ]; do echo A >>%[3]s/marks; i=$((i+1)); sleep %.1[4]f; done",
		before, s.marks, s.dir, s.pause()))
}

// runner returns a command that leaves each mark in a new process of a new session, and ends. Its
// marks come as fast as processes start, so there are more.
func (s *shapes) runner() string {
	s.works++
	before := ""
	if s.slow {
		before = fmt.Sprintf("trap 'touch %s/hurry' TERM\n[ -e %[1]s/hurry ] || sleep 0.2\n", s.dir)
	}
	return fmt.Sprintf("%s %d", s.script(fmt.Sprintf(
		"%secho A >>%s/marks\nif [ $1 -gt 0 -a ! -e %[2]s/enough ]; then setsid sh $0 $(($1 - 1)) & fi", before, s.dir)), 5*s.marks)
}

// plain are ways in which scripts run a command. What leaves a group or a session is in most of
// them. Those of wrappings are for trees.
var (
	plain = []string{
		"%s; true", "%s & true", "timeout 300 %s; true", "exec timeout 300 %s", "timeout --foreground 300 %s; true",
		"timeout 300 %s & true", "bash -c 'set -m; %s & true'", "(setsid %s &)", "su -c '%s'; true",
	}
	wrappings = append([]string{
		"%s & wait", "exec %s", "(%s &)", ": | %s", "setsid %s", "setsid -w %s", "nohup %s >/dev/null 2>&1",
		"nohup setsid %s >/dev/null 2>&1 &", "echo | xargs -n 1 %s; true", "trap : TERM; %s & wait; wait",
	}, plain...)
)

// random returns a tree of commands, the deeper the more are left.
func (s *shapes) random(r *rand.Rand, depth int) string {
	if depth == 0 {
		before := []string{"", `trap "" HUP`, `trap "" TERM`, "runs"}[r.IntN(4)]
		if before == "runs" {
			return s.runner()
		}
		return s.work(before)
	}
	wrapping := wrappings[r.IntN(len(wrappings))]
	for !possible(wrapping) {
		wrapping = wrappings[r.IntN(len(wrappings))]
	}
	lines := fmt.Sprintf(wrapping, s.random(r, depth-1))
	if r.IntN(3) == 0 {
		lines = s.random(r, depth-1) + " &\n" + lines
	}
	return s.script(lines)
}

// tryShape runs a command under a lock that another one waits for, and requires that no mark comes
// after that one has begun.
func tryShape(t *testing.T, c *cluster.Cluster, way string, shape func(*shapes) string) {
	t.Helper()
	slots <- struct{}{}
	defer func() { <-slots }()
	proxies, urls := c.BehindProxies(t)
	dir, err := os.MkdirTemp("", "shape") // t.TempDir has the name of the test, which a shell would read
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	s := &shapes{t: t, dir: dir, marks: marksOf[way], slow: way == byLoss}
	marks := filepath.Join(s.dir, "marks")
	command := shape(s)
	a := clitest.Start(t, urls, line(t.Name(), "--wait 1m --ttl "+lossTTL.String(), strings.Fields(command)...)...)
	clitest.WaitFor(t, "the work has begun", func() bool {
		_, err := os.Stat(marks)
		return err == nil
	})
	b := clitest.Start(t, c.URLs(), line(t.Name(), "--wait 1m", "sh", "-c", fmt.Sprintf("echo B >>%s; sleep %.1f", marks, 3*s.pause()))...)
	switch way {
	case bySignal:
		clitest.WaitFor(t, "the other waits", func() bool { return c.Waiting(t, t.Name()) > 0 })
		require.NoError(t, syscall.Kill(a.Pid(), syscall.SIGTERM))
		before := strings.Count(readMarks(t, marks), "A")
		begun := false
		clitest.WaitFor(t, "the next holder, or work that goes on", func() bool {
			text := readMarks(t, marks)
			begun = strings.Contains(text, "B")
			return begun || strings.Count(text, "A") >= before+6*s.works
		})
		if !begun {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "enough"), nil, 0o600))
		}
	case byLoss:
		for _, p := range proxies {
			p.Drop(redistest.Both, true)
		}
	}
	status, stderr := b.End(t)
	assert.Zero(t, status, stderr)
	_, after, found := strings.Cut(readMarks(t, marks), "B\n")
	assert.True(t, found)
	assert.Zero(t, strings.Count(after, "A"), "marks of the first holder")
	status, stderr = a.End(t)
	if t.Failed() {
		scripts, err := exec.Command("grep", "-r", "", s.dir, "--include", "*.sh").CombinedOutput()
		t.Logf("%s: %v\n%s\n%d: %s", command, err, scripts, status, stderr)
	}
}

func readMarks(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// It is said which, and the lock is held until it has ended, or is over.
func TestAProcessThatMayNotBeSignalledIsWaitedFor(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setpriv"); err != nil || os.Getuid() != 0 {
		t.Skip("no setpriv, or no right to change the user")
	}
	c := cluster.Start(t, 1)
	for flags, seconds := range map[string]string{"": "2", "--ttl 3s --max-hold 2s": "60"} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			// Redlock may change its user as root may, but not send signals to others.
			const caps = "setpriv --reuid 65534 --inh-caps=+setuid,+dac_override --ambient-caps=+setuid,+dac_override"
			const others = `setpriv --reuid 65533 --inh-caps=-all --ambient-caps=-all sh -c 'echo $$; exec sleep SECONDS >/dev/null 2>&1'; :`
			cmd := clitest.Command(c.URLs())
			cmd.Args = append(append(strings.Fields(caps), cmd.Path), line("x"+flags, patient+flags, "sh", "-c", strings.Replace(others, "SECONDS", seconds, 1))...)
			var err error
			cmd.Path, err = exec.LookPath("setpriv")
			require.NoError(t, err)
			r := clitest.StartCommand(t, cmd)
			pid := number(t, r)
			defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }() //nolint:errcheck // it may have ended
			if flags == "" {
				require.NoError(t, syscall.Kill(r.Pid(), syscall.SIGTERM))
				_, stderr := r.End(t)
				assert.True(t, dead(pid)())
				assert.Regexp(t, fmt.Sprintf(`cannot send terminated to the command: process %d \((sh|sleep)\): operation not permitted`, pid), stderr)
				return
			}
			status, _, stderr := run(t, c.URLs(), line("x"+flags, patient, "true")...)
			assert.Zero(t, status, stderr)
			status, stderr = r.End(t)
			assert.Equal(t, cli.ExitLost, status)
			assert.Contains(t, stderr, "does not end, and runs on without lock")
			if !strings.Contains(stderr, "its maximum hold has ended") { // this machine is so busy that it is looked for too late
				assert.Contains(t, stderr, fmt.Sprintf("cannot send killed to the command: process %d (sleep): operation not permitted", pid))
			}
		})
	}
}

// possible reports whether a shape works here: its command exists, and asks for no password.
func possible(shape string) bool {
	command, _, _ := strings.Cut(shape, " ")
	_, err := exec.LookPath(command)
	return command != "bash" && command != "su" || err == nil && (command != "su" || os.Getuid() == 0)
}

// Whatever group or session it is in. What is ended from outside is all shapes at once: none may be
// overlooked. By itself each has to be noticed alone.
func TestNothingOfACommandRunsBesideTheNextHolder(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	for _, shape := range plain {
		t.Run(strings.ReplaceAll(shape, "/", ""), func(t *testing.T) {
			t.Parallel()
			if !possible(shape) {
				t.Skip("its command is not installed, or asks for a password")
			}
			tryShape(t, c, byItself, func(s *shapes) string { return s.script(fmt.Sprintf(shape, s.work(""))) })
		})
	}
	t.Run("runs away", func(t *testing.T) {
		t.Parallel()
		tryShape(t, c, byItself, (*shapes).runner)
	})
	for _, way := range []string{bySignal, byLoss} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			tryShape(t, c, way, func(s *shapes) string {
				all := []string{s.runner()}
				for _, shape := range plain {
					if possible(shape) {
						all = append(all, s.script(fmt.Sprintf(shape, s.work(""))))
					}
				}
				return s.script(strings.Join(append(all, "wait"), " &\n"))
			})
		})
	}
}

func TestNothingOfARandomTreeRunsBesideTheNextHolder(t *testing.T) {
	t.Parallel()
	trees := 3 // one for each way
	if os.Getenv("REDQUORUM_SOAK") == "1" {
		trees = 200
	}
	c := cluster.Start(t, 1)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i := range trees {
		way := []string{byItself, bySignal, byLoss}[i%3]
		t.Run(fmt.Sprint(i, " ", way), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			tryShape(t, c, way, func(s *shapes) string { return s.random(random, 2+random.IntN(3)) })
		})
	}
}

// Its first process adopts the orphans there. They are in the process group of the command.
func TestAnOrphanInAPIDNamespaceIsPartOfTheCommand(t *testing.T) {
	t.Parallel()
	space := exec.Command("unshare", "--pid", "--fork", "--kill-child", "sh", "-c", "echo; exec sleep 60")
	out, err := space.StdoutPipe()
	require.NoError(t, err)
	if _, err := exec.LookPath("nsenter"); err != nil || os.Getuid() != 0 || space.Start() != nil {
		t.Skip("no nsenter, or no namespaces here")
	}
	defer func() {
		_ = space.Process.Kill() //nolint:errcheck // it is there
		_ = space.Wait()         //nolint:errcheck // it was killed
	}()
	if n, err := out.Read(make([]byte, 1)); n == 0 || err != nil {
		t.Skip("no namespaces here")
	}
	first, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", space.Process.Pid))
	require.NoError(t, err)
	enter := []string{"nsenter", "-t", strings.TrimSpace(string(first)), "-p", "sh", "-c"}
	c := cluster.Start(t, 1)
	over := filepath.Join(t.TempDir(), "over")
	status, _, stderr := run(t, c.URLs(), line("x", patient, append(enter, "(sleep 0.5; >"+over+") >/dev/null 2>&1 & exit 3")...)...)
	assert.Equal(t, 3, status, stderr)
	assert.FileExists(t, over, "the lock was held until the orphan had ended")
	over += " late"
	status, _, stderr = run(t, c.URLs(), line("x", patient+"--kill-rest --kill-after 50ms", append(enter, "(trap '' TERM; sleep 1; >'"+over+"') >/dev/null 2>&1 & exit 3")...)...)
	assert.Equal(t, 3, status, stderr)
	time.Sleep(1500 * time.Millisecond)
	assert.NoFileExists(t, over, "the orphan was killed")
}
