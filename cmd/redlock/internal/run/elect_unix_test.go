//go:build unix

package run

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// sayBeats says ID, term and time over and over, and ignores SIGTERM.
func sayBeats(self *child.Self) {
	signal.Ignore(syscall.SIGTERM)
	for ; ; time.Sleep(5 * time.Millisecond) {
		self.Tell(self.Args[0], os.Getenv("REDLOCK_FENCE"), time.Now().UnixNano())
	}
}

// startElect starts a redlock elect that runs a command.
func startElect(t *testing.T, urls []string, name string, ttl time.Duration, command ...string) *clitest.Redlock {
	t.Helper()
	return clitest.Start(t, urls, append([]string{"elect", "--name", name, "--ttl", ttl.String(), "--kill-rest", "--"}, command...)...)
}

// said is what the command of a leader says.
type said struct {
	id         string
	term, time int64
}

// ballot is three candidates, each behind proxies of its own.
type ballot struct {
	t       *testing.T
	by      []string // what starts their commands; nil for nothing
	proxies [3][]*redistest.Proxy
	urls    [3][]string
	all     [3]*clitest.Redlock

	mu    sync.Mutex // guards the field below
	beats []said
}

// begin starts a candidate.
func (b *ballot) begin(i int) {
	b.t.Helper()
	b.all[i] = startElect(b.t, b.urls[i], cluster.LockName(b.t), shortTTL, append(slices.Clip(b.by), clitest.As("says", strconv.Itoa(i))...)...)
	go func(lines <-chan string) { // ends with the candidate
		for line := range lines {
			var one said
			_, err := fmt.Sscan(line, &one.id, &one.term, &one.time)
			assert.NoError(b.t, err, line)
			b.mu.Lock()
			b.beats = append(b.beats, one)
			b.mu.Unlock()
		}
	}(b.all[i].Lines())
}

// awaitTerm waits until somebody beats in a later term.
func (b *ballot) awaitTerm(after int64) (last said) {
	b.t.Helper()
	clitest.WaitFor(b.t, "a later term", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.beats) > 0 {
			last = b.beats[len(b.beats)-1]
		}
		return last.term > after
	})
	return last
}

// toAll does something with all proxies of a candidate.
func (b *ballot) toAll(i int, do func(*redistest.Proxy)) {
	for _, p := range b.proxies[i] {
		do(p)
	}
}

// judge asserts that all beats of a term come before those of the next one, and all from one. It
// returns the number of terms.
func (b *ballot) judge() (terms int) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.SortFunc(b.beats, func(x, y said) int { return cmp.Compare(x.time, y.time) })
	before := said{}
	for _, one := range b.beats {
		assert.GreaterOrEqual(b.t, one.term, before.term, "%v after %v", one, before)
		if one.term != before.term {
			terms++
		} else {
			assert.Equal(b.t, before.id, one.id)
		}
		before = one
	}
	return terms
}

func TestElectEndsItsCommandBeforeAnotherLeads(t *testing.T) {
	t.Parallel()
	rounds := 1
	if os.Getenv("REDQUORUM_SOAK") == "1" {
		rounds = 10
	}
	c := cluster.Start(t, 3)
	drop := func(b *ballot, leader int) {
		b.toAll(leader, func(p *redistest.Proxy) { p.Drop(redistest.Both, true) })
	}
	for way, it := range []struct {
		name   string
		depose func(b *ballot, leader int)
		by     []string
	}{
		{"hold replies", func(b *ballot, leader int) {
			b.toAll(leader, func(p *redistest.Proxy) { p.Hold(redistest.Replies, true) })
		}, nil},
		{"drop", drop, nil},
		{"drop, in another session", drop, []string{"sh", "-c", `setsid "$0" "$@" & wait`}},
		{"kill", func(b *ballot, leader int) { require.NoError(b.t, b.all[leader].Kill()) }, nil},
	} {
		t.Run(it.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("setsid"); err != nil && it.by != nil {
				t.Skip("no setsid")
			}
			b := &ballot{t: t, by: it.by}
			for i := range b.all {
				b.proxies[i], b.urls[i] = c.BehindProxies(t)
				b.begin(i)
			}
			last := b.awaitTerm(0)
			for round := range rounds {
				leader, err := strconv.Atoi(last.id)
				require.NoError(t, err)
				time.Sleep(time.Duration(way+round) * shortTTL / 12) // the moment varies
				it.depose(b, leader)
				last = b.awaitTerm(last.term)
				b.toAll(leader, (*redistest.Proxy).Heal)
				if b.all[leader].Killed() {
					b.begin(leader)
				}
				time.Sleep(shortTTL / 8) // in which the deposed one would beat, if it did
			}
			if it.by != nil { // the shell ends, and redlock ends what it leaves
				for _, one := range b.all {
					require.NoError(t, syscall.Kill(one.Pid(), syscall.SIGTERM))
				}
				for _, one := range b.all {
					one.End(t)
				}
			}
			assert.GreaterOrEqual(t, b.judge(), rounds+1)
		})
	}
}

