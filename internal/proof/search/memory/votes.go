package memory

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
	return m.state == Active || x.CountWaiting || x.CountNew && m.state == New
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
		e.kind = HoldsByHurt
	}
	for other := range x.Clients {
		e.broken = e.broken || other != c && next.clients[other].phase == holding
	}
	one.phase = holding
	for i := range one.links {
		one.links[i].vote = noVote
	}
	visit(&next, e)
}
