package run

import (
	"bytes"
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
	"github.com/redquorum/redquorum/internal/redistest"
)

// lossTTL keeps these tests short.
const lossTTL = time.Second

// startBeat starts a redlock that holds a lock of lossTTL for a command that ignores SIGTERM and writes the time into a file.
func startBeat(t *testing.T, urls []string, name string, flags ...string) (cmd *exec.Cmd, pulse string, stderr *bytes.Buffer) {
	t.Helper()
	pulse = filepath.Join(t.TempDir(), "pulse")
	args := append([]string{"run", "--name", name, "--ttl", lossTTL.String()}, flags...)
	cmd = clitest.Process(t, urls, append(append(args, "--"), asPart(t, "beat", pulse)...)...)
	stderr = &bytes.Buffer{}
	cmd.Stderr = stderr
	require.NoError(t, cmd.Start())
	clitest.WaitFor(t, "the command runs", func() bool {
		_, _, err := readBeat(pulse)
		return err == nil
	})
	return cmd, pulse, stderr
}

// requireHandover runs a second redlock, which must get the lock, and only when the command of the first is gone.
func requireHandover(t *testing.T, urls []string, name, pulse string) {
	t.Helper()
	status, stdout, stderr := clitest.Run(t, urls,
		append([]string{"run", "--name", name, "--ttl", lossTTL.String(), "--wait", "20s", "--"}, asPart(t, "witness", pulse)...)...)
	require.Equal(t, 0, status, "the command of the first holder is to be gone: %s%s", stdout, stderr)
}

// A way to take the masters from a holder, and what gives them back to others.
type cutting struct {
	name string
	cut  func([]*redistest.Proxy)
}

var cuttings = []cutting{
	{"drop", func(proxies []*redistest.Proxy) {
		for _, p := range proxies {
			p.Drop(redistest.Both, true)
		}
	}},
	{"hold replies", func(proxies []*redistest.Proxy) {
		for _, p := range proxies {
			p.Hold(redistest.Replies, true) // renewals arrive, and nobody hears of it
		}
	}},
	{"refuse", func(proxies []*redistest.Proxy) {
		for _, p := range proxies {
			p.Refuse(true)
			p.Reset()
		}
	}},
}

// The order is: the command is gone, the validity ends, the masters forget. At random moments of the life of a lock.
func TestCommandIsGoneBeforeAnotherCanHaveTheLock(t *testing.T) {
	t.Parallel()
	tries := 4
	if os.Getenv("REDQUORUM_SOAK") == "1" {
		tries = 50
	}
	servers, urls := clitest.StartServers(t, 5)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	slots := make(chan struct{}, 4) // more at once, and a small machine is the subject of the test
	for i := range tries {
		c, moment := cuttings[i%len(cuttings)], time.Duration(random.Int64N(int64(lossTTL)))
		majority := random.Perm(5)[:3+random.IntN(3)]
		t.Run(fmt.Sprintf("%d %s after %v %v", i, c.name, moment.Round(time.Millisecond), majority), func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			var proxies []*redistest.Proxy
			for _, s := range servers {
				proxies = append(proxies, redistest.NewProxy(t, s.Addr()))
			}
			name := fmt.Sprint("cut ", i)
			cmd, pulse, stderr := startBeat(t, clitest.URLs(proxies), name)
			time.Sleep(moment) // the moment is what is varied
			var cutOff []*redistest.Proxy
			for _, m := range majority {
				cutOff = append(cutOff, proxies[m])
			}
			c.cut(cutOff)
			requireHandover(t, urls, name, pulse)
			require.Equal(t, cli.ExitLost, clitest.Await(t, cmd))
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line: %s", stderr)
			require.Contains(t, stderr.String(), "could not be renewed; the command gets SIGTERM now and SIGKILL in ")
		})
	}
}

