package redlock_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
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
			t.Parallel()
			for _, seed := range seeds(t, 1, 10_000/len(forgettings)+1) {
				simulate(t, seed, func(s *simulation) { s.forget(&f) })
			}
		})
	}
}

// wrongBy is the most that a node's clock may be off.
const wrongBy = time.Minute

// forget runs a simulation in which masters forget.
func (s *simulation) forget(f *forgetting) {
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
	s.judge = newJudge(s, neverJudged)
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
	s.run(func(c *client) { c.work(lockUses) }, beside...)
	s.t.Logf("%s%d losses, %d skipped", s.about, a.losses, a.refrained)
	s.leavesNothing(3*time.Minute + s.patience)
}

// nodes starts n masters whose clocks are wrong: each runs a little too fast or too slow, and those
// of a minority are off by up to a minute.
func (a *amnesia) nodes(n int) {
	s := a.simulation
	s.whole, s.dead, s.born = make([]atomic.Int64, n), make([]bool, n), make([]clock.Instant, n)
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
		does(c)
	case 1:
		locks(c)
	default:
		tries(c) // makes room for the next visitor, which knows nothing
	}
	_ = p.current().Close()
}

// amnesia is weather in which masters lose their memory.
type amnesia struct {
	*simulation
	*forgetting
	rng     *rand.Rand
	mode    redlock.Quarantine // of all Lockers, unless they are mixed
	spare   *fake.Node         // an empty master of another cluster
	keeping []bool             // by node: claims to be durable, never restored from an old copy
	lost    []clock.Instant    // by node: when it last lost its memory, 0 for never

	losses, refrained int
}

func newAmnesia(s *simulation, f *forgetting, nodes int) *amnesia {
	a := &amnesia{
		simulation: s, forgetting: f, rng: s.rng,
		spare: s.newNode(), keeping: make([]bool, nodes), lost: make([]clock.Instant, nodes),
	}
	if f.modes != nil {
		a.mode = f.modes[s.rng.IntN(len(f.modes))]
		s.about = []string{"auto, ", "strict, "}[a.mode]
	}
	for i := range a.keeping {
		a.keeping[i] = s.rng.Float64() < f.durable
	}
	a.nodes(nodes)
	return a
}

// run makes one master after another lose its memory, in bursts, until the simulation ends. In
// between, processes lose contact with some nodes and regain it.
func (a *amnesia) run() {
	for a.goesOn() {
		for range 1 + a.rng.IntN(4) {
			a.pause(upTo(a.rng, a.maxTTL/4))
			switch {
			case a.rng.IntN(3) == 0:
				a.processes[a.rng.IntN(len(a.processes))].route.set(a.minority(a.rng))
			case a.rng.IntN(2) == 0 && a.beside != (faults{}):
				a.breakOne(a.rng)
			default:
				a.forgetOne()
			}
		}
		if a.rng.IntN(3) == 0 {
			a.heal()
		}
		a.pause(upTo(a.rng, a.maxTTL))
	}
	for _, p := range a.processes {
		p.route.set(0)
	}
	a.heal()
}

func (a *amnesia) forgetOne() {
	i := a.victim()
	if a.dead[i] {
		comesBack(a.simulation, &fault{target: i})
	}
	a.ways[a.rng.IntN(len(a.ways))](a, i)
}

// victim returns a random node. If a lock stands on a bare majority, it returns one of those nodes
// half of the time.
func (a *amnesia) victim() int {
	name := a.names[a.rng.IntN(len(a.names))]
	nodes := make(map[string][]int) // by the value they hold
	for i, server := range a.servers {
		if value, _, ok := server.Get(name); ok {
			nodes[value] = append(nodes[value], i)
		}
	}
	for _, holding := range nodes {
		if len(holding) == len(a.servers)/2+1 && a.rng.IntN(2) == 0 {
			return holding[a.rng.IntN(len(holding))]
		}
	}
	return a.rng.IntN(len(a.servers))
}

// mayForget reports whether a node may lose its memory now. In Strict mode any node may, even all
// at once. In Auto mode one other node must remember: a quorum without evidence of a past is a new
// cluster.
func (a *amnesia) mayForget(i int) bool {
	if a.modes != nil && a.mode == redlock.QuarantineStrict {
		return true
	}
	marked := false
	for k := range a.servers {
		if text := a.memory(k); text != "" {
			marked = true
			if k != i && !strings.HasPrefix(text, "new ") {
				return true
			}
		}
	}
	if marked {
		return false
	}
	for k := range a.servers { // no node has a proof of memory: only time decides
		if k != i && (a.lost[k] == 0 || a.clock.Now().Sub(a.lost[k]) > a.maxTTL+2*time.Second) {
			return true
		}
	}
	return false
}

// memoryKey is the key of the memory marker, by which a node proves that it remembers.
const memoryKey = "redquorum:memory"