func TestElectRunsItsCommandAgainWhenItLeadsAgain(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	r := startElect(t, c.URLs(), "x", lossTTL, "sh", "-c", `echo "$REDLOCK_NAME $REDLOCK_FENCE"; exec sleep 60`)
	l := cluster.NewConnected(t, c.URLs())
	const terms = 3
	var last int64
	for n := range terms {
		var name string
		var term int64
		line := r.Next(t)
		_, err := fmt.Sscan(line, &name, &term)
		require.NoError(t, err, line)
		assert.Equal(t, fmt.Sprint("x ", term), line)
		assert.Greater(t, term, last)
		last = term
		if n < terms-1 {
			require.NoError(t, admin.Of(l).ForceUnlock(t.Context(), "x"))
		}
	}
	require.NoError(t, syscall.Kill(r.Pid(), syscall.SIGTERM))
	status, stderr := r.End(t)
	assert.Equal(t, cli.ExitSignal+int(syscall.SIGTERM), status, "of the command")
	assert.Equal(t, terms, strings.Count(stderr, "leads \"x\", term "), stderr)
	assert.Equal(t, terms-1, strings.Count(stderr, "lock \"x\" is lost"), stderr)
}

func TestElectEndsWithTheStatusOfACommandThatEndsByItself(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	for _, want := range []int{0, 7} {
		status, stderr := startElect(t, c.URLs(), "x", lossTTL, "sh", "-c", fmt.Sprint("exit ", want)).End(t)
		assert.Equal(t, want, status, stderr)
	}
	// The leadership is free at once.
	status, stdout, stderr := run(t, c.URLs(), "elect", "--name", "x", "--ttl", "1m", "--quiet", "echo", "ran")
	assert.Equal(t, 0, status)
	assert.Equal(t, "ran\n", stdout)
	assert.Empty(t, stderr)
}

func TestSignalsEndACampaignAndGoToTheCommandWhileItRuns(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	leader := startElect(t, c.URLs(), "x", lossTTL, "sh", "-c", `trap "exit 9" TERM; echo ready; while :; do sleep 0.01; done`)
	require.Equal(t, "ready", leader.Next(t))
	follower := startElect(t, c.URLs(), "x", lossTTL, "echo", "ran")
	clitest.WaitFor(t, "it campaigns", func() bool { return c.Waiting(t, "x") > 0 })
	require.NoError(t, syscall.Kill(follower.Pid(), syscall.SIGTERM))
	status, stderr := follower.End(t)
	assert.Equal(t, cli.ExitSignal+int(syscall.SIGTERM), status)
	assert.Contains(t, stderr, "ended while campaigning: terminated")
	assert.Regexp(t, `redlock: waits to lead "x", led by ".*"( since 2|, which asked for it at 2)`, stderr)
	require.NoError(t, syscall.Kill(leader.Pid(), syscall.SIGTERM))
	assert.Equal(t, 9, leader.Wait(t))
}

