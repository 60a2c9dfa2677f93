package scenario_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// electionTTL is short, so that much can happen in little time.
const electionTTL = 500 * time.Millisecond

// playCandidate campaigns, and says an instant at which it led, and its term, all the time. A line
// of input makes it resign.
//
// It reads the clock first. If it is stopped before it has found out that it leads, it says
// nothing.
func playCandidate(self *child.Self) {
	l := childLocker(self, self.Args[1:], redlock.WithTTL(electionTTL), redlock.WithNodeTimeout(electionTTL/5))
	e, err := election.New(l, self.Args[0])
	require.NoError(self, err)
	go func() {
		for range self.Heard() {
			_ = e.Resign(ctx) //nolint:errcheck // masters may be away
		}
	}()
	require.NoError(self, e.Run(ctx, func(ctx context.Context, term int64) error {
		for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if now := clock.System().Now(); e.IsLeader() {
				self.Tell("leads", int64(now), term)
			}
		}
		return nil
	}))
}

// leads returns the last that was said by a leader.
func (a *arena) leads() (last said) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range slices.Backward(a.events) {
		if e.word == "leads" {
			return e
		}
	}
	return said{who: -1}
}

// awaitLeader waits until somebody leads in a term after this one.
func (a *arena) awaitLeader(after int64) said {
	a.t.Helper()
	await(a.t, fmt.Sprint("a leader after term ", after), func() bool { return a.leads().number > after })
	return a.leads()
}

// Leaders and followers are killed and stopped and resign, and masters are stopped.
func TestAtMostOneLeadsWhenLeadersAreKilledStoppedAndResign(t *testing.T) {
	t.Parallel()
	const size = 4
	c := cluster.Start(t, 5)
	rng := rand.New(rand.NewPCG(seedOf(t), 0))
	told := watchElection(t, c.URLs())
	a := newArena(t, size, "candidate", on(c, cluster.LockName(t))...)
	leader := a.awaitLeader(0)
	for range sizeOf(t, 12, 500) {
		time.Sleep(upTo(rng, electionTTL/2))
		i := max(slices.IndexFunc(a.all, func(c *contender) bool { return c.id == a.leads().who }), 0)
		deposed := false
		switch rng.IntN(5) {
		case 0:
			a.replace(i)
			deposed = true
		case 1: // others lead meanwhile
			must(t, a.all[i].Stop())
			a.awaitLeader(leader.number)
			must(t, a.all[i].Continue())
		case 2:
			must(t, a.all[i].Tell("resign"))
			deposed = true
		case 3: // a follower
			a.replace((i + 1) % size)
		case 4:
			m := c.Masters[rng.IntN(len(c.Masters))]
			must(t, m.Stop())
			time.Sleep(upTo(rng, electionTTL))
			must(t, m.Continue())
		}
		if deposed {
			a.awaitLeader(leader.number)
		}
		leader = a.leads()
	}
	events := a.over()
	await(t, "Watch has told the last term", func() bool { return slices.Contains(told(), a.leads().number) })
	judgeTerms(t, events, told())
}

// judgeTerms asserts that at most one led at any moment, that terms grew, and that a Watch told
// them all in order.
func judgeTerms(t *testing.T, events []said, told []int64) {
	t.Helper()
	terms, last := 0, said{who: -1}
	for _, e := range events {
		switch {
		case e.word != "leads":
		case e.number == last.number:
			assert.Equal(t, last.who, e.who, "two lead in term %d", e.number)
		default:
			terms++
			assert.Greater(t, e.number, last.number, "%v after %v", e, last)
			assert.Contains(t, told, e.number, "not told")
			last = e
		}
	}
	assert.True(t, slices.IsSorted(told), "%v", told)
	t.Logf("%d terms; Watch told %d", terms, len(told))
}

// watchElection begins a Watch, and returns a function for the terms that it has told.
func watchElection(t *testing.T, urls []string) func() []int64 {
	t.Helper()
	e, err := election.New(connected(t, urls), cluster.LockName(t))
	require.NoError(t, err)
	var mu sync.Mutex
	var terms []int64
	began := make(chan struct{})
	begin := sync.OnceFunc(func() { close(began) })
	go func() { // ends with the test
		for leader := range e.Watch(t.Context()) {
			mu.Lock()
			if leader.Term != 0 && (len(terms) == 0 || terms[len(terms)-1] != leader.Term) {
				terms = append(terms, leader.Term)
			}
			mu.Unlock()
			begin()
		}
	}()
	<-began
	return func() []int64 {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(terms)
	}
}
