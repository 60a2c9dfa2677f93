package memory

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
		visit(&next, event{kind: SeesOnce, client: int8(c), node: nowhere})
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
		if m.state == Active && m.whole || m.state == Lost || m.told {
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
