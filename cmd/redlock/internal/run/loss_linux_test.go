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
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// lossTTL keeps these tests short, but not so short that a busy machine wakes redlock up too late
// to end the command in time: the margin is a fortieth of it.
const lossTTL = 4 * time.Second

// startBeat starts a redlock that holds a lock of lossTTL for a command that ignores SIGTERM and
// writes the time into a file.
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

// requireHandover runs a second redlock. It must get the lock, and only after the first command is
// gone.
func requireHandover(t *testing.T, urls []string, name, pulse string) {
	t.Helper()
	status, stdout, stderr := clitest.Run(t, urls,
		append([]string{"run", "--name", name, "--ttl", lossTTL.String(), "--wait", "1m", "--"}, asPart(t, "witness", pulse)...)...)
	require.Equal(t, 0, status, "the command of the first holder must be gone: %s%s", stdout, stderr)
}

// cutting is a way to cut a holder off from its masters.
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
			p.Hold(redistest.Replies, true) // renewals arrive, and nobody learns of it
		}
	}},
	{"refuse", func(proxies []*redistest.Proxy) {
		for _, p := range proxies {
			p.Refuse(true)
			p.Reset()
		}
	}},
}

// First the command is gone, then the validity ends, then the masters forget. At random moments in
// the life of a lock.
func TestCommandIsGoneBeforeAnotherCanGetTheLock(t *testing.T) {
	t.Parallel()
	tries := 4
	if os.Getenv("REDQUORUM_SOAK") == "1" {
		tries = 50
	}
	servers, urls := clitest.StartServers(t, 5)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	slots := make(chan struct{}, 4) // with more at once, the test is about a small machine
	for i := range tries {
		c, moment := cuttings[i%len(cuttings)], time.Duration(random.Int64N(int64(lossTTL/2)))
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
			time.Sleep(moment) // the moment varies
			var cutOff []*redistest.Proxy
			for _, m := range majority {
				cutOff = append(cutOff, proxies[m])
			}
			c.cut(cutOff)
			requireHandover(t, urls, name, pulse)
			require.Equal(t, cli.ExitLost, clitest.Await(t, cmd))
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line: %s", stderr)
			// The others on a machine so busy that redlock wakes up late.
			require.Regexp(t, "could not be renewed; the command gets SIG(TERM now and SIGKILL in |KILL)|is lost: ", stderr.String())
		})
	}
}

// Stopped masters execute what they were sent once they continue, including renewals.
func TestCommandIsGoneWhenStoppedMastersContinue(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartServers(t, 3)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	cmd, pulse, _ := startBeat(t, urls, "x")
	for _, s := range servers[:2] {
		require.NoError(t, s.Stop())
	}
	time.Sleep(lossTTL/2 + time.Duration(random.Int64N(int64(lossTTL)))) // the moment varies
	for _, s := range servers[:2] {
		require.NoError(t, s.Continue())
	}
	pid, _, err := readBeat(pulse)
	require.NoError(t, err)
	if dead(pid)() {
		require.Equal(t, cli.ExitLost, clitest.Await(t, cmd))
	} else { // the masters continued in time and it still has the lock; or it is being killed now
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
	// The last renewal is little more than a third of the TTL ago.
	if time.Since(time.Unix(0, last)) < lossTTL/3 {
		assert.Equal(t, cli.ExitTaken, status, stderr)
	}
	requireHandover(t, urls, "x", pulse)
	assert.Greater(t, time.Since(time.Unix(0, last)), lossTTL/2, "not before the rest of the TTL")
}

// A majority of the masters says that the lock is not ours, so there is time only for SIGKILL.
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

// What the command has started in its group ends with it, even if it ignores SIGTERM and its parent
// is gone.
func TestGrandchildrenEndWithTheLock(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	pidFile := filepath.Join(t.TempDir(), "pid")
	cmd := clitest.Process(t, urls, "run", "--name", "x", "--ttl", "6s", "--max-hold", "4s", "--", "sh", "-c",
		`sh -c 'trap "" TERM; echo $$ > "$0"; while :; do sleep 0.01; done' "$0" & wait`, pidFile)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	pid := pidIn(t, pidFile)
	assert.Equal(t, cli.ExitLost, clitest.Await(t, cmd))
	clitest.WaitFor(t, "the grandchild dies", dead(pid))
	// The second on a machine so busy that redlock wakes up only when the hold has ended.
	assert.Regexp(t, "after --max-hold|its maximum hold has ended", stderr.String())
}

// Between SIGTERM and SIGKILL the command may end in its own way.
func TestCommandThatHeedsSIGTERMEndsInItsOwnWay(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	status, stdout, _ := clitest.Run(t, urls, "run", "--name", "x",
		"--ttl", "6s", "--max-hold", "4s", "--kill-after", "2s", "--", // long, for a busy machine
		"sh", "-c", `trap 'echo tidied up; exit 0' TERM; while :; do sleep 0.01; done`)
	assert.Equal(t, cli.ExitLost, status, "though the command says 0")
	assert.Equal(t, "tidied up\n", stdout)
}

func TestStoppedRedlockKillsItsCommandWhenItContinues(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	cmd, pulse, stderr := startBeat(t, urls, "x")
	pid, _, err := readBeat(pulse)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	// Another client has the lock, so the TTL has passed. The first command still runs: nobody
	// could end it.
	status, _, errs := clitest.Run(t, urls, "run", "--name", "x", "--wait", "20s", "true")
	require.Equal(t, 0, status, errs)
	require.False(t, dead(pid)())
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	assert.Equal(t, cli.ExitLost, clitest.Await(t, cmd))
	assert.True(t, dead(pid)())
	assert.Contains(t, stderr.String(), "the command gets SIGKILL")
}
