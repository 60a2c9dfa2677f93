package simulation_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof"
	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// plan is what a small history is made of. The seed decides all of it; shrinking leaves parts out.
type plan struct {
	seed      uint64
	kind      *using
	nodes     int
	processes int
	tasks     int // of a process
	faults    []fault
	actors    []string // clients and other people who take part
	length    time.Duration
}

// Sizes of a small history.
const (
	smallMaxTTL = 200 * time.Millisecond
	smallFaults = 12 // at most
)

// newPlan draws the plan of a seed. Every seed has a kind of its own.
func newPlan(seed uint64) *plan {
	rng := rand.New(rand.NewPCG(seed, 1<<43))
	of := slices.DeleteFunc(slices.Clone(usings), func(u using) bool { return u.fixed })
	kind := of[seed%uint64(len(of))].withChanges(2 * smallMaxTTL)
	p := &plan{seed: seed, kind: &kind}
	counts := p.kind.nodes
	if counts == nil {
		counts = []int{1, 2, 3, 3, 3, 3, 5}
	}
	p.nodes = counts[rng.IntN(len(counts))]
	p.processes, p.tasks = 2+rng.IntN(3), 1+rng.IntN(2)
	p.length = 2*smallMaxTTL + upTo(rng, 4*smallMaxTTL) // of several changes
	for process := range p.processes {
		for task := range p.tasks {
			p.actors = append(p.actors, clientActor(process, task))
		}
	}
	for i := range p.kind.people {
		p.actors = append(p.actors, personActor(i))
	}
	if all := illsOf(p.kind.still, p.kind.beside, p.kind.ills); len(all) > 0 {
		faulty := rng.IntN(p.nodes)
		for range 2 + rng.IntN(smallFaults-1) {
			p.add(all[rng.IntN(len(all))], faulty, rng)
		}
	}
	return p
}

// add draws a fault. Only one node has wrong clocks and counters.
func (p *plan) add(i *ill, faulty int, rng *rand.Rand) {
	f := fault{id: len(p.faults), ill: i, target: rng.IntN(p.nodes + spares), much: 1 + rng.IntN(20)}
	switch {
	case i.ofProcess:
		f.target = rng.IntN(p.processes)
	case i.ofOne:
		f.target = faulty
	}
	f.at, f.lasts = upTo(rng, p.length), upTo(rng, 20*time.Millisecond)
	if rng.IntN(2) == 0 {
		f.lasts = upTo(rng, p.length/2)
	}
	p.faults = append(p.faults, f)
}

func clientActor(process, task int) string { return fmt.Sprintf("%d.%d", process, task) }
func personActor(i int) string             { return fmt.Sprint("person", i) }

// takesPart reports whether a client or a person does.
func (s *simulation) takesPart(actor string) bool {
	return s.small == nil || slices.Contains(s.small.plan.actors, actor)
}

const (
	collected = 16              // after so many histories, garbage is collected
	mostTime  = 2 * time.Minute // for a history, which takes milliseconds unless somebody spins
)

var played int // histories in this process, one at a time

// small is what happened in a small history.
type small struct {
	plan     *plan
	injected int64 // faults that broke something
	tenures  int
	wrong    []string
	timeline history.Timeline
	locks    map[string]int // numbers of locks by value; guarded by mu
	mu       sync.Mutex
}

// play runs a plan in a world of its own.
func (p *plan) play(t *testing.T) *small {
	if played++; played%collected == 0 && !virtual.Raced {
		runtime.GC()
	}
	history.SeedRandom(t, p.seed)
	tooLong := time.AfterFunc(mostTime, func() { panic(fmt.Sprintf("still in %s after %v", p.command(), mostTime)) })
	defer tooLong.Stop()
	h := &small{plan: p, locks: make(map[string]int)}
	var s *simulation
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if r := recover(); r != nil {
				panic(fmt.Sprintf("REDQUORUM_SEED=%d: %v", p.seed, r))
			}
		}()
		s = newSimulation(t, p.seed)
		defer s.cancel()
		s.small = h
		s.live(p)
	})
	for _, c := range s.judge.cases {
		if text := c.Disagreement(); text != "" {
			h.wrong = append(h.wrong, text)
		}
	}
	h.injected = s.injected.Load()
	return h
}

// live runs a small history.
func (s *simulation) live(p *plan) {
	u := p.kind
	s.faults, s.length, s.maxTTL, s.tasks = u.beside, p.length, smallMaxTTL, p.tasks
	s.hold = u.smallHold
	s.prepare(u, p.nodes, 1+s.rng.IntN(2))
	s.start(p.processes, u.smallOptions)
	s.run(func(c *client) { c.work(u.uses) }, append(s.others(u), func() { s.suffer(p.faults) })...)
	s.leavesNothing(3*time.Minute + 2*time.Second) // clocks differ by up to 1 %
	for _, server := range s.Servers {
		s.injected.Add(int64(server.Lost()))
	}
}

