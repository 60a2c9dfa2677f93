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

// restart is a crash, and a new process: with no data, with a copy, or if the node is durable with
// all data, or the part that it loads. A part is all but the key: what remains can vouch for it. (A
// log that lost its end is a copy. What is skipped now is loaded when the node loads all again, but
// a key that has come back only refuses votes.)
func (x *explorer) restart(w *world, n int, visit visitor) {
	for _, toggles := range [...]bool{false, true} {
		if toggles && !x.Toggle {
			continue
		}
		as := node{durable: w.nodes[n].durable != toggles}
		if !w.nodes[n].unseen || x.Unseen {
			x.restartAs(w, n, as, visit)
		}
		if as.partial = true; x.Tear {
			x.restartAs(w, n, as, visit)
		}
	}
}

// restartAs is a restart with these settings.
func (x *explorer) restartAs(w *world, n int, as node, visit visitor) {
	if x.Kinds&Empty != 0 {
		x.restartWith(w, n, memory{}, as, RestartsEmpty, visit)
	}
	for i := range w.copies {
		outside := w.copies[i].durable && as.persists() && !x.Rollback
		if x.Kinds&Stale != 0 && int(w.copies[i].owner) == n+1 && !outside {
			x.restartWith(w, n, w.copies[i].memory, as, RestartsWithCopy, visit)
		}
	}
	data, outside := w.nodes[n].memory, w.nodes[n].taken && !x.Reborn
	if x.Kinds&Full != 0 && w.nodes[n].durable && !as.partial && !outside {
		x.restartWith(w, n, data, as, RestartsDurable, visit)
	}
	if data.key = 0; x.Kinds&Part != 0 && w.nodes[n].durable && as.partial {
		x.restartWith(w, n, data, as, RestartsInPart, visit)
	}
}

func (x *explorer) restartWith(w *world, n int, data memory, as node, kind search.Kind, visit visitor) {
	next := x.strike(w, n, data)
	m := &next.nodes[n]
	m.durable, m.partial, m.promoted = as.durable, as.partial, false
	m.unseen = kind == RestartsInPart || kind == RestartsWithCopy && as.partial || m.unseen && kind == RestartsDurable
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

// lose is the loss of a single key: it is deleted or evicted, or the clock goes forward past its
// end.
func (x *explorer) lose(w *world, n int, visit visitor) {
	if x.Kinds&Single != 0 && w.nodes[n].key != 0 {
		next := x.strike(w, n, w.nodes[n].memory)
		next.nodes[n].key = 0
		visit(&next, at(&next, LosesTheKey, search.Nobody, n))
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