// memory returns the memory marker of a node, "" for none.
func (a *amnesia) memory(i int) string {
	text, _, _ := a.servers[i].Get(memoryKey)
	return text
}

// loses records that a node is about to lose its memory. It returns false if the node must not.
func (a *amnesia) loses(i int) bool {
	if !a.mayForget(i) {
		a.refrained++
		return false
	}
	a.losses++
	a.lost[i] = a.clock.Now()
	return true
}

// way is a way in which a master loses its memory, or seems to.
type way func(a *amnesia, i int)

// keeps loses nothing: the only faults are wrong clocks and cut routes.
func keeps(*amnesia, int) {}

// outage is the longest time for which a server is down when it is restarted at once.
const outage = 50 * time.Millisecond

// down kills a server and returns it, sometimes after a short outage. The caller restarts it.
func (a *amnesia) down(i int) *fake.Node {
	a.servers[i].Kill()
	if a.rng.IntN(2) == 0 {
		a.pause(upTo(a.rng, outage))
	}
	return a.servers[i]
}

// restartsEmpty is a restart without persistence.
func restartsEmpty(a *amnesia, i int) {
	if a.loses(i) {
		a.down(i).Restart(false)
	}
}

// allRestartEmpty is a power failure.
func allRestartEmpty(a *amnesia, _ int) {
	for i := range a.servers {
		if a.loses(i) {
			a.servers[i].Restart(false)
			a.dead[i] = false
		}
	}
}

// restartsDurable is a restart of a durable server, which keeps everything. A server that becomes
// durable only shortly before a restart is a case of restartsDurableSince.
func restartsDurable(a *amnesia, i int) {
	if a.keeping[i] {
		a.down(i).Restart(true)
	}
}

// restartsDurableSince is a restart at which the operator switches persistence on. Nothing was
// written to the disk before.
func restartsDurableSince(a *amnesia, i int) {
	if a.loses(i) {
		server := a.down(i)
		setDurable(server)
		a.keeping[i] = true
		server.Restart(false)
	}
}

func setDurable(server *fake.Node) {
	server.SetConfig("appendonly", "yes")
	server.SetConfig("appendfsync", "always")
}

// saves takes a snapshot, for restartsStale and followsItsReplica.
func saves(a *amnesia, i int) { a.servers[i].Save() }

// restartsStale is a restart from a snapshot that missed the latest writes. A durable server never
// restarts so: a disk that was rolled back to an old copy looks just like one that was kept.
func restartsStale(a *amnesia, i int) {
	if !a.keeping[i] && a.loses(i) {
		a.down(i).RestartFromSnapshot()
	}
}

// flushes is a FLUSHALL.
func flushes(a *amnesia, i int) {
	if a.loses(i) {
		a.servers[i].FlushAll()
	}
}

// followsAnother is REPLICAOF another master, of this cluster or another one, and back. Connections
// survive.
func followsAnother(a *amnesia, i int) {
	if !a.loses(i) {
		return
	}
	other := a.spare
	if k := a.rng.IntN(len(a.servers)); k != i {
		other = a.servers[k]
	}
	a.servers[i].ReplicateFrom(other)
	a.pause(upTo(a.rng, outage))
	a.servers[i].Promote()
}

// followsAnotherDurably is followsAnother with a restart after it. The server is as durable as
// before, and only the data tells that it was a replica.
func followsAnotherDurably(a *amnesia, i int) {
	if a.keeping[i] {
		followsAnother(a, i)
		a.down(i).Restart(true)
	}
}

// followsItsReplica is a failover to a replica that lagged behind, and back. No connection survives
// it: a surviving one would see only data that looks like the node's own memory.
func followsItsReplica(a *amnesia, i int) {
	if a.keeping[i] || !a.loses(i) {
		return
	}
	a.servers[i].ReplicateFromSnapshot()
	a.pause(upTo(a.rng, outage))
	a.servers[i].Disconnect() // until it is a master again, no client stays connected
	a.servers[i].Promote()
}

// isReplaced puts another server behind the endpoint, which has been up for an hour or has just
// started.
func isReplaced(a *amnesia, i int) {
	if !a.loses(i) {
		return
	}
	server := a.newNode(fake.WithUptime(a.uptime()))
	a.watch(i, server)
	a.keeping[i] = a.rng.Float64() < a.durable
	if a.keeping[i] {
		setDurable(server)
	}
	a.replaceServer(i, server)
	a.slowDown(i, a.latency)
}

// isSwitched puts another server behind the endpoint and its open connections, as a proxy may.
func isSwitched(a *amnesia, i int) {
	if a.loses(i) {
		a.servers[i].SwitchServer(a.uptime())
	}
}

func (a *amnesia) uptime() time.Duration {
	if a.rng.IntN(2) == 0 {
		return time.Hour
	}
	return 0
}
