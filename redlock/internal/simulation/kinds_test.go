package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// using is one mixture of uses and the conditions under which clients perform them.
type using struct {
	kind     string
	uses     []use  // a client performs them one at a time, at random
	seeds    [2]int // how many, usually and in the longest runs
	nodes    []int  // how many nodes; the seed picks one
	names    [2]int // how many names: at least, and at most
	crowd    [2]int // how many processes, likewise
	tasks    [2]int // of a process, likewise
	beside   faults
	draws    func(rng *rand.Rand) faults // in place of beside
	bound    time.Duration               // how long a lock may be free in calm times while somebody waits; 0: any length
	turns    turns
	setUp    func(s *simulation) // called once the nodes exist
	people   []person            // act beside the clients
	ills     []string            // what breaks, beside the faults
	breaker  person              // breaks nodes in large histories, in place of the weather
	length   time.Duration
	hold     time.Duration // longest hold; 0: usually a moment
	long     bool          // a few holds are longer than the time to live
	ttl      time.Duration // of all locks, which are renewed; 0: any, with or without renewal
	maxTTL   time.Duration // of all Lockers; 0: short
	renewed  bool          // all locks are renewed
	still    bool          // no faults other than those of the kind itself
	numbers  bool          // clients use different numbers of permits for a semaphore
	changes  bool          // members of the cluster are added and removed
	patience time.Duration // of clients, for ever if below 0; 0: any

	*forgetful // nil: masters lose their memory in no other way than by faults
}

// forEver is the patience of those who wait as long as it takes.
const forEver time.Duration = -1

// usings lists the kinds with conditions that the driver of the public API does not have: bounds of
// waiting and of turns, clients of other libraries, wrong clocks and counters, forbidden commands,
// and bursts. Each has its own seeds, so a violation tells which kind causes it.
var usings = []using{
	{
		kind: "extend", uses: []use{extends, extends, locks}, breaker: inTurn(blink, 2*time.Second, "mute", ""), ills: []string{"mute"}, still: true,
		renewed: true, maxTTL: time.Minute, length: 40 * time.Second,
	},
	{
		kind: "close", uses: []use{neglects}, still: true, setUp: durably,
		breaker: inTurn(15*time.Second, 5*time.Second, "killed", "mute", "", ""), ills: []string{"mute", "killed"},
		ttl: 10 * time.Second, hold: 15 * time.Second, length: time.Minute,
	},
	{kind: "tokens", uses: []use{fences}, still: true, breaker: tokens, ills: []string{"wrong clock", "wrong counter", "slow"}, length: 4 * era, nodes: []int{3, 3, 4, 5}, patience: eraActive},
	{kind: "acl", uses: []use{locks, extends, extends, lockSets}, setUp: denies, renewed: true, still: true},
	{
		kind: "sets", uses: []use{locks, locks, locks, locks, lockSets}, still: true,
		turns: turns{bound: 60, wait: 5 * time.Second},
	},
	{
		kind: "spinners", uses: []use{locks}, still: true, people: []person{spins, spins, spins},
		turns: turns{bound: 30, wait: 5 * time.Second},
	},
	{
		kind: "foreign", uses: []use{locks}, still: true, people: []person{eagerForeigner, eagerForeigner, eagerForeigner},
		turns: turns{wait: 5 * time.Second}, nodes: []int{1, 3, 5}, renewed: true, length: 8 * time.Second,
	},
	{
		kind: "monitor", uses: []use{locks}, still: true, people: []person{monitors}, renewed: true,
		turns: turns{wait: 2 * time.Second},
	},
	{
		kind: "bursts", uses: []use{bursts, bursts, locks, tries, extends}, setUp: manyNames,
		beside: faults{losses: true, outages: true, refusals: true, closings: true},
	},
	{
		kind: "permits", uses: []use{acquiresPermits, acquiresPermits, acquiresPermits, triesPermits}, still: true,
		turns: turns{wait: 5 * time.Second}, renewed: true,
	},
	{
		kind: "permits-numbers", uses: []use{acquiresPermits, triesPermits, acquiresOtherNumbers}, numbers: true,
		beside: faults{losses: true, outages: true, restarts: true, closings: true},
	},
	{
		kind: "readers", uses: []use{reads, reads, reads, reads, locks}, still: true, renewed: true,
		turns: turns{wait: 5 * time.Second},
	},
}

