package redlock_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/redlock"
)

// forgetting is one kind of memory loss and the cluster it happens to.
type forgetting struct {
	kind    string
	ways    []way
	modes   []redlock.Quarantine // the seed picks one; none: mixed
	young   bool                 // the masters start together with the simulation
	durable float64              // share of the masters that claim to be durable from the start
	beside  faults               // other faults of the nodes
}

var (
	strictOnly = []redlock.Quarantine{redlock.QuarantineStrict}
	bothModes  = []redlock.Quarantine{redlock.QuarantineAuto, redlock.QuarantineStrict}
)

// forgettings lists all kinds. Each has its own seeds, so a violation tells which kind causes it.
var forgettings = []forgetting{
	{kind: "nothing", ways: []way{keeps}, modes: bothModes},
	{kind: "young", ways: []way{restartsEmpty}, modes: bothModes, young: true},
	{kind: "rolling", ways: []way{restartsEmpty}, modes: bothModes},
	{kind: "all", ways: []way{allRestartEmpty}, modes: strictOnly},
	{kind: "durable", ways: []way{restartsDurable}, modes: bothModes, durable: 1},
	{kind: "durable-since", ways: []way{restartsDurableSince}, modes: bothModes},
	{kind: "lost-disk", ways: []way{restartsEmpty}, modes: bothModes, durable: 1},
	{kind: "stale", ways: []way{saves, restartsStale}, modes: bothModes},
	{kind: "flush", ways: []way{flushes}, modes: bothModes},
	{kind: "replica", ways: []way{followsAnother}, modes: bothModes},
	{kind: "own-replica", ways: []way{saves, followsItsReplica}, modes: bothModes},
	{kind: "durable-replica", ways: []way{followsAnotherDurably, isReplaced}, modes: bothModes, durable: 1},
	{kind: "server", ways: []way{isReplaced}, modes: bothModes},
	{kind: "proxy", ways: []way{isSwitched}, modes: bothModes},
	{kind: "mixed", ways: everyWay, durable: 0.5},
	{
		kind: "mixed-strict", modes: strictOnly, durable: 0.5,
		ways: append(everyWay[:len(everyWay):len(everyWay)], allRestartEmpty),
	},
	{
		kind: "mixed-faults", ways: everyWay, durable: 0.5,
		beside: faults{losses: true, outages: true, refusals: true, closings: true},
	},
}

var everyWay = []way{
	restartsEmpty, restartsDurable, restartsDurableSince, saves, restartsStale, flushes, followsAnother,
	followsAnotherDurably, followsItsReplica, isReplaced, isSwitched,
}

// Masters forget in every way, in old and in young clusters, used by Lockers that know them and by
// Lockers that live for one lock: the locks are exclusive, and no client touches another's key. How
// long a lock takes is not judged. The one case that Auto excludes does not occur: that all masters
// forget within one MaxTTL.
func TestSimulatedMastersThatForgetNeverGrantTwice(t *testing.T) {
	t.Parallel()
	for _, f := range forgettings {
		t.Run(f.kind, func(t *testing.T) {
			for _, seed := range seeds(t, 1, 10_000/len(forgettings)+1) {
				simulate(t, seed, func(s *simulation) { s.forgets(&f) })
			}
		})
	}
}

// wrongBy is the most that a node's clock may be off.
const wrongBy = time.Minute

// neverJudged is a bound on waiting that is never exceeded.
const neverJudged = time.Hour

// forgets runs a simulation in which masters forget.
func (s *simulation) forgets(f *forgetting) {
	rng := s.rng
	s.faults, s.length = f.beside, 12*time.Second
	// A replica keeps a key until the instant that its master's clock set.
	s.patience = 2*wrongBy + 10*time.Second
	if f.young {
		s.length = 2 * s.maxTTL
	}
	a := newAmnesia(s, f, []int{2, 3, 3, 3, 3, 4, 5, 5}[rng.IntN(8)])
	for i := range 1 + rng.IntN(2) {
		s.names = append(s.names, fmt.Sprint("name", i))
	}
	s.hold = func(rng *rand.Rand) time.Duration {
		if rng.IntN(2) == 0 {
			return upTo(rng, s.maxTTL)
		}
		return upTo(rng, 20*time.Millisecond)
	}
	s.judge = newJudge(s.clock, neverJudged)
	for i, server := range s.servers {
		s.watch(i, server)
	}
	for i := range 1 + rng.IntN(3) {
		p := s.newProcess(i, rng, a.options(rng))
		p.route = newRoute(s, 0)
		p.start()
		s.processes = append(s.processes, p)
	}
	s.tasks = 1
	beside := []func(){a.run}
	for i := range 2 + rng.IntN(3) {
		v := &visitors{amnesia: a, id: i, rng: rand.New(rand.NewPCG(s.seed, uint64(1<<20+i)))}
		beside = append(beside, v.run)
	}
	s.run((*client).run, beside...)
	s.t.Logf("%s%d losses, %d skipped", s.about, a.losses, a.refrained)
	s.leavesNothing(3*time.Minute + s.patience)
}

// nodes starts n masters whose clocks are wrong: each runs a little too fast or too slow, and those
// of a minority are off by up to a minute.
func (a *amnesia) nodes(n int) {
	s := a.simulation
	s.dead, s.born = make([]bool, n), make([]clock.Instant, n)
	s.servers = make([]*fake.Node, n)
	wrong := s.minority(a.rng)
	for i := range n {
		var offset time.Duration
		if wrong>>i&1 == 1 {
			offset = upTo(a.rng, 2*wrongBy) - wrongBy
		}
		// 0.4 % of the 1 % allowed between a client and a node.
		rate := 1 + (a.rng.Float64()-0.5)/125
		opts := []fake.Option{fake.WithNodeClock(offset, rate)}
		if !a.young {
			opts = append(opts, fake.WithUptime(time.Hour))
		}
		s.servers[i] = s.newNode(opts...)
		if a.keeping[i] {
			setDurable(s.servers[i])
		}
		s.slowDown(i, s.latency)
	}
}

func (a *amnesia) options(rng *rand.Rand) []redlock.Option {
	mode := bothModes[rng.IntN(2)]
	if a.modes != nil {
		mode = a.mode
	}
	return append(randomOptions(rng), redlock.WithQuarantine(mode))
}

// visitors come one after another. Each creates its own Locker for one lock, like a `redlock run`.
type visitors struct {
	*amnesia
	id   int
	rng  *rand.Rand
	come int
}

func (v *visitors) run() {
	for v.goesOn() {
		v.visit()
		v.pause(upTo(v.rng, 150*time.Millisecond))
	}
}

// visit is the life of one visitor, which may be unable to reach some nodes.
func (v *visitors) visit() {
	v.come++
	p := v.newProcess(1000*(v.id+1)+v.come, v.rng, v.options(v.rng))
	p.route = newRoute(v.simulation, v.minority(v.rng))
	p.start()
	c := &client{p, fmt.Sprintf("visitor %d.%d", v.id, v.come), v.rng}
	switch v.rng.IntN(6) {
	case 0:
		c.do()
	case 1:
		c.lock(c.name())
	default:
		c.attempt() // makes room for the next visitor, which knows nothing
	}
	_ = p.current().Close()
}
