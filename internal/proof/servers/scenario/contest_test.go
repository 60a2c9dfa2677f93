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
	word   string // waits, gaveup, reads, writes, releases; leads; killed, stopped, continued
	at     clock.Instant
	number int64 // until when it reads or writes; the term in which it leads
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
// before it releases. A line of input makes it give up its wait. If readers are wanted, it also
// reads, and does not always wait for as long as it takes.
func playContender(self *child.Self) {
	name, readers := self.Args[0], self.Args[1] == "readers"
	l := childLocker(self, self.Args[2:], redlock.WithTTL(contenderTTL), redlock.WithMaxTTL(contenderTTL),
		redlock.WithNodeTimeout(contenderTimeout), redlock.WithRetry(contenderPoll/3, contenderPoll), redlock.WithoutRenewal())
	now := clock.System().Now
	for {
		acquire, word, bound := l.Lock, "writes", time.Hour
		if readers {
			bound = 20*time.Millisecond + rand.N(2*time.Second)
			switch rand.N(8) {
			case 0, 1:
			case 2:
				acquire, word = l.TryRLock, "reads"
			case 3:
				acquire = l.TryLock
			default:
				acquire, word = l.RLock, "reads"
			}
		}
		self.Tell("waits", int64(now()), 0)
		lock, err := acquireUntilTold(self, acquire, name, bound)
		if err != nil {
			self.Tell("gaveup", int64(now()), 0)
			var failure *redlock.QuorumError
			ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
			require.True(self, ended || readers && errors.As(err, &failure), "%v", err)
			if readers {
				time.Sleep(rand.N(contenderHold))
			}
			continue
		}
		had := now()
		self.Tell(word, int64(had), int64(had.Add(lock.Remaining())))
		if readers {
			time.Sleep(rand.N(6 * contenderHold))
		} else {
			time.Sleep(contenderHold)
		}
		self.Tell("releases", int64(now()), 0)
		if err := lock.Unlock(ctx); err != nil && !errors.Is(err, redlock.ErrNoQuorum) { // the machine is busy; the release goes on
			require.ErrorIs(self, err, redlock.ErrLost) // it was stopped
		}
	}
}

type acquisition func(ctx context.Context, name string, opts ...redlock.LockOption) (*redlock.Lock, error)

// acquireUntilTold gives up when the bound is over, or the parent says so.
func acquireUntilTold(self *child.Self, acquire acquisition, name string, bound time.Duration) (*redlock.Lock, error) {
	patient, stop := context.WithTimeout(ctx, bound)
	defer stop()
	go func() {
		select {
		case <-self.Heard():
			stop()
		case <-patient.Done():
		}
	}()
	return acquire(patient, name)
}

// Whatever happens to waiters and holders, at any moment, the others get the lock: at once, or when
// what the dead one held has expired. Nobody has it beside another.
func TestNobodyIsStuckWhenOthersAreKilledOrStoppedOrGiveUp(t *testing.T) {
	t.Parallel()
	const size = 5
	c := cluster.Start(t, 5)
	rng := rand.New(rand.NewPCG(seedOf(t), 0))
	a := newArena(t, size, "contender", on(c, cluster.LockName(t), "writers")...)
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
	turns := turnsOf(events)
	exclusive(t, turns)
	judgeGaps(t, events, turns)
}

// Processes that read and write are killed and stopped, and so are servers: no writer has the lock
// beside anyone, and afterwards both get it.
func TestNoWriterHoldsBesideAnyoneWhateverIsKilledOrStopped(t *testing.T) {
	t.Parallel()
	const size = 6
	c := cluster.Start(t, 5)
	rng := rand.New(rand.NewPCG(seedOf(t), 0))
	a := newArena(t, size, "contender", on(c, cluster.LockName(t), "readers")...)
	for range sizeOf(t, 15, 1000) {
		time.Sleep(upTo(rng, 200*time.Millisecond))
		switch i := rng.IntN(size); rng.IntN(3) {
		case 0:
			a.replace(i)
		case 1:
			a.pause(i, upTo(rng, 2*contenderTTL))
		case 2:
			disturbServers(t, c, rng)
		}
	}
	await(t, "readers and writers have had it, and readers at once", func() bool {
		time.Sleep(50 * time.Millisecond)
		reads, writes, shared := exclusive(t, turnsOf(a.heard()))
		return reads >= 50 && writes >= 20 && shared > 0
	})
	reads, writes, shared := exclusive(t, turnsOf(a.over()))
	t.Logf("%d reads, %d beside another; %d writes", reads, shared, writes)
	l := connected(t, c.URLs())
	bounded, cancel := context.WithTimeout(t.Context(), aMinute)
	defer cancel()
	reader, err := l.RLock(bounded, cluster.LockName(t))
	require.NoError(t, err)
	give(t, reader)
	writer, err := l.Lock(bounded, cluster.LockName(t))
	require.NoError(t, err)
	give(t, writer)
}

