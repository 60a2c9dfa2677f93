//go:build unix

package elect

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// ttl keeps these tests short, but not so short that a busy machine wakes redlock up too late.
const ttl = 3 * time.Second

// play is the command that redlock runs: it appends lines to FILE, each with ID, term and time, and
// ignores SIGTERM.
func play(_ string, args []string) int {
	signal.Ignore(syscall.SIGTERM)
	file, err := os.OpenFile(args[0], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	for ; ; time.Sleep(time.Millisecond) {
		if _, err := fmt.Fprintln(file, args[1], os.Getenv("REDLOCK_FENCE"), time.Now().UnixNano()); err != nil {
			return 1
		}
	}
}

// start starts a redlock elect that runs a command.
func start(t *testing.T, urls []string, command ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	cmd = clitest.Process(t, urls, append([]string{"elect", "--name", "x", "--ttl", ttl.String(), "--"}, command...)...)
	stderr = &bytes.Buffer{}
	cmd.Stderr = stderr
	require.NoError(t, cmd.Start())
	return cmd, stderr
}

// startBeat starts one whose command writes beats.
func startBeat(t *testing.T, urls []string, file, id string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	return start(t, urls, "env", clitest.RoleVariable+"=beat", binary, file, id)
}

// beat is a line of the file.
type beat struct {
	id         string
	term, time int64
}

func readBeats(t *testing.T, file string) (all []beat) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		all = append(all, parseBeat(t, line))
	}
	return all
}

func parseBeat(t *testing.T, line string) beat {
	t.Helper()
	fields := strings.Fields(line)
	require.Len(t, fields, 3, line)
	term, err := strconv.ParseInt(fields[1], 10, 64)
	require.NoError(t, err, line)
	at, err := strconv.ParseInt(fields[2], 10, 64)
	require.NoError(t, err, line)
	return beat{id: fields[0], term: term, time: at}
}

// awaitTerm waits until somebody beats in a later term.
func awaitTerm(t *testing.T, file string, after int64) (last beat) {
	t.Helper()
	clitest.WaitFor(t, "a later term", func() bool {
		last = lastBeat(t, file)
		return last.term > after
	})
	return last
}

// lastBeat reads the end of the file only: it is looked at every 2 ms, and grows.
func lastBeat(t *testing.T, name string) (last beat) {
	t.Helper()
	const enough = 256 // bytes, for several lines
	file, err := os.Open(name)
	if err != nil {
		return last
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	require.NoError(t, err)
	text := make([]byte, min(size, enough))
	_, err = file.ReadAt(text, size-int64(len(text)))
	require.NoError(t, err)
	if lines := strings.Split(string(text), "\n"); len(lines) > 2 { // the last one is being written
		last = parseBeat(t, lines[len(lines)-2])
	}
	return last
}

// judge asserts that all beats of a term come before those of the next one, and all from one.
func judge(t *testing.T, all []beat) (terms int) {
	t.Helper()
	for i, b := range all {
		if i == 0 || b.term != all[i-1].term {
			terms++
		}
		if i == 0 {
			continue
		}
		before := all[i-1]
		assert.GreaterOrEqual(t, b.term, before.term, "%v after %v", b, before)
		if b.term == before.term {
			assert.Equal(t, before.id, b.id)
		} else {
			assert.Greater(t, b.time, before.time)
		}
	}
	return terms
}

func TestElectEndsItsCommandBeforeAnotherLeads(t *testing.T) {
	t.Parallel()
	for _, first := range []int{0, 3} {
		t.Run(fmt.Sprint("rounds from ", first), func(t *testing.T) {
			t.Parallel()
			requireOneAfterTheOther(t, first)
		})
	}
}

// requireOneAfterTheOther deposes the leader in three rounds. The number of the round chooses how
// and when.
func requireOneAfterTheOther(t *testing.T, first int) {
	t.Helper()
	servers, _ := clitest.StartServers(t, 3)
	file := filepath.Join(t.TempDir(), "beats")
	const size = 3
	var proxies [size][]*redistest.Proxy
	var all [size]*exec.Cmd
	begin := func(i int) { all[i], _ = startBeat(t, clitest.URLs(proxies[i]), file, fmt.Sprint(i)) }
	for i := range size {
		for _, s := range servers {
			proxies[i] = append(proxies[i], redistest.NewProxy(t, s.Addr()))
		}
		begin(i)
	}
	last := awaitTerm(t, file, 0)
	for round := first; round < first+3; round++ {
		var leader int
		_, err := fmt.Sscan(last.id, &leader)
		require.NoError(t, err)
		time.Sleep(time.Duration(round) * ttl / 8) // the moment varies
		switch {
		case round%3 == 2:
			require.NoError(t, all[leader].Process.Kill())
			require.Error(t, all[leader].Wait())
			last = awaitTerm(t, file, last.term)
			begin(leader)
		default:
			for _, p := range proxies[leader] {
				if round%3 == 0 {
					p.Drop(redistest.Both, true)
				} else {
					p.Hold(redistest.Replies, true)
				}
			}
			last = awaitTerm(t, file, last.term)
			for _, p := range proxies[leader] {
				p.Heal()
			}
		}
	}
	beats := readBeats(t, file)
	assert.GreaterOrEqual(t, judge(t, beats), 4)
}

func TestElectRunsItsCommandAgainWhenItLeadsAgain(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	file := filepath.Join(t.TempDir(), "terms")
	cmd, stderr := start(t, urls, "sh", "-c", `echo "$REDLOCK_NAME $REDLOCK_FENCE $REDLOCK_NODES" >> "$0"; exec sleep 60`, file)
	lines := func(n int) (all []string) {
		clitest.WaitFor(t, fmt.Sprint(n, " terms"), func() bool {
			text, _ := os.ReadFile(file) //nolint:errcheck // not yet
			all = strings.Split(strings.TrimSpace(string(text)), "\n")
			return strings.Count(string(text), "\n") == n
		})
		return all
	}
	l, err := redlock.New(urls)
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, l.Ready(t.Context()))
	var last int64
	for n := 1; n <= 3; n++ {
		var name string
		var term int64
		line := lines(n)[n-1]
		_, err := fmt.Sscan(line, &name, &term)
		require.NoError(t, err, line)
		assert.Equal(t, fmt.Sprint("x ", term), strings.TrimSpace(line), "no masters")
		assert.Greater(t, term, last)
		last = term
		require.NoError(t, l.ForceUnlock(t.Context(), "x"))
	}
	lines(4)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, cli.ExitSignal+int(syscall.SIGTERM), clitest.Await(t, cmd), "of the command")
	assert.Equal(t, 4, strings.Count(stderr.String(), "leads \"x\", term "), stderr)
	assert.Equal(t, 3, strings.Count(stderr.String(), "lock \"x\" is lost"), stderr)
}