// manifold are further kinds of large histories.
var manifold = []using{
	{
		kind: "clients", uses: lockUses, seeds: [2]int{5, 10_000}, nodes: []int{1, 2, 3, 3, 4, 5, 5, 5, 5, 5}, names: [2]int{1, 4},
		crowd: [2]int{3, 8}, draws: anyFaults, people: []person{rareForeigner}, bound: waitBound, length: 10 * time.Second, long: true,
	},
	{
		kind: "shares", uses: []use{tries, locks, reads, reads, reads, reads, reads, reads}, seeds: [2]int{2, 10_000},
		nodes: []int{1, 2, 3, 3, 4, 5, 5}, draws: anyFaults, people: []person{rareForeigner}, bound: waitBound + intentLife,
		length: 6 * time.Second,
	},
	{ // messages are late or get lost together with their connections: no hand-over is lost with them
		kind: "hand-overs", uses: []use{locks}, patience: forEver, seeds: [2]int{2, 400}, nodes: []int{5}, names: [2]int{2, 2}, crowd: [2]int{4, 4},
		tasks: [2]int{4, 4}, beside: faults{losses: true}, bound: waitBound, length: 3 * time.Second, hold: time.Millisecond,
	},
	{ // waiters take tickets at every node, again and again
		kind: "beside-spinners", uses: lockUses, people: []person{spins, spins}, seeds: [2]int{2, 5_000}, nodes: []int{2, 3, 3, 4, 5, 5, 5, 5}, names: [2]int{1, 2},
		crowd: [2]int{2, 4}, draws: someFaults, bound: waitBound, length: 5 * time.Second, hold: 10 * time.Millisecond,
	},
	{ // sets take their names one after the other, beside names that are locked all the time
		kind: "busy-names", uses: []use{lockSets, locks, locks}, seeds: [2]int{2, 5_000}, nodes: []int{1, 2, 3, 3, 4, 5, 5, 5},
		names: [2]int{2, 4}, crowd: [2]int{3, 6}, draws: someFaults, bound: waitBound, length: 5 * time.Second,
	},
}

// anyFaults and someFaults draw faults.
func anyFaults(rng *rand.Rand) faults {
	return faults{
		losses: rng.IntN(4) > 0, outages: rng.IntN(3) > 0, restarts: rng.IntN(2) == 0,
		refusals: rng.IntN(3) == 0, closings: rng.IntN(2) == 0,
	}
}

func someFaults(rng *rand.Rand) faults {
	f := faults{losses: rng.IntN(3) > 0, outages: rng.IntN(3) == 0, refusals: rng.IntN(4) == 0, closings: rng.IntN(3) == 0}
	f.restarts = f.outages && rng.IntN(2) == 0
	return f
}

// The slowest of the options of a simulation.
const (
	slowestRetry   = 500 * time.Millisecond
	slowestTimeout = 100 * time.Millisecond
	slowestTTL     = 2 * time.Second
)

func randomOptions(rng *rand.Rand) []redlock.Option {
	ttls := []time.Duration{300 * time.Millisecond, time.Second, slowestTTL}
	opts := []redlock.Option{redlock.WithTTL(ttls[rng.IntN(len(ttls))])}
	if rng.IntN(2) == 0 {
		opts = append(opts, redlock.WithoutRenewal())
	}
	if rng.IntN(2) == 0 {
		opts = append(opts, redlock.WithRetry(20*time.Millisecond, 200*time.Millisecond))
	} else {
		opts = append(opts, redlock.WithRetry(slowestRetry/5, slowestRetry))
	}
	return opts
}

const (
	// usualLatency is how long a message takes in calm times, at most.
	usualLatency = 2 * time.Millisecond

	// waitBound is how long a lock may be free while a client waits for it and nothing is broken.
	// The vote may have been handed to a waiter that just gave up and whose leaving was lost: the
	// grace (two node timeouts). Nobody else is woken then, and the next poll comes after the
	// longest pause. Its attempt may meet others, and pause as in an outage (250 ms), before the
	// one that wins: two attempts, each of a node timeout and four messages.
	waitBound = 2*slowestTimeout + slowestRetry + 250*time.Millisecond + 2*(slowestTimeout+4*usualLatency)

	// intentLife is for how long the intent of a writer that died keeps readers out.
	intentLife = 3 * time.Second
)

// Every operation, at any moment, beside every other one and beside clients of other kinds: the
// locks are exclusive, the tokens in order, a renewed lock is not lost in calm times, no waiter is
// overtaken without bound, no lock is free for long while somebody waits, and no keys are left
// behind.
func TestSimulatedUsesOfAllKindsAreExclusiveAndServed(t *testing.T) {
	t.Parallel()
	playKinds(t, slices.Concat(usings, manifold))
}