// disturbServers stops, kills or restarts servers, or closes their connections. A server that was
// killed comes back without its keys.
func disturbServers(t *testing.T, c *cluster.Cluster, rng *rand.Rand) {
	t.Helper()
	first := rng.IntN(5)
	one, other := c.Masters[first], c.Masters[(first+1+rng.IntN(4))%5]
	switch rng.IntN(4) {
	case 0:
		assert.NoError(t, one.Stop())
		assert.NoError(t, other.Stop())
		time.Sleep(upTo(rng, 500*time.Millisecond))
		assert.NoError(t, one.Continue())
		assert.NoError(t, other.Continue())
	case 1: // one comes back without its keys, and one was away
		assert.NoError(t, other.Stop())
		assert.NoError(t, one.Kill())
		time.Sleep(upTo(rng, contenderTTL))
		assert.NoError(t, one.Restart())
		assert.NoError(t, other.Continue())
		time.Sleep(2 * contenderTTL) // a second one that forgets before this one votes is too much
	default:
		for _, m := range []cluster.Master{one, other} {
			do(t, m, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
	}
}

// turn is a time during which a contender was sure of the lock: from the return of Lock until it
// called Unlock, was killed, or its validity ended.
type turn struct {
	who      int
	reads    bool
	from, to clock.Instant
}

// turnsOf returns who held the lock when, in the order of the acquisitions.
func turnsOf(events []said) (turns []turn) {
	open := make(map[int]int)
	for _, e := range events {
		i, has := open[e.who]
		switch {
		case e.word == "writes" || e.word == "reads":
			open[e.who] = len(turns)
			turns = append(turns, turn{e.who, e.word == "reads", e.at, clock.Instant(e.number)})
		case has && (e.word == "releases" || e.word == "killed"):
			turns[i].to = min(turns[i].to, e.at)
			delete(open, e.who)
		}
	}
	return turns
}

// exclusive counts who had the lock, and fails the test if a writer had it beside anyone. Shared is
// how often a reader got it while another had it.
func exclusive(t *testing.T, turns []turn) (reads, writes, shared int) {
	t.Helper()
	var all, writer clock.Instant // the latest ends so far
	for _, one := range turns {
		before := all
		if one.reads {
			before = writer
		}
		if one.from < before {
			t.Errorf("%+v began %v before the time of others was over", one, before.Sub(one.from))
		}
		switch {
		case !one.reads:
			writes++
			writer = max(writer, one.to)
		case one.from < all:
			shared++
			reads++
		default:
			reads++
		}
		all = max(all, one.to)
	}
	return reads, writes, shared
}

// judgeGaps checks for how long nobody had the lock although one waited.
func judgeGaps(t *testing.T, events []said, turns []turn) {
	t.Helper()
	// The key of a killed contender must expire, and up to two contenders may be handed the vote
	// before they are found to be dead or stopped. Then comes the next poll.
	const bound = contenderTTL + 2*contenderGrace + contenderPoll + contenderTimeout + slack
	var gaps []time.Duration
	free := clock.Instant(0) // since when nobody holds it
	for i := 1; i < len(turns); i++ {
		free = max(free, turns[i-1].to)
		gap := turns[i].from.Sub(max(free, waitedSince(events, turns[i].from)))
		assert.LessOrEqual(t, gap, bound, "nobody had it")
		if harmed(events, turns[i-1].from, turns[i].from) {
			gaps = append(gaps, gap)
		}
	}
	require.NotEmpty(t, gaps)
	assert.Greater(t, len(turns), len(gaps))
	slices.Sort(gaps)
	t.Logf("%d turns; %d of them followed on harm, median delay %v, longest %v, %v allowed",
		len(turns), len(gaps), gaps[len(gaps)/2], gaps[len(gaps)-1], bound)
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
		case "writes":
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

// harmed reports whether a contender was killed or stopped, or gave up, between two instants.
func harmed(events []said, from, to clock.Instant) bool {
	return slices.ContainsFunc(events, func(e said) bool {
		return e.at >= from && e.at <= to && slices.Contains([]string{"killed", "stopped", "gaveup"}, e.word)
	})
}
