//go:build linux

package scenario_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// electionTTL is short, so that much can happen in little time.
const electionTTL = 500 * time.Millisecond

// runCandidate is a process that campaigns, and prints its term and an instant at which it led, all
// the time, on the clock that all processes of the machine share. A line of input makes it resign.
//
// It reads the clock first. If it is stopped before it has found out that it leads, it prints
// nothing.
func runCandidate(t *testing.T, name string, urls []string) {
	l, err := redlock.New(urls, redlock.WithTTL(electionTTL))
	require.NoError(t, err)
	e, err := election.New(l, name)
	require.NoError(t, err)
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			_ = e.Resign(context.Background()) //nolint:errcheck // masters may be away
		}
	}()
	err = e.Run(context.Background(), func(ctx context.Context, term int64) error {
		for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if now := clock.System().Now(); e.IsLeader() {
				fmt.Println(int64(now), term)
			}
		}
		return nil
	})
	require.NoError(t, err)
}

// moment is a moment at which a candidate led.
type moment struct {
	who  int
	at   clock.Instant
	term int64
}

// candidates is the processes, and what they printed.
type candidates struct {
	t    *testing.T
	urls []string

	mu      sync.Mutex // guards the fields below
	moments []moment
	next    int
}

type candidate struct {
	id      int
	command *exec.Cmd
	in      io.Writer
	said    chan struct{} // closed when it has ended and all its lines are read
}

func (a *candidates) start() *candidate {
	a.t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^"+a.t.Name()+"$")
	command.Env = append(os.Environ(), childName+"="+cluster.LockName(a.t), childNodes+"="+strings.Join(a.urls, ","))
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	require.NoError(a.t, err)
	out, err := command.StdoutPipe()
	require.NoError(a.t, err)
	require.NoError(a.t, command.Start())
	c := &candidate{id: a.next, command: command, in: in, said: make(chan struct{})}
	a.next++
	go func() {
		defer close(c.said)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			m := moment{who: c.id}
			if _, err := fmt.Sscan(lines.Text(), (*int64)(&m.at), &m.term); err != nil {
				a.t.Errorf("candidate %d: %s", c.id, lines.Text())
				continue
			}
			a.mu.Lock()
			a.moments = append(a.moments, m)
			a.mu.Unlock()
		}
	}()
	return c
}

func (a *candidates) end(c *candidate) {
	assert.NoError(a.t, c.command.Process.Kill())
	<-c.said
	assert.Error(a.t, c.command.Wait(), "killed")
}

// last returns the last moment that was printed.
func (a *candidates) last() moment {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.moments) == 0 {
		return moment{who: -1}
	}
	return a.moments[len(a.moments)-1]
}

// awaitLeader waits until somebody leads in a term after this one.
func (a *candidates) awaitLeader(after int64) moment {
	a.t.Helper()
	cluster.Eventually(a.t, time.Minute, func() string {
		if a.last().term > after {
			return ""
		}
		return fmt.Sprint("a leader after term ", after)
	})
	return a.last()
}

// judge asserts that at most one led at any moment, that terms grew, and that a Watch told them all
// in order.
func (a *candidates) judge(told []int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.SortStableFunc(a.moments, func(x, y moment) int { return int(x.at - y.at) })
	terms := 0
	for i, m := range a.moments {
		if i == 0 || m.term != a.moments[i-1].term {
			terms++
			assert.True(a.t, i == 0 || m.term > a.moments[i-1].term, "%v after %v", m, a.moments[max(i-1, 0)])
			assert.Contains(a.t, told, m.term, "not told")
		} else {
			assert.Equal(a.t, a.moments[i-1].who, m.who)
		}
	}
	assert.True(a.t, slices.IsSorted(told), "%v", told)
	a.t.Logf("%d terms, %d moments; Watch told %d", terms, len(a.moments), len(told))
}

// Leaders and followers are killed and stopped and resign, and masters are stopped.
func TestAtMostOneLeadsWhenLeadersAreKilledStoppedAndResign(t *testing.T) {
	if name := os.Getenv(childName); name != "" {
		runCandidate(t, name, strings.Split(os.Getenv(childNodes), ","))
		return
	}
	t.Parallel()
	const size = 4
	c := cluster.Start(t, 5)
	rng := rand.New(rand.NewPCG(seedOf(t), 0))
	told := watchElection(t, c.URLs())
	a := &candidates{t: t, urls: c.URLs()}
	all := make([]*candidate, size)
	for i := range all {
		all[i] = a.start()
	}
	leader := a.awaitLeader(0)
	for range sizeOf(t, 20, 500) {
		time.Sleep(upTo(rng, electionTTL/2))
		i := max(slices.IndexFunc(all, func(c *candidate) bool { return c.id == a.last().who }), 0)
		deposed := true
		switch rng.IntN(5) {
		case 0:
			a.end(all[i])
			all[i] = a.start()
		case 1: // others lead meanwhile
			must(t, all[i].command.Process.Signal(syscall.SIGSTOP))
			leader = a.awaitLeader(leader.term)
			must(t, all[i].command.Process.Signal(syscall.SIGCONT))
			deposed = false
		case 2:
			_, err := fmt.Fprintln(all[i].in, "resign")
			must(t, err)
		case 3: // a follower
			i = (i + 1) % size
			a.end(all[i])
			all[i] = a.start()
			deposed = false
		case 4:
			m := c.Masters[rng.IntN(len(c.Masters))]
			must(t, m.Stop())
			time.Sleep(upTo(rng, electionTTL))
			must(t, m.Continue())
			deposed = false
		}
		if deposed {
			leader = a.awaitLeader(leader.term)
		}
		leader = a.last()
	}
	time.Sleep(2 * time.Second) // two looks of Watch
	for _, c := range all {
		a.end(c)
	}
	cluster.Eventually(t, time.Minute, func() string {
		if last := a.last().term; !slices.Contains(told(), last) {
			return fmt.Sprint("Watch has not told term ", last)
		}
		return ""
	})
	a.judge(told())
}

// watchElection begins a Watch, and returns a function for the terms that it has told.
func watchElection(t *testing.T, urls []string) func() []int64 {
	t.Helper()
	e, err := election.New(cluster.NewConnected(t, urls, redlock.WithNodeTimeout(patience), redlock.WithTTL(longTTL)), cluster.LockName(t))
	require.NoError(t, err)
	var mu sync.Mutex
	var terms []int64
	began := make(chan struct{})
	go func() { // ends with the test
		for leader := range e.Watch(t.Context()) {
			mu.Lock()
			if leader.Term != 0 && (len(terms) == 0 || terms[len(terms)-1] != leader.Term) {
				terms = append(terms, leader.Term)
			}
			mu.Unlock()
			select {
			case <-began:
			default:
				close(began)
			}
		}
	}()
	<-began
	return func() []int64 {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(terms)
	}
}
