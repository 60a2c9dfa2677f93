//go:build unix

package run

import (
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
)

// The roles are commands that redlock runs. A shell could do most of it, but not as fast.
func TestMain(m *testing.M) {
	root := func() *cobra.Command { return clitest.Root(NewCommand(), NewElectCommand()) }
	clitest.Main(m, root, map[string]child.Role{"beat": beat, "witness": witness, "hoard": hoard, "says": sayBeats})
}

// lossTTL is the shortest TTL with the largest margin, 250 ms: a busy machine must not wake redlock
// up too late to end the command in time.
const lossTTL = 10 * time.Second

// shortTTL is for a redlock that is killed or stopped, which needs no margin, and for elections
// that may be lost at any time.
const shortTTL = 3500 * time.Millisecond

// slots are of the tests in which several processes work at once. With more, they are about a small
// machine.
var slots = make(chan struct{}, 6)

// beat writes the time into a file as often as it is told, and ignores SIGTERM.
func beat(self *child.Self) {
	signal.Ignore(syscall.SIGTERM)
	pause, err := time.ParseDuration(self.Args[1])
	require.NoError(self, err)
	file, err := os.Create(self.Args[0])
	require.NoError(self, err)
	for ; ; time.Sleep(pause) {
		_, err := file.WriteAt(fmt.Appendf(nil, "%d %d\n", os.Getpid(), time.Now().UnixNano()), 0)
		require.NoError(self, err)
	}
}

// readBeat returns what a beat wrote last.
func readBeat(path string) (pid int, last int64, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		_, err = fmt.Sscanf(string(text), "%d %d\n", &pid, &last)
	}
	return pid, last, err
}

// witness fails if a beat that wrote into the file is alive, or was when this process began.
func witness(self *child.Self) {
	now := time.Now().UnixNano()
	pid, last, err := readBeat(self.Args[0])
	require.NoError(self, err)
	assert.True(self, dead(pid)(), "it is alive")
	assert.Less(self, last, now, "its last beat came %v after the start of the next", time.Duration(last-now))
}

// hoard leaves the group, but keeps a child there that has ended and is never reaped.
func hoard(self *child.Self) {
	zombie, err := os.StartProcess("/bin/sh", []string{"sh", "-c", ":"}, &os.ProcAttr{})
	require.NoError(self, err)
	for !dead(zombie.Pid)() {
		time.Sleep(time.Millisecond)
	}
	_, err = syscall.Setsid()
	require.NoError(self, err)
	self.Tell(os.Getpid())
	time.Sleep(time.Minute)
}

// dead reports whether a process has ended, reaped or not.
func dead(pid int) func() bool {
	return func() bool {
		if syscall.Kill(pid, 0) != nil {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // on Linux
		_, state, found := strings.Cut(string(stat), ") ")
		return err == nil && found && strings.HasPrefix(state, "Z")
	}
}

// number returns the number that a process says next.
func number(t *testing.T, process *clitest.Redlock) int {
	t.Helper()
	n, err := strconv.Atoi(process.Next(t))
	require.NoError(t, err)
	return n
}

// line returns the arguments of a redlock that runs a command under a lock.
func line(name, flags string, command ...string) []string {
	args := append([]string{"run", "--name", name}, strings.Fields(flags)...)
	return append(append(args, "--"), command...)
}

// run is [clitest.Run], again as long as this machine is so busy that no quorum answers within the
// bounds of redlock itself.
func run(t *testing.T, urls []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	clitest.WaitFor(t, "a quorum answers in time", func() bool {
		status, stdout, stderr = clitest.Run(t, urls, args...)
		return status != cli.ExitNoQuorum
	})
	return status, stdout, stderr
}

// runUntilItSays is run, again as long as this machine is so busy that redlock cannot tell what it
// should say.
func runUntilItSays(t *testing.T, says *regexp.Regexp, urls []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	clitest.WaitFor(t, "redlock says "+says.String(), func() bool {
		status, stdout, stderr = run(t, urls, args...)
		return says.MatchString(stderr)
	})
	return status, stdout, stderr
}

// patient gives redlock a minute until a quorum answers. Without it, 5 s are all.
const patient = "--wait 1m "

// hold starts a redlock whose command repeats what it is told until release, and waits until the
// command runs.
func hold(t *testing.T, urls []string, name, flags string) *clitest.Redlock {
	t.Helper()
	if !strings.Contains(flags, "wait") {
		flags = patient + flags
	}
	r := clitest.Start(t, urls, line(name, flags, "cat")...)
	require.Equal(t, "on", r.Ask(t, "on"))
	return r
}

func release(t *testing.T, r *clitest.Redlock) {
	t.Helper()
	require.NoError(t, r.CloseInput())
	status, stderr := r.End(t)
	assert.Zero(t, status, stderr)
}

// withoutVotes drops what redlock says of masters that are slow to answer on a busy machine (see
// TestMastersWithoutAVoteAreNamed), and that it waits for them.
func withoutVotes(stderr string) string {
	var said strings.Builder
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "redlock: no vote from ") && !strings.HasPrefix(line, "redlock: waiting for lock ") {
			said.WriteString(line)
		}
	}
	return said.String()
}

// inspect returns what the masters hold, once a quorum of them answers in time.
func inspect(t *testing.T, urls []string, name string) (status admin.Status) {
	t.Helper()
	l := cluster.NewConnected(t, urls)
	clitest.WaitFor(t, "a quorum shows the lock", func() (shown bool) {
		var err error
		status, err = admin.Of(l).Inspect(t.Context(), name)
		return err == nil
	})
	return status
}
