package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// forgetful is how the masters of a kind lose their memory, and the cluster that they are.
type forgetful struct {
	modes   []redlock.Quarantine // of all Lockers; the seed picks one. None: mixed
	young   bool                 // the masters start together with the simulation
	durable float64              // share of the masters that claim to be durable from the start
	others  faults               // that happen besides
}

var (
	strictOnly = []redlock.Quarantine{redlock.QuarantineStrict}
	bothModes  = []redlock.Quarantine{redlock.QuarantineAuto, redlock.QuarantineStrict}
)

var everyWay = []string{
	"restarts empty", "killed", "becomes durable", "is saved", "restarts from a snapshot", "is flushed", "follows another",
	"follows another durably", "follows its replica", "is replaced", "is switched",
}

// forgettings are kinds of large histories in which masters forget.
var forgettings = []using{
	forgetting("nothing", forgetful{modes: bothModes}, "out of reach"),
	forgetting("young", forgetful{modes: bothModes, young: true}, "restarts empty"),
	forgetting("rolling", forgetful{modes: bothModes}, "restarts empty"),
	forgetting("all", forgetful{modes: strictOnly}, "all restart empty"),
	forgetting("durable", forgetful{modes: bothModes, durable: 1}, "killed"),
	forgetting("durable-since", forgetful{modes: bothModes}, "becomes durable"),
	forgetting("lost-disk", forgetful{modes: bothModes, durable: 1}, "restarts empty"),
	forgetting("stale", forgetful{modes: bothModes}, "is saved", "restarts from a snapshot"),
	forgetting("flush", forgetful{modes: bothModes}, "is flushed"),
	forgetting("replica", forgetful{modes: bothModes}, "follows another"),
	forgetting("own-replica", forgetful{modes: bothModes}, "is saved", "follows its replica"),
	forgetting("durable-replica", forgetful{modes: bothModes, durable: 1}, "follows another durably", "is replaced"),
	forgetting("server", forgetful{modes: bothModes}, "is replaced"),
	forgetting("proxy", forgetful{modes: bothModes}, "is switched"),
	forgetting("mixed", forgetful{durable: 0.5}, everyWay...),
	forgetting("mixed-strict", forgetful{modes: strictOnly, durable: 0.5}, append(everyWay[:len(everyWay):len(everyWay)], "all restart empty")...),
	forgetting("members", forgetful{modes: bothModes}, "restarts empty", "restarts from a snapshot").withChanges(5 * time.Second),
	forgetting("members-durable", forgetful{modes: bothModes, durable: 1}, "killed", "restarts empty").withChanges(5 * time.Second),
	forgetting("members-mixed", forgetful{durable: 0.5, others: faults{losses: true, outages: true, closings: true}}, everyWay...).withChanges(5 * time.Second),
	forgetting("mixed-faults", forgetful{durable: 0.5, others: faults{losses: true, outages: true, refusals: true, closings: true}}, everyWay...),
}

func forgetting(kind string, how forgetful, ills ...string) using {
	u := using{
		kind: kind, forgetful: &how, ills: ills, still: how.others == faults{}, beside: how.others, breaker: forget,
		uses: lockUses, people: []person{visits, visits, visits}, length: 12 * time.Second, hold: time.Second,
		nodes: []int{2, 3, 3, 3, 3, 4, 5, 5}, names: [2]int{1, 2}, crowd: [2]int{1, 3}, tasks: [2]int{1, 1},
	}
	if how.young {
		u.length = 4 * time.Second
	}
	return u
}

// Masters forget in every way, in old and in young clusters, used by Lockers that know them and by
// Lockers that live for one lock: the locks are exclusive, and no client touches another's key. How
// long a lock takes is not judged. The one case that Auto excludes does not occur: that all masters
// forget within one MaxTTL.
func TestSimulatedMastersThatForgetNeverGrantTwice(t *testing.T) {
	t.Parallel()
	playKinds(t, forgettings)
}

// wrongBy is the most that the clock of a node that forgets may be off.
const wrongBy = time.Minute

// options are those of a Locker, with the mode of all of them or any.
func (u *forgetful) options(s *simulation, rng *rand.Rand) []redlock.Option {
	mode := s.mode
	if u.modes == nil {
		mode = bothModes[rng.IntN(2)]
	}
	return append(randomOptions(rng), redlock.WithQuarantine(mode))
}

// visits is one visitor after another. Each creates its own Locker for one lock, like a `redlock
// run`, and may be unable to reach some nodes.
func visits(s *simulation, rng *rand.Rand) {
	for id := 1000 * (1 + rng.IntN(1_000_000)); s.goesOn(); id++ {
		p := s.newProcess(id, rng, s.kind.forgetful.options(s, rng))
		p.route.set(s.minority(rng))
		p.start()
		c := &client{p, fmt.Sprintf("visitor %d", id), rng}
		switch rng.IntN(6) {
		case 0:
			does(c)
		case 1:
			locks(c)
		default:
			tries(c) // makes room for the next visitor, which knows nothing
		}
		_ = p.current().Close()
		s.pause(upTo(rng, 150*time.Millisecond))
	}
}

