package redlock_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
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

// fault is one thing that breaks, and heals again.
type fault struct {
	id     int // in the whole plan
	ill    *ill
	target int // a node, or a process
	at     time.Duration
	lasts  time.Duration
	much   int // how much of it, from 1
}

// Sizes of a small history.
const (
	smallMaxTTL = 200 * time.Millisecond
	smallFaults = 12 // at most
)

// newPlan draws the plan of a seed. Every seed has a kind of its own.
func newPlan(seed uint64) *plan {
	rng := rand.New(rand.NewPCG(seed, 1<<43))
	p := &plan{seed: seed, kind: &smallUsings[seed%uint64(len(smallUsings))]}
	counts := p.kind.nodes
	if counts == nil {
		counts = []int{1, 2, 3, 3, 3, 3, 5}
	}
	p.nodes = counts[rng.IntN(len(counts))]
	p.processes, p.tasks = 2+rng.IntN(3), 1+rng.IntN(2)
	p.length = 40*time.Millisecond + upTo(rng, 100*time.Millisecond)
	for process := range p.processes {
		for task := range p.tasks {
			p.actors = append(p.actors, clientActor(process, task))
		}
	}
	for i := range p.kind.people {
		p.actors = append(p.actors, personActor(i))
	}
	if all := illsOf(p.kind); len(all) > 0 {
		faulty := rng.IntN(p.nodes)
		for range 2 + rng.IntN(smallFaults-1) {
			p.add(all[rng.IntN(len(all))], faulty, rng)
		}
	}
	return p
}

// add draws a fault. Only one node has wrong clocks and counters.
func (p *plan) add(i *ill, faulty int, rng *rand.Rand) {
	f := fault{id: len(p.faults), ill: i, target: rng.IntN(p.nodes), much: 1 + rng.IntN(20)}
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

// keepsClient reports whether a client takes part.
func (h *small) keepsClient(process, task int) bool {
	return h == nil || slices.Contains(h.plan.actors, clientActor(process, task))
}

// keepsPerson reports whether another person takes part.
func (h *small) keepsPerson(i int) bool {
	return h == nil || slices.Contains(h.plan.actors, personActor(i))
}

// keepsProcess reports whether a client of a process takes part.
func (h *small) keepsProcess(i int) bool {
	for task := range h.plan.tasks {
		if h.keepsClient(i, task) {
			return true
		}
	}
	return false
}

// smallUsings are the kinds of small histories: those of the large ones, and some with nodes that
// forget.
var smallUsings = append(usings[:len(usings):len(usings)],
	using{
		kind: "locks-forget", uses: []use{locks, locks, tries, does, lockSets}, nodes: []int{3, 3, 5},
		beside: faults{losses: true, outages: true, restarts: true, closings: true},
	},
	using{
		kind: "readers-forget", uses: []use{reads, reads, locks, tries}, nodes: []int{3, 3, 5},
		beside: faults{losses: true, outages: true, restarts: true, closings: true},
	},
	using{
		kind: "all-faults", uses: []use{locks, tries, locks, tries, locksAny, extends, reads}, nodes: []int{3, 5},
		beside: faults{losses: true, outages: true, restarts: true, refusals: true, closings: true},
	},
)
