package memory

type visitor func(next *world, e event)

// Each visits every step from w.
func (x *explorer) Each(w *world, visitNext func(next *world, e event)) {
	visit := func(next *world, e event) {
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
			x.replicate(w, n, visit)
		}
	}
}

// at is an event of a client at a node.
func at(w *world, kind Kind, c, n int) event {
	return event{kind: kind, client: int8(c), node: int8(n), state: w.nodes[n].state}
}

// facts are what client c reads at node n.
func (x *explorer) facts(w *world, c, n int) Facts {
	m := &w.nodes[n]
	f := Facts{
		State:         m.state,
		Own:           m.run == runOf(n),
		Durable:       m.memory.durable,
		DurableNow:    m.durable,
		ReplidChanged: !m.replid,
		Promoted:      m.promoted,
		Elsewhere:     x.elsewhere(w, c, n),
		Known:         w.clients[c].links[n].known && !x.Unknowing,
		Passed:        m.wait == 0 || x.OwnClock,
	}
	waiting := m.state == New || m.state == Lost
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
	l := &next.clients[c].links[n]
	switch verdict := Judge(f); {
	case f.Own && (x.CountNew && m.state == New || x.CountWaiting && m.state == Lost):
		l.stage, l.incarnation, l.known = admitted, m.incarnation, true
		visit(&next, at(&next, Admits, c, n))
	case verdict == Wait || x.LeaveNew && verdict == ToLost:
		x.wait(&next, &w.clients[c].links[n], c, n, visit)
	case verdict == Vote:
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
	if x.Strict || m.state != New && !x.LostIsNew {
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
	own := m.run == runOf(n) || x.AnyRun || x.AnyRunWaiting && (m.state == New || m.state == Lost)
	same := m.state == intent.seen && m.incarnation == intent.incarnation && own == intent.own
	if !same && (!x.Blind || intent.verdict != Activate) {
		visit(&next, at(&next, SwapFails, c, n))
		return
	}
	switch intent.verdict {
	case WriteNew, WriteLost, ToLost:
		x.forgotten(&next, c, n, intent.verdict)
		visit(&next, at(&next, [...]Kind{WriteNew: WritesNew, WriteLost: WritesLost, ToLost: MakesLost}[intent.verdict], c, n))
	case Activate:
		if m.wait != 0 && !x.OwnClock && !x.Blind {
			return
		}
		m.activate(intent.incarnation, runOf(n))
		l.stage, l.incarnation, l.known = admitted, m.incarnation, true
		visit(&next, at(&next, ActivatesByTime, c, n))
	case TakeRun:
		m.run, m.replid = runOf(n), true
		l.stage, l.incarnation, l.known = admitted, m.incarnation, true
		visit(&next, at(&next, TakesRun, c, n))
	case Wait, Vote:
		panic("memory: nothing to write")
	}
}

// forgotten writes a marker that waits. A client that writes new has seen it new.
func (x *explorer) forgotten(next *world, c, n int, verdict Verdict) {
	m := &next.nodes[n]
	l := &next.clients[c].links[n]
	written := memory{state: Lost, run: runOf(n), durable: m.durable, replid: true, wait: next.alive(), key: m.key}
	if verdict == ToLost {
		written.wait = m.wait
	}
	if x.SameName && m.incarnation != 0 && verdict == WriteLost {
		written.incarnation = m.incarnation
	} else {
		written.incarnation = next.fresh()
	}
	if verdict == WriteNew {
		written.state, written.told = New, l.known
		if !x.Strict {
			l.stage, l.seen, l.own, l.incarnation = seesNew, New, true, written.incarnation
		}
	}
	m.memory, m.whole = written, false
}

func (m *node) activate(incarnation, run uint8) {
	m.state, m.incarnation, m.run, m.wait, m.told, m.whole = Active, incarnation, run, 0, false, true
}

// over ends a client's attempt, or forgets all it knows.
func (x *explorer) over(w *world, c int, visit visitor) {
	if w.clients[c].phase != idle {
		next := *w
		next.end(c)
		visit(&next, event{kind: Ends, client: int8(c), node: nowhere})
	}
	if w.restarts > 0 && w.clients[c] != (client{}) {
		next := *w
		next.end(c)
		next.clients[c] = client{}
		next.restarts--
		visit(&next, event{kind: ClientRestarts, client: int8(c), node: nowhere})
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
			if l.stage == away && l.known && w.nodes[n].state == Active && Judge(x.facts(w, c, n)) == Vote {
				l.stage, l.incarnation = admitted, w.nodes[n].incarnation
			}
		}
	}
}