// playKinds plays large histories, those of each kind with seeds of their own. An ordinary run
// plays half of them.
func playKinds(t *testing.T, kinds []using) {
	t.Helper()
	for _, kind := range kinds {
		t.Run(kind.kind, func(t *testing.T) {
			t.Parallel()
			count := kind.seeds
			if count[0] == 0 {
				count = [2]int{1, 12_000/len(kinds) + 1}
			}
			if !virtual.Thorough() {
				count[0] = (count[0] + 1) / 2
			}
			for _, seed := range seeds(t, count[0], count[1], kind.changes) {
				simulate(t, seed, func(s *simulation) { s.plays(&kind) })
			}
		})
	}
}

// plays plays a large history of a kind.
func (s *simulation) plays(u *using) {
	rng := s.rng
	s.faults, s.length = u.beside, 4*time.Second
	if u.draws != nil {
		s.faults = u.draws(rng)
	}
	if u.length > 0 {
		s.length = u.length
	}
	if u.maxTTL > 0 {
		s.maxTTL = u.maxTTL
	}
	s.hold = func(rng *rand.Rand) time.Duration {
		switch {
		case u.long && rng.IntN(20) == 0:
			return upTo(rng, 2*s.maxTTL)
		case u.hold > 0:
			return upTo(rng, u.hold)
		default:
			return upTo(rng, 20*time.Millisecond)
		}
	}
	nodes := u.nodes
	if nodes == nil {
		nodes = []int{1, 2, 3, 3, 3, 5, 5}
	}
	s.prepare(u, nodes[rng.IntN(len(nodes))], within(rng, u.names, 1, 3))
	s.tasks, s.mending = within(rng, u.tasks, 1, 3), s.maxTTL+3*time.Second
	s.start(within(rng, u.crowd, 2, 5), func(rng *rand.Rand) []redlock.Option { return u.options(s, rng) })
	beside := s.others(u)
	switch {
	case u.breaker != nil:
		beside = append(beside, func() { u.breaker(s, rng) })
	case len(illsOf(u.still, s.faults, u.ills)) > 0:
		beside = append(beside, func() { s.weather(rng) })
	}
	s.run(func(c *client) { c.work(u.uses) }, beside...)
	s.T.Logf("%sovertaken %d times at most, waited %v at most", s.about, s.judge.most, s.judge.slow)
	s.leavesNothing(3*time.Minute + time.Second + 2*s.apart) // so long live the lists of those whose leaving was lost
}

// within draws a number, within limits that may be the usual ones.
func within(rng *rand.Rand, limits [2]int, least, most int) int {
	if limits != [2]int{} {
		least, most = limits[0], limits[1]
	}
	return least + rng.IntN(most-least+1)
}

// prepare sets up what small and large histories of a kind have in common.
func (s *simulation) prepare(u *using, nodes, names int) {
	s.about, s.kind = u.kind+" ", u
	s.nodes(nodes)
	s.clocks()
	if u.setUp != nil {
		u.setUp(s)
	}
	for i := range names {
		s.names = append(s.names, fmt.Sprint("name", i))
	}
	s.fenced = s.rng.IntN(2) == 0 && u.forgetful == nil // tokens want a quorum of clocks that are near each other
	s.judge = newJudge(s, u.bound)
	if u.bound == 0 {
		s.judge.bound, s.patience = neverJudged, 10*time.Minute
	}
	s.judge.turns, s.judge.order = u.turns, slices.Contains(u.ills, "wrong clock")
	for i, server := range s.Servers {
		s.watchKeys(i, server)
	}
}

// others returns what runs the people beside the clients.
func (s *simulation) others(u *using) (all []func()) {
	for i, act := range u.people {
		rng := rand.New(rand.NewPCG(s.seed, uint64(1<<41+i)))
		all = append(all, func() { act(s, rng) })
	}
	return all
}

func (u *using) options(s *simulation, rng *rand.Rand) []redlock.Option {
	switch {
	case u.forgetful != nil:
		return u.forgetful.options(s, rng)
	case u.renewed:
		return []redlock.Option{redlock.WithTTL(min(max(u.maxTTL, slowestTTL), 3*time.Second))}
	case u.ttl > 0:
		return []redlock.Option{redlock.WithTTL(u.ttl), redlock.WithMaxTTL(time.Minute)}
	default:
		return randomOptions(rng)
	}
}

// clocks makes the clocks of the nodes a little too fast or slow where nodes forget, by less than
// the 1 % that are allowed, and those of a minority wrong. Tokens stand on clocks that are near
// each other if counters are lost.
func (s *simulation) clocks() {
	if s.kind.forgetful == nil {
		return
	}
	wrong := s.minority(s.rng)
	for i, server := range s.Servers {
		rate, offset, most := 1+(s.rng.Float64()-0.5)/56, time.Duration(0), max(s.apart, time.Second/2)
		if wrong>>i&1 == 1 && !s.faults.restarts {
			offset = upTo(s.rng, 2*most) - most
		}
		server.SetClock(offset, rate)
	}
}
