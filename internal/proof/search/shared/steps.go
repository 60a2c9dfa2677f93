package shared

import "math/bits"

type visitor func(next *world, e event)

// Each visits every step from w.
func (x *explorer) Each(w *world, visitNext func(next *world, e event)) {
	visit := func(next *world, e event) {
		x.tidy(next)
		x.judge(next, &e)
		visitNext(next, e)
	}
	begun := false
	for c := range x.Clients {
		switch w.clients[c].phase {
		case idle:
			if !begun { // all idle clients are the same
				begun = true
				x.begin(w, c, visit)
			}
		case asking, raising:
			x.attempt(w, c, visit)
		case held:
			x.hold(w, c, visit)
		case over:
			x.leave(w, c, visit)
		}
	}
	for n := range x.Nodes {
		x.pass(w, n, visit)
		x.forget(w, n, visit)
	}
}

// tidy makes clients idle of which nothing is left. A member that has expired is nothing.
func (x *explorer) tidy(w *world) {
next:
	for c := range x.Clients {
		if w.clients[c].phase != over {
			continue
		}
		for n := range x.Nodes {
			l, at, v := &w.clients[c].links[n], &w.nodes[n], valueOf(c)
			if !l.closed || at.key == v || at.members[c] > expired || at.intent == v {
				continue next
			}
			for _, waiter := range at.waiting {
				if waiter == v {
					continue next
				}
			}
		}
		w.clients[c] = client{}
		for n := range x.Nodes {
			w.nodes[n].members[c] = noMember
		}
	}
}

func (x *explorer) begin(w *world, c int, visit visitor) {
	fresh := client{phase: asking}
	if x.Timeless {
		fresh.floorRead, fresh.floorWrite = w.read, int8(bits.Len8(w.written))
	}
	for m, kind := range [...]Kind{reader: BegunReading, writer: BegunWriting, foreign: BegunForeign} {
		fresh.mode = mode(m)
		if fresh.mode == writer && !x.Writing || fresh.mode == foreign && !x.Foreign {
			continue
		}
		for _, waits := range [...]bool{false, true} {
			if waits && (x.Pilots == 0 || fresh.mode == foreign) {
				continue
			}
			next := *w
			next.clients[c] = fresh
			next.clients[c].waits = waits
			visit(&next, event{kind: kind, client: int8(c), node: nowhere})
		}
	}
}

// attempt is every step of an attempt under way.
func (x *explorer) attempt(w *world, c int, visit visitor) {
	one := &w.clients[c]
	for n := range x.Nodes {
		if one.mode == reader {
			x.askToRead(w, c, n, visit)
			x.raiseRead(w, c, n, visit)
		} else {
			x.askToWrite(w, c, n, visit)
			x.intend(w, c, n, visit)
			x.raiseWrite(w, c, n, visit)
		}
		x.trust(w, c, n, visit)
	}
	switch {
	case one.mode == foreign || x.MaxFence == 0:
		if x.votes(one) >= x.need() {
			x.win(w, c, 0, visit)
		}
	case one.mode == reader:
		x.concludeRead(w, c, visit)
	default:
		x.concludeWrite(w, c, visit)
	}
	x.end(w, c, GaveUp, visit)
}

// hold is every step of a held lock.
func (x *explorer) hold(w *world, c int, visit visitor) {
	for n := range x.Nodes {
		x.extend(w, c, n, visit)
		if w.clients[c].mode == reader {
			x.askToRead(w, c, n, visit) // late, or again
		} else {
			x.askToWrite(w, c, n, visit)
			x.intend(w, c, n, visit)
		}
	}
	x.end(w, c, Ended, visit)
}

// end is the end of an attempt or lock. Its releases are on their way.
func (x *explorer) end(w *world, c int, kind Kind, visit visitor) {
	next := *w
	x.finish(&next, c)
	visit(&next, event{kind: kind, client: int8(c), node: nowhere})
}

func (x *explorer) finish(next *world, c int) {
	one := &next.clients[c]
	one.phase, one.target, one.floorRead, one.floorWrite = over, 0, 0, 0
	for n := range x.Nodes {
		l := &one.links[n]
		l.vote, l.answers, l.closed = false, 0, !x.Late
		// Without time, what is left may expire at once. Only a hand-over makes more of it.
		if x.Timeless && x.Pilots == 0 {
			next.clear(c, n)
		}
	}
}

// clear drops what a client has at a node. The last member takes the marker with it.
func (w *world) clear(c, n int) {
	at := &w.nodes[n]
	at.members[c] = noMember
	if at.key == valueOf(c) || at.key == marker && at.members == [maxClients]int8{} {
		at.key, at.left = nobody, 0
	}
}

// leave is what may still arrive when an attempt is over. On one connection, nothing of an attempt
// comes behind its release. Another library's messages take any order.
func (x *explorer) leave(w *world, c int, visit visitor) {
	for n := range x.Nodes {
		x.release(w, c, n, visit)
		if w.clients[c].links[n].closed {
			continue
		}
		if w.clients[c].mode == reader {
			x.askToRead(w, c, n, visit)
		} else {
			x.askToWrite(w, c, n, visit)
			x.intend(w, c, n, visit)
		}
		x.extend(w, c, n, visit)
		next := *w
		next.clients[c].links[n].closed = true
		visit(&next, event{kind: MessageLost, client: int8(c), node: int8(n)})
	}
}
