//go:build linux

package scenario_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// Options of the processes that contend. They are short, so that much can happen in little time.
const (
	contenderTTL     = 300 * time.Millisecond
	contenderTimeout = 100 * time.Millisecond
	contenderGrace   = 2 * contenderTimeout
	contenderPoll    = 150 * time.Millisecond
	contenderHold    = 5 * time.Millisecond
)

// runContender is a process that locks and unlocks one name, and prints a word and an instant of
// the clock that all processes of the machine share: before it waits, when it holds, and before it
// releases. A line of input makes it give up its wait.
func runContender(t *testing.T, name string, urls []string) {
	l, err := redlock.New(urls, redlock.WithTTL(contenderTTL), redlock.WithNodeTimeout(contenderTimeout),
		redlock.WithRetry(contenderPoll/3, contenderPoll), redlock.WithoutRenewal())
	require.NoError(t, err)
	require.NoError(t, l.Ready(t.Context()))
	var mu sync.Mutex
	cancel := func() {}
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			mu.Lock()
			cancel()
			mu.Unlock()
		}
	}()
	now := clock.System().Now
	for {
		ctx, stop := context.WithCancel(context.Background())
		mu.Lock()
		cancel = stop
		mu.Unlock()
		fmt.Println("waits", int64(now()), 0)
		lock, err := l.Lock(ctx, name)
		stop()
		if err != nil {
			fmt.Println("gaveup", int64(now()), 0)
			require.ErrorIs(t, err, context.Canceled)
			continue
		}
		had := now()
		fmt.Println("holds", int64(had), int64(had.Add(lock.Remaining())))
		time.Sleep(contenderHold)
		fmt.Println("releases", int64(now()), 0)
		if err := lock.Unlock(context.Background()); err != nil {
			if !errors.Is(err, redlock.ErrNoQuorum) { // the machine is busy; the release goes on
				require.ErrorIs(t, err, redlock.ErrLost) // it was stopped
			}
		}
	}
}

// contender is such a process, as seen by its parent.
type contender struct {
	id      int
	command *exec.Cmd
	in      io.Writer
	said    chan struct{} // closed when it has ended and all its lines are read
}

// said is a line that a contender printed, or what was done to it.
type said struct {
	who      int
	word     string // waits, gaveup, holds, releases; killed, stopped, continued
	at, till clock.Instant
}

// arena has all contenders, and what they printed.
type arena struct {
	t    *testing.T
	urls []string

	mu     sync.Mutex // guards the fields below
	events []said
	next   int
	onNext func(said) // called once, with the next release
}

func (a *arena) note(e said) {
	a.mu.Lock()
	a.events = append(a.events, e)
	f := a.onNext
	if e.word == "releases" {
		a.onNext = nil
	}
	a.mu.Unlock()
	if e.word == "releases" && f != nil {
		f(e)
	}
}

func (a *arena) start() *contender {
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
	c := &contender{id: a.next, command: command, in: in, said: make(chan struct{})}
	a.next++
	go func() {
		defer close(c.said)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			e := said{who: c.id}
			if _, err := fmt.Sscan(lines.Text(), &e.word, (*int64)(&e.at), (*int64)(&e.till)); err != nil {
				a.t.Errorf("contender %d: %s", c.id, lines.Text())
				continue
			}
			a.note(e)
		}
	}()
	return c
}

func (a *arena) signal(c *contender, sig syscall.Signal, word string) {
	assert.NoError(a.t, c.command.Process.Signal(sig))
	a.note(said{who: c.id, word: word, at: clock.System().Now()})
}

func (a *arena) end(c *contender) {
	assert.NoError(a.t, c.command.Process.Kill())
	<-c.said
	assert.Error(a.t, c.command.Wait(), "killed")
	a.note(said{who: c.id, word: "killed", at: clock.System().Now()}) // it has done nothing since
}

// oldest returns the contender that has waited longest, or a random one.
func (a *arena) oldest(all []*contender, rng *rand.Rand) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	since := make(map[int]clock.Instant)
	for _, e := range a.events[max(0, len(a.events)-200):] {
		if e.word == "waits" {
			since[e.who] = e.at
		} else {
			delete(since, e.who)
		}
	}
	found, earliest := rng.IntN(len(all)), clock.Instant(-1)
	for i, c := range all {
		if at, waits := since[c.id]; waits && (earliest < 0 || at < earliest) {
			found, earliest = i, at
		}
	}
	return found
}

// Whatever happens to waiters and holders, at any moment, the others get the lock: at once, or when
// what the dead one held has expired.
func TestNobodyIsStuckWhenOthersAreKilledOrStoppedOrGiveUp(t *testing.T) {
	if name := os.Getenv(childName); name != "" {
		runContender(t, name, strings.Split(os.Getenv(childNodes), ","))
		return
	}
	t.Parallel()
	const size = 5
	c := cluster.Start(t, 5)
	seed := seedOf(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	a := &arena{t: t, urls: c.URLs()}
	var all []*contender
	for range size {
		all = append(all, a.start())
	}
	for range sizeOf(t, 40, 1000) {
		time.Sleep(contenderHold + upTo(rng, 150*time.Millisecond))
		i := rng.IntN(size)
		if rng.IntN(2) == 0 { // the one that is being handed the vote
			released := make(chan struct{})
			a.mu.Lock()
			a.onNext = func(said) { close(released) }
			a.mu.Unlock()
			select {
			case <-released:
			case <-time.After(2 * time.Second): // the judge will say why
			}
			i = a.oldest(all, rng)
		}
		switch rng.IntN(4) {
		case 0, 1:
			a.end(all[i])
			all[i] = a.start()
		case 2:
			a.signal(all[i], syscall.SIGSTOP, "stopped")
			time.Sleep(upTo(rng, 2*contenderTTL))
			a.signal(all[i], syscall.SIGCONT, "continued")
		case 3:
			_, err := fmt.Fprintln(all[i].in, "cancel")
			assert.NoError(t, err)
		}
	}
	time.Sleep(2 * contenderTTL)
	for _, c := range all {
		a.end(c)
	}
	judgeContenders(t, a.events)
}
