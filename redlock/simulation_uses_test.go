package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock"
)

// person acts beside the clients, with random numbers of its own.
type person func(u *users, rng *rand.Rand)

// use is one operation of a client with some lock.
type use func(u *users, c *client)

// using is one mixture of uses and the conditions under which clients perform them.
type using struct {
	kind    string
	uses    []use // a client performs them one at a time, at random
	nodes   []int // how many nodes; the seed picks one
	beside  faults
	turns   turns
	setUp   func(u *users) // called once the nodes exist
	people  []person       // act beside the clients
	breaker person         // breaks nodes
	ills    []string       // what breaks in small histories, in place of breaker
	length  time.Duration
	hold    time.Duration // longest hold; 0: usually a moment
	ttl     time.Duration // of all locks, which are renewed; 0: any, with or without renewal
	maxTTL  time.Duration // of all Lockers; 0: short
	renewed bool          // all locks are renewed
	still   bool          // no faults other than those of the kind itself
	numbers bool          // clients use different numbers of permits for a semaphore
}

// usings lists all kinds. Each has its own seeds, so a violation tells which kind causes it.
var usings = []using{
	{kind: "adopt", uses: []use{lends, lends, adopts, adopts, locks}, beside: faults{closings: true}},
	{kind: "adopt-faults", uses: []use{lends, lends, adopts, locks}, beside: faults{closings: true, losses: true, outages: true}},
	{
		kind: "extend", uses: []use{extends, extends, locks}, breaker: blinks, ills: []string{"mute"}, still: true,
		renewed: true, maxTTL: time.Minute, length: 40 * time.Second,
	},
	{kind: "force", uses: []use{locks, locks, locks, extends, forces, unlocksAll, inspects}},
	{
		kind: "close", uses: []use{neglects}, still: true, setUp: durably, breaker: breaks, ills: []string{"mute", "killed"},
		ttl: 10 * time.Second, hold: 15 * time.Second, length: time.Minute,
	},
	{kind: "tokens", uses: []use{fences}, still: true, breaker: tokens, ills: []string{"wrong clock", "wrong counter", "slow"}, length: 4 * era, nodes: []int{3, 3, 4, 5}},
	{kind: "acl", uses: []use{locks, extends, extends, lockSets, lends, adopts}, setUp: denies, renewed: true, still: true},
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
		turns: turns{wait: 5 * time.Second}, nodes: []int{1, 3, 5}, renewed: true, length: 20 * time.Second,
	},
	{
		kind: "monitor", uses: []use{locks}, still: true, people: []person{monitors}, renewed: true,
		turns: turns{wait: 2 * time.Second},
	},
	{
		kind: "minhold", uses: []use{locks, locks, tries, lockSets, does, extends, unlocksAll}, setUp: minHolds,
		beside: faults{losses: true, outages: true, restarts: true, refusals: true, closings: true}, length: 15 * time.Second, hold: 400 * time.Millisecond,
	},
	{
		kind: "minhold-foreign", uses: everyUse, people: []person{spins, eagerForeigner}, setUp: minHolds,
		beside: faults{losses: true, outages: true, closings: true}, length: 15 * time.Second,
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
		kind: "permits-faults", uses: []use{acquiresPermits, acquiresPermits, triesPermits, extendsPermits, locksSlots, locks},
		beside: faults{losses: true, outages: true, refusals: true, closings: true},
	},
	{
		kind: "permits-numbers", uses: []use{acquiresPermits, triesPermits, acquiresOtherNumbers}, numbers: true,
		beside: faults{losses: true, outages: true, restarts: true, closings: true},
	},
	{
		kind: "readers", uses: []use{reads, reads, reads, reads, locks}, still: true, renewed: true,
		turns: turns{wait: 5 * time.Second},
	},
	{
		kind: "readers-faults", uses: []use{reads, reads, reads, locks, tries, lockSets, locksAny, forces, unlocksAll},
		beside: faults{losses: true, outages: true, refusals: true, closings: true},
	},
	{
		kind: "readers-foreign", uses: []use{reads, reads, reads, locks, lockSets, inspects}, people: []person{spins, eagerForeigner},
		beside: faults{losses: true, outages: true, closings: true},
	},
	{kind: "any", uses: []use{locksAny, locksAny, locks, tries}, beside: faults{losses: true, outages: true, refusals: true, closings: true}},
	{kind: "mixed", uses: everyUse, beside: faults{losses: true, outages: true, refusals: true, closings: true}},
	{
		kind: "mixed-foreign", uses: everyUse, people: []person{spins, eagerForeigner},
		beside: faults{losses: true, outages: true, closings: true},
	},
}

var everyUse = []use{locks, locks, tries, lockSets, locksAny, does, lends, lends, adopts, extends, reads, reads, forces, unlocksAll, inspects}

// users is a simulation that uses everything in the API.
type users struct {
	*simulation
	*using
	rng    *rand.Rand
	offers offers

	permits permitTenures
	whole   []atomic.Int64 // by node: since when it works; -1 while it is broken
}

// Every operation, at any moment, beside every other one and beside clients of other kinds: the
// locks are exclusive, the tokens in order, a renewed lock is not lost in calm times, no waiter is
// overtaken without bound, and no keys are left behind.
func TestSimulatedUsesOfAllKindsAreExclusiveAndServed(t *testing.T) {
	t.Parallel()
	for _, kind := range usings {
		t.Run(kind.kind, func(t *testing.T) {
			for _, seed := range seeds(t, 1, 10_000/len(usings)+1) {
				simulate(t, seed, func(s *simulation) {
					u := &users{simulation: s, using: &kind, rng: s.rng}
					u.simulate()
				})
			}
		})
	}
}