// Masters that are stopped execute what they were sent when they go on, renewals too.
func TestCommandIsGoneWhenStoppedMastersGoOn(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartServers(t, 3)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	cmd, pulse, _ := startBeat(t, urls, "x")
	for _, s := range servers[:2] {
		require.NoError(t, s.Stop())
	}
	time.Sleep(lossTTL/2 + time.Duration(random.Int64N(int64(lossTTL)))) // the moment is what is varied
	for _, s := range servers[:2] {
		require.NoError(t, s.Continue())
	}
	pid, _, err := readBeat(pulse)
	require.NoError(t, err)
	if dead(pid)() {
		require.Equal(t, cli.ExitLost, clitest.Await(t, cmd))
	} else { // they went on in time, and it has the lock to this day; or it is being killed now
		require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
	}
	requireHandover(t, urls, "x", pulse)
}

func TestKilledRedlockTakesItsCommandAlongAndTheNextWaitsForTheTTL(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	cmd, pulse, _ := startBeat(t, urls, "x")
	pid, _, err := readBeat(pulse)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	clitest.WaitFor(t, "the command dies", dead(pid))
	_, last, err := readBeat(pulse)
	require.NoError(t, err)
	status, _, stderr := clitest.Run(t, urls, "run", "--name", "x", "--no-wait", "true")
	if time.Since(time.Unix(0, last)) < lossTTL/3 { // it was renewed no longer than a third and a bit before
		assert.Equal(t, cli.ExitTaken, status, stderr)
	}
	requireHandover(t, urls, "x", pulse)
	assert.Greater(t, time.Since(time.Unix(0, last)), lossTTL/2, "not before the rest of the TTL")
}

// A majority of the masters says that the lock is not ours: there is no time for anything but SIGKILL.
func TestLockThatIsDeletedEndsTheCommandAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	cmd, pulse, stderr := startBeat(t, urls, "x")
	pid, _, err := readBeat(pulse)
	require.NoError(t, err)
	require.NoError(t, open(t, urls).ForceUnlock(t.Context(), "x"))
	assert.Equal(t, cli.ExitLost, clitest.Await(t, cmd))
	assert.Contains(t, stderr.String(), "no longer has it; the command gets SIGKILL")
	assert.True(t, dead(pid)())
}

// What the command has started in its group ends with it, though it ignores SIGTERM and though its parent has gone.
func TestGrandchildrenEndWithTheLock(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	pidFile := filepath.Join(t.TempDir(), "pid")
	cmd := clitest.Process(t, urls, "run", "--name", "x", "--ttl", lossTTL.String(), "--max-hold", "700ms", "--", "sh", "-c",
		`sh -c 'trap "" TERM; echo $$ > "$0"; while :; do sleep 0.01; done' "$0" & wait`, pidFile)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	pid := pidIn(t, pidFile)
	assert.Equal(t, cli.ExitLost, clitest.Await(t, cmd))
	clitest.WaitFor(t, "the grandchild dies", dead(pid))
	assert.Contains(t, stderr.String(), "after --max-hold")
}

// The time between SIGTERM and SIGKILL is the command's to end in its own way.
func TestCommandThatHeedsSIGTERMEndsInItsOwnWay(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	status, stdout, _ := clitest.Run(t, urls, "run", "--name", "x", "--ttl", lossTTL.String(), "--max-hold", "700ms", "--kill-after", "300ms", "--",
		"sh", "-c", `trap 'echo tidied up; exit 0' TERM; while :; do sleep 0.01; done`)
	assert.Equal(t, cli.ExitLost, status, "though the command says 0")
	assert.Equal(t, "tidied up\n", stdout)
}

func TestStoppedRedlockKillsItsCommandWhenItGoesOn(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	cmd, pulse, stderr := startBeat(t, urls, "x")
	pid, _, err := readBeat(pulse)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	// The lock is another's, so the TTL has passed. The first command still runs: nobody could end it.
	status, _, errs := clitest.Run(t, urls, "run", "--name", "x", "--wait", "20s", "true")
	require.Equal(t, 0, status, errs)
	require.False(t, dead(pid)())
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	assert.Equal(t, cli.ExitLost, clitest.Await(t, cmd))
	assert.True(t, dead(pid)())
	assert.Contains(t, stderr.String(), "the command gets SIGKILL")
}
