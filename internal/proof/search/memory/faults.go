package memory

import (
	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

// strike is a fault: the node now has other data, or none.
func (x *explorer) strike(w *world, n int, data memory) world {
	next := *w
	next.faults--
	m := &next.nodes[n]
	m.memory, m.whole, m.hurt = data, false, x.Track
	return next
}

// copy keeps the data of a node as it is now: as a snapshot on its disk, or at a replica that is
// cut off from then on.
func (x *explorer) copy(w *world, n int, visit visitor) {
	for i := range x.Copies {
		if w.copies[i].owner == 0 {
			next := *w
			next.copies[i] = copied{owner: uint8(n) + 1, memory: w.nodes[n].memory}
			visit(&next, at(&next, Copies, search.Nobody, n))
			return
		}
	}
}

// restart is a crash, and a new process: with no data, with a copy, or with all data if the node is
// durable.
func (x *explorer) restart(w *world, n int, visit visitor) {
	for _, toggles := range [...]bool{false, true} {
		if toggles && !x.Toggle {
			continue
		}
		durable := w.nodes[n].durable != toggles
		if x.Kinds&Empty != 0 {
			x.restartWith(w, n, memory{}, durable, RestartsEmpty, visit)
		}
		for i := range w.copies {
			outside := w.copies[i].durable && durable && !x.Rollback
			if x.Kinds&Stale != 0 && int(w.copies[i].owner) == n+1 && !outside {
				x.restartWith(w, n, w.copies[i].memory, durable, RestartsWithCopy, visit)
			}
		}
		if outside := w.nodes[n].taken && !x.Reborn; x.Kinds&Full != 0 && w.nodes[n].durable && !outside {
			x.restartWith(w, n, w.nodes[n].memory, durable, RestartsDurable, visit)
		}
	}
}

func (x *explorer) restartWith(w *world, n int, data memory, durable bool, kind search.Kind, visit visitor) {
	next := x.strike(w, n, data)
	m := &next.nodes[n]
	m.durable, m.promoted = durable, false
	m.whole = kind == RestartsDurable && w.nodes[n].whole
	next.memories(func(m *memory) {
		if m.run == runOf(n) {
			m.run, m.replid = 0, false
		}
	})
	for c := range x.Clients {
		next.detach(c, n)
	}
	visit(&next, at(&next, kind, search.Nobody, n))
}

// flush is FLUSHALL, or DEBUG RELOAD without a snapshot: the process and its connections stay.
func (x *explorer) flush(w *world, n int, visit visitor) {
	if x.Kinds&Flush != 0 && w.nodes[n].memory != (memory{}) {
		next := x.strike(w, n, memory{})
		visit(&next, at(&next, Flushed, search.Nobody, n))
	}
}

// replicate makes a node a replica, and a master again, in one process.
func (x *explorer) replicate(w *world, n int, visit visitor) {
	for other := range nodes {
		if x.Kinds&Replica != 0 && other != n {
			x.takeOver(w, n, w.nodes[other].memory, ReplicatesOther, visit)
		}
	}
	if x.Kinds&OldMaster == 0 {
		return
	}
	for i := range w.copies {
		switch int(w.copies[i].owner) {
		case 0:
		case n + 1:
			x.takeOver(w, n, w.copies[i].memory, ReplicatesItself, visit)
		default:
			x.takeOver(w, n, w.copies[i].memory, ReplicatesCopy, visit)
		}
	}
}

// takeOver keeps the connections. If the data is of this very process, they have to end, because a
// proof would prove nothing then.
func (x *explorer) takeOver(w *world, n int, data memory, kind search.Kind, visit visitor) {
	next := x.strike(w, n, data)
	m := &next.nodes[n]
	m.promoted, m.taken = true, m.state != spec.Absent
	next.memories(func(m *memory) {
		if m.run == runOf(n) {
			m.replid = false
		}
	})
	if data.run == runOf(n) && !x.OwnReplica {
		for c := range x.Clients {
			next.detach(c, n)
		}
	}
	visit(&next, at(&next, kind, search.Nobody, n))
}

// renew changes the replid of a master, and drops the second one, as an hour after its last replica
// has gone. An hour is longer than any lock.
func (x *explorer) renew(w *world, n int, visit visitor) {
	m := &w.nodes[n]
	if !x.Renew || !m.replid && !m.promoted || m.promoted && w.alive() != 0 {
		return
	}
	next := *w
	next.nodes[n].promoted = false
	next.memories(func(m *memory) {
		if m.run == runOf(n) {
			m.replid = false
		}
	})
	visit(&next, at(&next, RenewsReplid, search.Nobody, n))
}
