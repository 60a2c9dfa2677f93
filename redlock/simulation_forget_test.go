package redlock_test

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/redlock"
)

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
		a.revive(i)
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