// forget makes one master after another lose its memory, in bursts. In between, processes lose
// contact with some nodes and regain it.
func forget(s *simulation, rng *rand.Rand) {
	for s.goesOn() {
		for range 1 + rng.IntN(4) {
			s.pause(upTo(rng, s.maxTTL/4))
			if rng.IntN(3) == 0 {
				s.strike(&fault{ill: illOf("out of reach"), target: rng.IntN(len(s.processes))})
			} else {
				s.breakOne(rng)
			}
		}
		if rng.IntN(3) == 0 {
			s.heal()
		}
		s.pause(upTo(rng, s.maxTTL))
	}
	s.heal()
}

// victim returns a random node. If nodes forget and a lock stands on a bare majority, it returns
// one of those nodes half of the time.
func (s *simulation) victim(rng *rand.Rand) int {
	holding := make(map[string][]int) // by the value they hold
	if s.kind.forgetful != nil {
		name := s.names[rng.IntN(len(s.names))]
		for i, server := range s.Servers {
			if value, _, ok := server.Get(name); ok {
				holding[value] = append(holding[value], i)
			}
		}
	}
	for _, nodes := range holding {
		if len(nodes) == len(s.Servers)/2+1 && rng.IntN(2) == 0 {
			return nodes[rng.IntN(len(nodes))]
		}
	}
	return rng.IntN(len(s.Servers))
}

// mayForget reports whether a node may lose its memory now. In Strict mode any node may, even all
// at once. In Auto mode one other node must remember: a quorum without evidence of a past is a new
// cluster.
func (s *simulation) mayForget(i int) bool {
	switch {
	case s.kind.forgetful == nil:
		return s.maySpare(i)
	case s.kind.changes:
		return s.memberMayForget(i)
	case s.kind.forgetful.modes != nil && s.mode == redlock.QuarantineStrict:
		return true
	}
	marked := false
	for k, server := range s.Servers {
		if text, _, _ := server.Get(pipeline.MemoryKey); text != "" {
			marked = true
			if k != i && !strings.HasPrefix(text, "new ") {
				return true
			}
		}
	}
	if marked {
		return false
	}
	for k, at := range s.born { // no node has a proof of memory: only time decides
		if k != i && (at == 0 || s.Clock.Now().Sub(at) > s.maxTTL+2*time.Second) {
			return true
		}
	}
	return false
}

// down kills a server and returns it. If nodes forget, that takes a short outage half of the time.
// The caller restarts it.
func (s *simulation) down(i int) *fakeredis.Node {
	s.Servers[i].Kill()
	s.away()
	return s.Servers[i]
}

// away passes the time of a short outage, half of the time if nodes forget.
func (s *simulation) away() {
	if s.kind.forgetful != nil && s.rng.IntN(2) == 0 {
		s.pause(upTo(s.rng, 50*time.Millisecond))
	}
}

// allRestartEmpty is a power failure.
func allRestartEmpty(s *simulation, _ *fault) {
	for i, server := range s.Servers {
		server.Restart(false)
		s.dead[i], s.born[i] = false, s.Clock.Now()
	}
}

// becomesDurable is a restart at which the operator switches persistence on. Nothing was written to
// the disk before.
func becomesDurable(s *simulation, f *fault) {
	server := s.down(f.target)
	virtual.SetDurable(server)
	s.keeping[f.target] = true
	server.Restart(false)
}

// followsAnother is REPLICAOF another master, of this cluster or another one, and back. Connections
// survive.
func followsAnother(s *simulation, f *fault) {
	other := s.spare
	if k := s.rng.IntN(len(s.Servers)); k != f.target {
		other = s.Servers[k]
	}
	s.Servers[f.target].ReplicateFrom(other)
	s.pause(upTo(s.rng, 50*time.Millisecond))
	s.Servers[f.target].Promote()
}

// followsAnotherDurably is followsAnother with a restart after it. The server is as durable as
// before, and only the data tells that it was a replica.
func followsAnotherDurably(s *simulation, f *fault) {
	if s.keeping[f.target] {
		followsAnother(s, f)
		s.down(f.target).Restart(true)
	}
}

// followsItsReplica is a failover to a replica that lagged behind, and back. No connection survives
// it: a surviving one would see only data that looks like the node's own memory.
func followsItsReplica(s *simulation, f *fault) {
	server := s.Servers[f.target]
	if s.keeping[f.target] {
		return
	}
	server.ReplicateFromSnapshot()
	s.pause(upTo(s.rng, 50*time.Millisecond))
	server.Disconnect() // until it is a master again, no client stays connected
	server.Promote()
}

// isReplaced puts another server behind the endpoint, which has been up for an hour or has just
// started.
func isReplaced(s *simulation, f *fault) {
	i, old := f.target, s.Servers[f.target]
	server := s.newNode(fakeredis.WithUptime(s.uptime()))
	s.watchKeys(i, server)
	s.keeping[i] = s.rng.Float64() < s.kind.forgetful.durable
	if s.keeping[i] {
		virtual.SetDurable(server)
	}
	s.exchange.Lock()
	s.Servers[i] = server
	s.exchange.Unlock()
	old.Kill()
	s.slowDown(i, s.latency)
}

func (s *simulation) uptime() time.Duration { return time.Duration(s.rng.IntN(2)) * time.Hour }