// clocks makes the clocks of the nodes a little too fast or slow where members change or nodes
// forget, by less than the 1 % that are allowed, and those of a minority wrong. The judge of
// minimum holds wants clocks that do not drift, and tokens stand on clocks that are near each other
// if counters are lost.
func (s *simulation) clocks() {
	if s.kind.minHolds || s.kind.forgetful == nil && !s.kind.changes {
		return
	}
	wrong := s.minority(s.rng)
	for i, server := range s.Servers {
		rate, offset, most := 1+(s.rng.Float64()-0.5)/56, time.Duration(0), max(s.apart, time.Second/2)
		if wrong>>i&1 == 1 && !s.faults.restarts && (!s.kind.changes || s.kind.forgetful != nil) {
			offset = upTo(s.rng, 2*most) - most
		}
		server.SetClock(offset, rate)
	}
}

// smallHold is usually a moment, but now and then longer than the time to live.
func (u *using) smallHold(rng *rand.Rand) time.Duration {
	if !u.still && rng.IntN(5) == 0 || u.hold > 0 && rng.IntN(2) == 0 {
		return upTo(rng, smallMaxTTL)
	}
	return upTo(rng, 20*time.Millisecond)
}

func (u *using) smallOptions(rng *rand.Rand) []redlock.Option {
	switch {
	case u.renewed:
		return []redlock.Option{redlock.WithTTL(smallMaxTTL)}
	case u.ttl > 0:
		return []redlock.Option{redlock.WithTTL(smallMaxTTL / 4)}
	default:
		opts := []redlock.Option{redlock.WithTTL([]time.Duration{smallMaxTTL / 4, smallMaxTTL / 2, smallMaxTTL}[rng.IntN(3)])}
		if rng.IntN(2) == 0 {
			opts = append(opts, redlock.WithoutRenewal())
		}
		return append(opts, redlock.WithRetry(20*time.Millisecond, 200*time.Millisecond))
	}
}

// suffer lets the faults begin and end at their times. At the end of the history all end.
func (s *simulation) suffer(all []fault) {
	type turn struct {
		at clock.Instant
		do func()
	}
	var turns []turn
	var replacing sync.WaitGroup
	since := s.Clock.Now()
	for i := range all {
		f := &all[i]
		begun := false
		turns = append(turns, turn{since.Add(f.at), func() {
			if !s.goesOn() {
				return
			}
			begun = true
			if f.ill.ofProcess {
				replacing.Go(func() { s.begin(f) })
				return
			}
			s.begin(f)
		}}, turn{since.Add(f.at + f.lasts), func() {
			if begun && (!f.ill.ofProcess || f.ill.end != nil) {
				s.end(f)
			}
		}})
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.at, b.at) })
	for _, t := range turns {
		s.pause(t.at.Sub(s.Clock.Now()))
		t.do()
	}
	replacing.Wait()
}

// note adds a line to the timeline of a small history.
func (s *simulation) note(who, format string, args ...any) {
	if s.small != nil {
		s.small.timeline.Add(s.Clock.Now(), who, format, args...)
	}
}

// noteChange notes that a node has another holder of a name.
func (s *simulation) noteChange(node int, c fakeredis.Change) {
	switch {
	case s.small == nil || strings.HasPrefix(c.Key, "redquorum:"):
	case c.New == "":
		s.note(fmt.Sprint("node ", node), "%s is no longer of %s", c.Key, s.small.lock(c.Old))
	default:
		s.note(fmt.Sprint("node ", node), "%s goes to %s", c.Key, s.small.lock(c.New))
	}
}

// lock names the lock of a value. Values are random, so it numbers them.
func (h *small) lock(value string) string {
	if len(value) < 26 { // of another library
		return value
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.locks[value] == 0 {
		h.locks[value] = len(h.locks) + 1
	}
	_, owner, _ := strings.Cut(value, "|")
	return fmt.Sprintf("lock %d of %s", h.locks[value], owner)
}

// Small histories of the library beside dense faults, while the members of the cluster are changed
// by two operators, who are killed or stand still in the middle, and for clients whose lists are
// old, short, long, or partly of another cluster: the same holds as in
// TestSimulatedUsesOfAllKindsAreExclusiveAndServed, and afterwards the members can be changed and
// all vote. REDQUORUM_HISTORIES says how many. The first one that fails is shrunk.
func TestSmallHistoriesWithChangesOfMembers(t *testing.T) {
	if text := os.Getenv(shareVariable); text != "" {
		playShare(t, text)
		return
	}
	base, asked := history.Seed(t)
	if asked {
		replays(t, base)
		return
	}
	size := virtual.SizeOf(8, 500_000)
	if virtual.Thorough() && !virtual.Soaks() {
		size = 40
	}
	count := history.Count(t, size)
	if base >>= 1; count == size && !virtual.Soaks() {
		base = 1 // see withChanges
	}
	t.Logf("REDQUORUM_SEED=%d and the next %d", base, count-1)
	all := playApart(t, base, count)
	for _, h := range all.Failed {
		t.Errorf("REDQUORUM_SEED=%d, %s", h.Seed, h.Wrong)
	}
	if len(all.Failed) > 0 {
		t.Error(shrunk(t, newPlan(all.Failed[0].Seed)))
	}
	assert.Greater(t, all.Tenures, count, "tenures")
	t.Log(proof.Line{
		Step: "simulation of the library, with changes of members", Size: fmt.Sprint(count, " histories"), Faults: all.Faults,
		Violations: int64(len(all.Failed)),
	})
}
