package memory

import (
	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

type visitor func(next *world, e search.Event)

// Each visits every step from w.
func (x *explorer) Each(w *world, visitNext func(next *world, e search.Event)) {
	visit := func(next *world, e search.Event) {
		x.normalize(next)
		visitNext(next, e)
	}
	for c := range x.Clients {
		for n := range nodes {
			x.connect(w, c, n, visit)
			x.swap(w, c, n, visit)
			x.vote(w, c, n, visit)
		}
		x.cluster(w, c, visit)
		x.over(w, c, visit)
	}
	for n := range nodes {
		x.copy(w, n, visit)
		x.renew(w, n, visit)
		if w.faults > 0 {
			x.restart(w, n, visit)
			x.flush(w, n, visit)
			x.lose(w, n, visit)
			x.replicate(w, n, visit)
		}
	}
}

// facts are what client c reads at node n.
func (x *explorer) facts(w *world, c, n int) spec.Facts {
	m := &w.nodes[n]
	f := spec.Facts{
		State:         m.state,
		Own:           m.run == runOf(n),
		Durable:       m.memory.durable,
		DurableNow:    m.persists() || m.durable && (x.LoadsAll || x.LoadsThen),
		ReplidChanged: !m.replid,
		Promoted:      m.promoted,
		Elsewhere:     x.elsewhere(w, c, n),
		Known:         w.clients[c].links[n].known && !x.Unknowing,
		Passed:        m.wait == 0 || x.OwnClock,
	}
	waiting := m.state == spec.New || m.state == spec.Lost
	f.Own = f.Own || x.AnyRun || x.AnyRunWaiting && waiting
	f.ReplidChanged = f.ReplidChanged && !x.NoWitness && (!x.WitnessActive || !waiting)
	f.Promoted = f.Promoted && (f.Own || !x.PromotedTrust)
	f.Durable = f.Durable || x.DurableNow
	f.DurableNow = f.DurableNow || x.DurableThen
	return f
}

// elsewhere reports whether another node has the incarnation of node n. A client that cannot read
// all others waits until it can, so there is no step in which it does not know.
func (x *explorer) elsewhere(w *world, c, n int) bool {
	for other := range nodes {
		if other == n || x.ElsewhereTrust ||
			x.ElsewhereKnown && w.clients[c].links[other].stage == away {
			continue
		}
		if w.nodes[other].incarnation == w.nodes[n].incarnation {
			return true
		}
	}
	return false
}

// connect is a handshake on a new connection.
func (x *explorer) connect(w *world, c, n int, visit visitor) {
	f := x.facts(w, c, n)
	next := *w
	next.detach(c, n)
	m := &next.nodes[n]
	m.unseen = false
	l := &next.clients[c].links[n]
	switch verdict := spec.Judge(f); {
	case f.Own && (x.CountNew && m.state == spec.New || x.CountWaiting && m.state == spec.Lost):
		l.stage, l.incarnation, l.known = admitted, m.incarnation, true
		visit(&next, at(&next, Admits, c, n))
	case verdict == spec.Wait || x.LeaveNew && verdict == spec.ToLost:
		x.wait(&next, &w.clients[c].links[n], c, n, visit)
	case verdict == spec.Vote:
		l.stage, l.incarnation, l.known = admitted, m.incarnation, true
		if *l != w.clients[c].links[n] {
			visit(&next, at(&next, Admits, c, n))
		}
	default:
		l.stage, l.verdict, l.seen, l.own, l.incarnation = intends, verdict, m.state, f.Own, m.incarnation
		if x.Racing {
			visit(&next, at(&next, Intends, c, n))
			return
		}
		x.swap(&next, c, n, visit)
	}
}

// wait is what a waiting client does: if the marker is new, it remembers that.
func (x *explorer) wait(next *world, was *link, c, n int, visit visitor) {
	m := &next.nodes[n]
	l := &next.clients[c].links[n]
	if x.Strict || m.state != spec.New && !x.LostIsNew {
		if *l != *was {
			visit(next, at(next, Waits, c, n))
		}
		return
	}
	l.stage, l.seen, l.own, l.incarnation = seesNew, m.state, true, m.incarnation
	m.told = m.told || l.known
	visit(next, at(next, SeesNew, c, n))
}

// swap is the script that compares, and writes.
func (x *explorer) swap(w *world, c, n int, visit visitor) {
	if w.clients[c].links[n].stage != intends {
		return
	}
	next := *w
	next.detach(c, n)
	intent := &w.clients[c].links[n]
	m := &next.nodes[n]
	l := &next.clients[c].links[n]
	own := m.run == runOf(n) || x.AnyRun || x.AnyRunWaiting && (m.state == spec.New || m.state == spec.Lost)
	same := m.state == intent.seen && m.incarnation == intent.incarnation && own == intent.own
	if !same && (!x.Blind || intent.verdict != spec.Activate) {
		visit(&next, at(&next, SwapFails, c, n))
		return
	}
	switch intent.verdict {
	case spec.WriteNew, spec.WriteLost, spec.ToLost:
		x.forgotten(&next, c, n, intent.verdict)
		visit(&next, at(&next, writes[intent.verdict], c, n))
	case spec.Activate:
		if m.wait != 0 && !x.OwnClock && !x.Blind {
			return
		}
		m.activate(intent.incarnation, runOf(n))
		l.stage, l.incarnation, l.known = admitted, m.incarnation, true
		visit(&next, at(&next, ActivatesByTime, c, n))
	case spec.TakeRun:
		m.run, m.replid = runOf(n), true
		l.stage, l.incarnation, l.known = admitted, m.incarnation, true
		visit(&next, at(&next, TakesRun, c, n))
	case spec.Wait, spec.Vote:
		panic("memory: nothing to write")
	}
}

var writes = [...]search.Kind{spec.WriteNew: WritesNew, spec.WriteLost: WritesLost, spec.ToLost: MakesLost}

// forgotten writes a marker that waits. A client that writes new has seen it new.
func (x *explorer) forgotten(next *world, c, n int, verdict spec.Verdict) {
	m := &next.nodes[n]
	l := &next.clients[c].links[n]
	written := memory{state: spec.Lost, run: runOf(n), durable: m.persists() || m.durable && (x.LoadsAll || x.LoadsNow), replid: true, wait: next.alive(), key: m.key}
	if verdict == spec.ToLost {
		written.wait = m.wait
	}
	if x.SameName && m.incarnation != 0 && verdict == spec.WriteLost {
		written.incarnation = m.incarnation
	} else {
		written.incarnation = next.fresh()
	}
	if verdict == spec.WriteNew {
		written.state, written.told = spec.New, l.known
		if !x.Strict {
			l.stage, l.seen, l.own, l.incarnation = seesNew, spec.New, true, written.incarnation
		}
	}
	m.memory, m.whole = written, false
}

func (m *node) activate(incarnation, run uint8) {
	m.state, m.incarnation, m.run, m.wait, m.told, m.whole = spec.Active, incarnation, run, 0, false, true
}

// vote is every step of an attempt at one node.
func (x *explorer) vote(w *world, c, n int, visit visitor) {
	one := &w.clients[c]
	if one.phase == holding {
		return
	}
	l := &one.links[n]
	if l.stage == admitted && w.nodes[n].key == 0 && (l.vote == noVote && !x.ProveFirst || l.vote == proven) {
		x.set(w, c, n, visit)
	}
	if x.ProveFirst && l.stage == admitted && l.vote == noVote && x.proves(w, c, n) {
		next := *w
		next.clients[c].phase, next.clients[c].links[n].vote = asking, proven
		visit(&next, at(&next, ProvesFirst, c, n))
	}
	if l.vote != granted {
		return
	}
	if x.proves(w, c, n) {
		x.count(w, c, n, visit)
		return
	}
	next := *w
	next.detach(c, n)
	visit(&next, at(&next, DoesNotCount, c, n))
}

// set is the vote itself. An attempt begins with its first one: one that began earlier would only
// end earlier.
func (x *explorer) set(w *world, c, n int, visit visitor) {
	next := *w
	next.clients[c].phase = asking
	next.nodes[n].key = keyOf(c)
	if x.NoProof || x.ProveFirst {
		x.count(&next, c, n, visit)
		return
	}
	next.clients[c].links[n].vote = granted
	visit(&next, at(&next, IsGranted, c, n))
}

// proves reports whether the answer to a client's GET proves its vote.
func (x *explorer) proves(w *world, c, n int) bool {
	m := &w.nodes[n]
	if m.incarnation != w.clients[c].links[n].incarnation || m.incarnation == 0 ||
		m.run != runOf(n) && !x.ProveNoRun && !x.AnyRun {
		return false
	}
	return m.state == spec.Active || x.CountWaiting || x.CountNew && m.state == spec.New
}

// count counts a vote. A client with a quorum holds the lock at once: learning of it later would
// only shorten that.
func (x *explorer) count(w *world, c, n int, visit visitor) {
	next := *w
	one := &next.clients[c]
	one.links[n].vote = counted
	votes, hurt := 0, false
	for i := range one.links {
		if one.links[i].vote == counted {
			votes++
			hurt = hurt || next.nodes[i].hurt
		}
	}
	if votes < quorum {
		visit(&next, at(&next, Counts, c, n))
		return
	}
	e := at(&next, Holds, c, n)
	if hurt {
		e.Kind = HoldsByHurt
	}
	for other := range x.Clients {
		if other != c && next.clients[other].phase == holding {
			e.Broken = oneHolder
		}
	}
	one.phase = holding
	for i := range one.links {
		one.links[i].vote = noVote
	}
	visit(&next, e)
}

// cluster is every step of a client that takes the cluster for a new one. Once it has seen every
// node new, it looks at all of them again, one after the other. If all are unchanged, it makes each
// of them active.
func (x *explorer) cluster(w *world, c int, visit visitor) {
	one := &w.clients[c]
	if x.Strict {
		return
	}
	if one.activating {
		for n := range nodes {
			if one.links[n].again {
				x.activateNew(w, c, n, visit)
			}
		}
		return
	}
	all, begun := x.seenNew(one)
	if !all || !begun && x.excused(w) {
		return
	}
	if x.OneLook {
		next := *w
		x.lookedAgain(&next, c)
		visit(&next, by(SeesOnce, c))
		return
	}
	for n := range nodes {
		if l := &one.links[n]; l.stage == seesNew && !l.again {
			x.lookAgain(w, c, n, visit)
		}
	}
}

// seenNew reports whether the client has seen every node new, and whether its second look has
// begun.
func (x *explorer) seenNew(one *client) (all, begun bool) {
	seen := 0
	for n := range one.links {
		if one.links[n].stage == seesNew {
			seen++
		}
		begun = begun || one.links[n].again
	}
	return seen == nodes || x.MajorityIsNew && seen >= quorum, begun
}

// excused is the one case in which the promise does not hold: a lock is alive, or an attempt that
// has a vote; every node has forgotten it; and no client that knew a node as active has said so at
// any of them.
func (x *explorer) excused(w *world) bool {
	if x.Forget {
		return false
	}
	for n := range w.nodes {
		m := &w.nodes[n]
		if m.state == spec.Active && m.whole || m.state == spec.Lost || m.told {
			return false
		}
	}
	for c := range w.clients {
		if w.clients[c].phase == holding {
			return true
		}
		for n := range w.clients[c].links {
			if w.clients[c].links[n].vote != noVote {
				return true
			}
		}
	}
	return false
}

func (x *explorer) lookAgain(w *world, c, n int, visit visitor) {
	next := *w
	m := &next.nodes[n]
	l := &next.clients[c].links[n]
	if m.state != l.seen || m.incarnation != l.incarnation {
		next.detach(c, n)
		visit(&next, at(&next, SeesOtherwise, c, n))
		return
	}
	l.again = true
	for n := range next.clients[c].links {
		if l := &next.clients[c].links[n]; l.stage == seesNew && !l.again {
			visit(&next, at(&next, SeesNewAgain, c, n))
			return
		}
	}
	next.clients[c].activating = true
	visit(&next, at(&next, SeesNewAgain, c, n))
}

func (x *explorer) lookedAgain(next *world, c int) {
	one := &next.clients[c]
	one.activating = true
	for n := range one.links {
		one.links[n].again = one.links[n].stage == seesNew
	}
}

// activateNew is the compare-and-set that makes one node of a new cluster active.
func (x *explorer) activateNew(w *world, c, n int, visit visitor) {
	next := *w
	was := w.clients[c].links[n]
	next.detach(c, n)
	m := &next.nodes[n]
	if (m.state != was.seen || m.incarnation != was.incarnation || m.run != runOf(n)) && !x.Blind {
		visit(&next, at(&next, SwapFails, c, n))
		return
	}
	m.activate(was.incarnation, runOf(n))
	l := &next.clients[c].links[n]
	l.stage, l.incarnation, l.known = admitted, m.incarnation, true
	visit(&next, at(&next, ActivatesCluster, c, n))
}

// over ends a client's attempt, or forgets all it knows.
func (x *explorer) over(w *world, c int, visit visitor) {
	if w.clients[c].phase != idle {
		next := *w
		next.end(c)
		visit(&next, by(Ends, c))
	}
	if w.restarts > 0 && w.clients[c] != (client{}) {
		next := *w
		next.end(c)
		next.clients[c] = client{}
		next.restarts--
		visit(&next, by(ClientRestarts, c))
	}
}

// normalize drops what cannot matter any more. An incarnation that no data has does not come back,
// so a client that waits for it has to connect again. A client that has known a node that may vote
// may as well have connected already. Both may matter to wrong rules.
func (x *explorer) normalize(w *world) {
	if !x.tidy {
		return
	}
	for c := range x.Clients {
		for n := range nodes {
			l := &w.clients[c].links[n]
			if l.incarnation != 0 && !w.has(l.incarnation) {
				w.detach(c, n)
			}
			if l.stage == away && l.known && w.nodes[n].state == spec.Active && spec.Judge(x.facts(w, c, n)) == spec.Vote {
				l.stage, l.incarnation = admitted, w.nodes[n].incarnation
			}
		}
	}
}
