package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/servers/child"
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

// said is a line of a process, or what was done to it: a word, an instant of the clock that all
// processes of the machine share, and a number.
type said struct {
	who    int
	word   string // waits, gaveup, holds, releases; killed, stopped, continued
	at     clock.Instant
	number int64 // until when it holds the lock
}

// contender is a process, as seen by its parent.
type contender struct {
	*child.Process
	id   int
	read chan struct{} // closed when all its lines are read
}

// arena has all processes of a contest, and what they said.
type arena struct {
	t    *testing.T
	role string
	args []string
	all  []*contender

	mu     sync.Mutex // guards the fields below
	events []said
	next   int
	onNext func() // called once, with the next release
}

func newArena(t *testing.T, size int, role string, args ...string) *arena {
	t.Helper()
	a := &arena{t: t, role: role, args: args, all: make([]*contender, size)}
	for i := range a.all {
		a.start(i)
	}
	return a
}

// start starts a process at a place.
func (a *arena) start(place int) {
	a.t.Helper()
	c := &contender{Process: child.Start(a.t, child.Command(a.role, a.args...)), id: a.next, read: make(chan struct{})}
	a.next++
	a.all[place] = c
	go func() {
		defer close(c.read)
		for line := range c.Lines() {
			e := said{who: c.id}
			if _, err := fmt.Sscan(line, &e.word, (*int64)(&e.at), &e.number); err != nil {
				a.t.Errorf("process %d: %s", c.id, line)
				continue
			}
			a.note(e)
		}
	}()
}

func (a *arena) note(e said) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, e)
	if e.word == "releases" && a.onNext != nil {
		a.onNext()
		a.onNext = nil
	}
}

// end kills the process at a place. It has done nothing since.
func (a *arena) end(place int) {
	a.t.Helper()
	c := a.all[place]
	assert.NoError(a.t, c.Kill())
	<-c.read
	a.note(said{who: c.id, word: "killed", at: clock.System().Now()})
}

func (a *arena) replace(place int) {
	a.t.Helper()
	a.end(place)
	a.start(place)
}

// pause stops the process at a place for some time.
func (a *arena) pause(place int, d time.Duration) {
	a.t.Helper()
	c := a.all[place]
	assert.NoError(a.t, c.Stop())
	a.note(said{who: c.id, word: "stopped", at: clock.System().Now()})
	time.Sleep(d)
	assert.NoError(a.t, c.Continue())
	a.note(said{who: c.id, word: "continued", at: clock.System().Now()})
}

// over kills all, and returns what was said, in its order.
func (a *arena) over() []said {
	a.t.Helper()
	for place := range a.all {
		a.end(place)
	}
	return a.heard()
}

func (a *arena) heard() []said {
	a.mu.Lock()
	defer a.mu.Unlock()
	events := slices.Clone(a.events)
	slices.SortStableFunc(events, func(a, b said) int { return int(a.at - b.at) })
	return events
}

// oldest returns the place of the process that has waited longest, or a random one.
func (a *arena) oldest(rng *rand.Rand) int {
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
	found, earliest := rng.IntN(len(a.all)), clock.Instant(-1)
	for i, c := range a.all {
		if at, waits := since[c.id]; waits && (earliest < 0 || at < earliest) {
			found, earliest = i, at
		}
	}
	return found
}

// playContender locks and unlocks one name, and says so: before it waits, when it has the lock, and
// before it releases. A line of input makes it give up its wait.
func playContender(self *child.Self) {
	l := childLocker(self, self.Args[1:], redlock.WithTTL(contenderTTL), redlock.WithMaxTTL(contenderTTL),
		redlock.WithNodeTimeout(contenderTimeout), redlock.WithRetry(contenderPoll/3, contenderPoll), redlock.WithoutRenewal())
	now := clock.System().Now
	for {
		self.Tell("waits", int64(now()), 0)
		lock, err := lockUntilTold(self, l, self.Args[0])
		if err != nil {
			self.Tell("gaveup", int64(now()), 0)
			require.ErrorIs(self, err, context.Canceled)
			continue
		}
		had := now()
		self.Tell("holds", int64(had), int64(had.Add(lock.Remaining())))
		time.Sleep(contenderHold)
		self.Tell("releases", int64(now()), 0)
		if err := lock.Unlock(ctx); err != nil && !errors.Is(err, redlock.ErrNoQuorum) { // the machine is busy; the release goes on
			require.ErrorIs(self, err, redlock.ErrLost) // it was stopped
		}
	}
}