func TestElectEndsWithTheStatusOfACommandThatEndsByItself(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	for _, want := range []int{0, 7} {
		cmd, stderr := start(t, urls, "sh", "-c", fmt.Sprint("exit ", want))
		assert.Equal(t, want, clitest.Await(t, cmd), stderr)
	}
	// The leadership is free at once.
	status, stdout, stderr := clitest.Run(t, urls, "elect", "--name", "x", "--ttl", "1m", "--quiet", "echo", "ran")
	assert.Equal(t, 0, status)
	assert.Equal(t, "ran\n", stdout)
	assert.Empty(t, stderr)
}

func TestSignalsEndACampaignAndGoToTheCommandWhileItRuns(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	ready := filepath.Join(t.TempDir(), "ready")
	leader, _ := start(t, urls, "sh", "-c", `trap "exit 9" TERM; : > "$0"; while :; do sleep 0.01; done`, ready)
	clitest.WaitFor(t, "the command", func() bool { _, err := os.Stat(ready); return err == nil })
	follower, stderr := start(t, urls, "echo", "ran")
	l, err := redlock.New(urls)
	require.NoError(t, err)
	defer l.Close()
	clitest.WaitFor(t, "it campaigns", func() bool {
		status, err := l.Inspect(t.Context(), "x")
		return err == nil && slices.ContainsFunc(status.Nodes, func(n redlock.NodeStatus) bool { return n.Waiting > 0 })
	})
	require.NoError(t, follower.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, cli.ExitSignal+int(syscall.SIGTERM), clitest.Await(t, follower))
	assert.Contains(t, stderr.String(), "ended while campaigning: terminated")
	require.NoError(t, leader.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 9, clitest.Await(t, leader))
}

// It was asked to end, so it must not campaign again.
func TestASignalIsNotForgottenWithTheLeadership(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartServers(t, 3)
	file := filepath.Join(t.TempDir(), "beats")
	cmd, stderr := startBeat(t, urls, file, "a") // ignores SIGTERM
	awaitTerm(t, file, 0)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	time.Sleep(ttl / 4)
	for _, s := range servers {
		require.NoError(t, s.Kill())
	}
	assert.Equal(t, cli.ExitSignal+int(syscall.SIGTERM), clitest.Await(t, cmd), stderr)
	assert.Equal(t, 1, judge(t, readBeats(t, file)))
}

func TestElectSaysThatTooFewMastersAnswer(t *testing.T) {
	t.Parallel()
	status, _, stderr := clitest.Run(t, []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, "elect", "--name", "x", "true")
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.Contains(t, stderr, "no quorum")
}

// No leader will ever give it up.
func TestElectSaysThatTheNameIsThatOfAKeyThatIsNoLock(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartServers(t, 3)
	for _, s := range servers {
		_, err := s.Do("SET", "p:x", "v")
		require.NoError(t, err)
	}
	status, _, stderr := clitest.Run(t, urls, "elect", "--name", "x", "--key-prefix", "p:", "--quiet", "true")
	assert.Equal(t, cli.ExitMisnamed, status)
	assert.Equal(t, "redlock: the key \"p:x\" does not expire: it is no lock; use another name or --key-prefix\n", stderr)
}