func (u *users) simulate() {
	s, rng := u.simulation, u.rng
	s.faults, s.about, s.length = u.beside, u.kind+" ", 4*time.Second
	if raced {
		s.length = 2 * time.Second
	}
	if u.using.length > 0 {
		s.length = u.using.length
	}
	counts := u.using.nodes
	if u.using.hold > 0 {
		s.hold = func(rng *rand.Rand) time.Duration { return upTo(rng, u.using.hold) }
	}
	if counts == nil {
		counts = []int{1, 2, 3, 3, 3, 5, 5}
	}
	if u.using.maxTTL > 0 {
		s.maxTTL = u.using.maxTTL
	}
	s.nodes(counts[rng.IntN(len(counts))])
	u.whole = make([]atomic.Int64, len(s.servers))
	if u.setUp != nil {
		u.setUp(u)
	}
	for i := range 1 + rng.IntN(3) {
		s.names = append(s.names, fmt.Sprint("name", i))
	}
	s.fenced, s.tasks = rng.IntN(2) == 0, 1+rng.IntN(3)
	s.mending, s.patience = s.maxTTL+3*time.Second, 10*time.Minute
	s.judge = newJudge(s.clock, neverJudged)
	s.judge.turns = u.turns
	for i, server := range s.servers {
		s.watchForced(i, server)
	}
	s.start(2+rng.IntN(4), u.options)
	beside := []func(){}
	if !u.still {
		beside = append(beside, func() { s.weather(rng) })
	}
	if u.breaker != nil {
		beside = append(beside, func() { u.breaker(u, rng) })
	}
	beside = append(beside, u.others()...)
	s.run(func(c *client) { u.work(c) }, beside...)
	u.judgePermits()
	s.t.Logf("%sovertaken %d times at most, waited %v at most", s.about, s.judge.turns.most, s.judge.turns.slow)
	s.leavesNothing(3*time.Minute + time.Second)
}

// others returns what runs the people beside the clients.
func (u *users) others() (all []func()) {
	for i, act := range u.people {
		if u.small.keepsPerson(i) {
			rng := rand.New(rand.NewPCG(u.seed, uint64(1<<41+i)))
			all = append(all, func() { act(u, rng) })
		}
	}
	return all
}

func (u *users) options(rng *rand.Rand) []redlock.Option {
	switch {
	case u.renewed:
		return []redlock.Option{redlock.WithTTL(min(u.simulation.maxTTL, 3*time.Second))}
	case u.ttl > 0:
		return []redlock.Option{redlock.WithTTL(u.ttl), redlock.WithMaxTTL(time.Minute)}
	default:
		return randomOptions(rng)
	}
}

// work performs one random use after another until the simulation ends.
func (u *users) work(c *client) {
	for u.goesOn() {
		u.uses[c.rng.IntN(len(u.uses))](u, c)
		if c.rng.IntN(3) == 0 {
			time.Sleep(upTo(c.rng, 30*time.Millisecond))
		}
	}
}

func locks(_ *users, c *client)    { c.lock(c.name()) }
func tries(_ *users, c *client)    { c.attempt() }
func lockSets(_ *users, c *client) { c.set() }
func does(_ *users, c *client)     { c.do() }
func reads(_ *users, c *client)    { c.read() }

// spins tries a name again and again, like a program that does not know Lock.
func spins(u *users, rng *rand.Rand) {
	p := u.newProcess(100+rng.IntN(1000), rng, []redlock.Option{redlock.WithTTL(min(slowestTTL, u.simulation.maxTTL))})
	p.start()
	c := &client{p, "spinner", rng}
	for u.goesOn() {
		since := u.clock.Now()
		lock, err := p.current().TryLock(u.base, u.names[0])
		if err == nil {
			c.hold(lock, since)
		}
		time.Sleep(upTo(rng, 2*time.Millisecond))
	}
	_ = p.current().Close()
}

// eagerForeigner locks a name again as soon as it has released it, and retries 100 to 200 ms after
// a refusal.
func eagerForeigner(u *users, rng *rand.Rand) {
	f := &foreigner{sim: u.simulation, rng: rng, ttl: time.Second, id: rng.Uint64()}
	for u.goesOn() {
		if !f.attempt(u.names[0]) {
			u.pause(100*time.Millisecond + upTo(f.rng, 100*time.Millisecond))
		}
	}
}

// durably makes the nodes durable, so they keep their votes across a restart.
func durably(u *users) {
	for i, server := range u.servers {
		setDurable(server)
		marker, _, _ := server.Get(pipeline.MemoryKey)
		u.do(i, "SET", pipeline.MemoryKey, strings.Replace(marker, " 0 ", " 1 ", 1))
	}
}

// denies forbids the commands of one row of the ACL table on each node.
func denies(u *users) {
	rows := [][]string{
		{"INFO"}, {"CONFIG"}, {"CLIENT"}, {"SCRIPT"}, {"SUBSCRIBE"}, {"PUBLISH", "ZADD", "ZREM", "ZCARD", "ZSCORE", "ZPOPMIN"},
	}
	for _, server := range u.servers {
		server.RefuseWith("NOPERM this user has no permissions", rows[u.rng.IntN(len(rows))]...)
	}
}

// inspects inspects a name.
func inspects(u *users, c *client) {
	ctx, cancel := context.WithTimeout(u.base, time.Second)
	defer cancel()
	_, _ = c.process.current().Inspect(ctx, c.name()) //nolint:errcheck // there may be no quorum
}