// It was asked to end, so it must not campaign again.
func TestASignalIsNotForgottenWithTheLeadership(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	r := startElect(t, c.URLs(), "x", shortTTL, clitest.As("says", "a")...) // ignores SIGTERM
	first := strings.Fields(r.Next(t))
	require.NoError(t, syscall.Kill(r.Pid(), syscall.SIGTERM))
	time.Sleep(shortTTL / 4)
	for _, m := range c.Masters {
		require.NoError(t, m.Kill())
	}
	status, stderr := r.End(t)
	assert.Equal(t, cli.ExitSignal+int(syscall.SIGTERM), status, stderr)
	for line := range r.Lines() {
		assert.Equal(t, first[1], strings.Fields(line)[1], "the term")
	}
}

func TestElectSaysThatTooFewMastersAnswer(t *testing.T) {
	t.Parallel()
	status, _, stderr := clitest.Run(t, []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, "elect", "--name", "x", "true")
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.Contains(t, stderr, "no quorum")
}

func TestElectSaysThatItsTTLIsAboveTheMaximumOfTheCluster(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	status, _, stderr := run(t, c.URLs(), "run", "--name", "x", "--ttl", "2s", "--max-ttl", "2s", "true")
	require.Equal(t, 0, status, stderr)
	status, _, stderr = clitest.Run(t, c.URLs(), "elect", "--name", "x", "true")
	assert.Equal(t, cli.ExitUsage, status, stderr)
	assert.Contains(t, stderr, "redlock: TTL 30s is above the cluster's maximum of 2s")
}

// No leader will ever give it up.
func TestElectSaysThatTheNameIsThatOfAKeyThatIsNoLock(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	for _, m := range c.Masters {
		_, err := m.Do("SET", "p:x", "v")
		require.NoError(t, err)
	}
	status, _, stderr := run(t, c.URLs(), "elect", "--name", "x", "--key-prefix", "p:", "--quiet", "true")
	assert.Equal(t, cli.ExitMisnamed, status)
	assert.Equal(t, "redlock: the key \"p:x\" does not expire: it is no lock; use another name or --key-prefix\n", stderr)
}

// A power cut ends masters and candidates together. Nobody is there to start a candidate again.
func TestTheStartWaitsForAQuorumThatIsQuarantined(t *testing.T) {
	t.Parallel()
	const flags = "--max-ttl 8s --ttl 3s"
	words := map[string][]string{
		"elect": strings.Fields("elect --name e " + flags + " echo ran"),
		"run":   line("r", flags, "echo", "ran"),
	}
	formed := func(t *testing.T) *cluster.Cluster {
		t.Helper()
		c := cluster.Start(t, 3)
		status, _, stderr := run(t, c.URLs(), line("x", patient+flags, "true")...)
		require.Equal(t, 0, status, stderr)
		return c
	}
	for name, args := range words {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := formed(t)
			require.NoError(t, c.Masters[0].Kill())
			require.NoError(t, c.Masters[1].Restart())
			status, stdout, stderr := clitest.Run(t, c.URLs(), args...)
			assert.Equal(t, 0, status, stderr)
			assert.Equal(t, "ran\n", stdout)
			assert.Contains(t, stderr, ": quarantined for another ")
		})
	}
	t.Run("a new cluster that lacks a master", func(t *testing.T) {
		t.Parallel()
		c := cluster.StartYoung(t, 3)
		require.NoError(t, c.Masters[2].Kill())
		status, _, stderr := clitest.Run(t, c.URLs(), words["elect"]...)
		assert.Equal(t, cli.ExitNoQuorum, status, stderr)
	})
	t.Run("elect is told to wait", func(t *testing.T) {
		t.Parallel()
		c := formed(t)
		for _, m := range c.Masters {
			require.NoError(t, m.Kill())
		}
		impatient := clitest.Start(t, c.URLs(), "elect", "--name", "x", "--wait", "100ms", "true")
		r := clitest.Start(t, c.URLs(), append([]string{"elect", "--wait", "10m"}, words["elect"][1:]...)...)
		status, stderr := impatient.End(t)
		assert.Equal(t, cli.ExitNoQuorum, status, stderr)
		time.Sleep(connectBound + time.Second) // for which it would wait without being told
		for _, m := range c.Masters {
			require.NoError(t, m.Restart())
		}
		assert.Equal(t, "ran", r.Next(t))
		status, stderr = r.End(t)
		assert.Equal(t, 0, status, stderr)
	})
}