// lockUntilTold gives up when the parent says so.
func lockUntilTold(self *child.Self, l *redlock.Locker, name string) (*redlock.Lock, error) {
	patient, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-self.Heard():
			stop()
		case <-patient.Done():
		}
	}()
	return l.Lock(patient, name)
}

// Whatever happens to waiters and holders, at any moment, the others get the lock: at once, or when
// what the dead one held has expired. Nobody has it beside another.
func TestNobodyIsStuckWhenOthersAreKilledOrStoppedOrGiveUp(t *testing.T) {
	t.Parallel()
	const size = 5
	c := cluster.Start(t, 5)
	rng := rand.New(rand.NewPCG(seedOf(t), 0))
	a := newArena(t, size, "contender", on(c, cluster.LockName(t))...)
	for range sizeOf(t, 25, 1000) {
		time.Sleep(contenderHold + upTo(rng, 150*time.Millisecond))
		i := rng.IntN(size)
		if rng.IntN(2) == 0 { // the one that is being handed the vote
			released := make(chan struct{})
			a.mu.Lock()
			a.onNext = func() { close(released) }
			a.mu.Unlock()
			select {
			case <-released:
			case <-time.After(2 * time.Second): // the judge will say why
			}
			i = a.oldest(rng)
		}
		switch rng.IntN(4) {
		case 0, 1:
			a.replace(i)
		case 2:
			a.pause(i, upTo(rng, 2*contenderTTL))
		case 3:
			assert.NoError(t, a.all[i].Tell("give up"))
		}
	}
	time.Sleep(2 * contenderTTL)
	events := a.over()
	judgeGaps(t, events, turnsOf(t, events))
}

// turn is a time during which a contender was sure of the lock: from the return of Lock until it
// called Unlock, was killed, or its validity ended.
type turn struct {
	who      int
	from, to clock.Instant
}

// turnsOf returns who held the lock when, in the order of the acquisitions. The test fails if two
// held it at once.
func turnsOf(t *testing.T, events []said) (turns []turn) {
	t.Helper()
	open := make(map[int]int)
	for _, e := range events {
		i, has := open[e.who]
		switch {
		case e.word == "holds":
			open[e.who] = len(turns)
			turns = append(turns, turn{e.who, e.at, clock.Instant(e.number)})
		case has && (e.word == "releases" || e.word == "killed"):
			turns[i].to = min(turns[i].to, e.at)
			delete(open, e.who)
		}
	}
	last := clock.Instant(0)
	for _, one := range turns {
		assert.GreaterOrEqual(t, one.from, last, "%+v began before the time of others was over", one)
		last = max(last, one.to)
	}
	return turns
}

// judgeGaps checks for how long nobody had the lock although one waited.
func judgeGaps(t *testing.T, events []said, turns []turn) {
	t.Helper()
	// The key of a killed contender must expire, and up to two contenders may be handed the vote
	// before they are found to be dead or stopped. Then comes the next poll.
	const bound = contenderTTL + 2*contenderGrace + contenderPoll + contenderTimeout + slack
	require.Greater(t, len(turns), 1)
	longest, free := time.Duration(0), clock.Instant(0) // since when nobody holds it
	for i := 1; i < len(turns); i++ {
		free = max(free, turns[i-1].to)
		gap := turns[i].from.Sub(max(free, waitedSince(events, turns[i].from)))
		assert.LessOrEqual(t, gap, bound, "nobody had it")
		longest = max(longest, gap)
	}
	t.Logf("%d turns; for %v at most, nobody had it; %v allowed", len(turns), longest, bound)
}

// waitedSince returns since when, without a break, a contender has waited that was neither killed
// nor stopped meanwhile.
func waitedSince(events []said, at clock.Instant) clock.Instant {
	since := make(map[int]clock.Instant)
	for _, e := range events {
		if e.at > at {
			break
		}
		switch e.word {
		case "waits", "continued":
			since[e.who] = e.at
		case "gaveup", "killed", "stopped", "releases":
			delete(since, e.who)
		case "holds":
			if e.at < at {
				delete(since, e.who)
			}
		}
	}
	earliest := at
	for _, from := range since {
		earliest = min(earliest, from)
	}
	return earliest
}
