package shared

import (
	"slices"

	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

// extend is an extension that heals; one that does not does less. Its validity counts from the
// round's start, as the quorum of the votes that have not expired allows.
func (x *explorer) extend(w *world, c, n int, visit visitor) {
	one, v := &w.clients[c], valueOf(c)
	late := one.phase == over
	x.times(func(ttl int64) {
		e := x.load(w, n)
		var answer spec.Answer
		switch one.mode {
		case reader:
			answer = x.ExtendRead(e, v, ttl)
		case writer:
			answer = e.HealWrite(v, ttl)
		case foreign:
			if e.ExtendForeign(v, ttl) {
				answer = spec.Extended
			}
		}
		next := *w
		x.store(&next, n)
		l := &next.clients[c].links[n]
		was := *l
		step := search.Event{Kind: NotExtended, Client: c, Node: n}
		switch answer {
		case spec.Refused:
			l.promise, l.vote = 0, false // a quorum of these ends the lock, which may happen anyway
			if was.promise > 0 {
				step.Broken = extended
			}
		case spec.Extended:
			step.Kind = [...]search.Kind{Prolonged, ProlongedLate}[search.Bits(late)]
			l.promise, l.vote = int8(ttl), !late
			if was.promise == 0 {
				step.Broken = kept
			}
		case spec.Lacking:
			step.Kind = [...]search.Kind{PutBack, PutBackLate}[search.Bits(late)]
			l.promise, l.vote = int8(ttl), x.CountHealed && !late
			if was.promise > 0 {
				step.Broken = extended
			} else if l.vote {
				step.Broken = kept
			}
		}
		if next != *w || step.Broken != "" {
			x.settle(&next, c)
			visit(&next, step)
		}
	})
}

// settle ends a lock that has too few votes left.
func (x *explorer) settle(next *world, c int) {
	if next.clients[c].phase == held && x.votes(&next.clients[c]) < x.need() {
		x.finish(next, c)
	}
}

// release is the release of an attempt that is over, with any of the waiters dead.
func (x *explorer) release(w *world, c, n int, visit visitor) {
	one, at, v := &w.clients[c], &w.nodes[n], valueOf(c)
	for dead := range uint8(1) << maxClients {
		if dead&^w.waitingAt(n) != 0 {
			continue
		}
		alive := func(v Value) bool { return dead>>(v-firstClient)&1 == 0 }
		e := x.load(w, n)
		switch one.mode {
		case reader:
			x.ReleaseRead(e, v, grace, alive)
		case writer:
			x.ReleaseWrite(e, v, grace, alive)
		case foreign:
			x.ReleaseForeign(e, v)
		}
		next := *w
		x.store(&next, n)
		next.clients[c].links[n].promise = 0
		if one.mode != foreign {
			next.clients[c].links[n].closed = true
		}
		to := &next.nodes[n]
		step := search.Event{Kind: LeftAsIs, Client: c, Node: n}
		handed := x.handed(w, &next, n)
		switch {
		case handed&1 == 1:
			step.Kind = HandedToReaders
		case handed != 0:
			step.Kind = HandedToWriter
		case at.key != nobody && to.key == nobody:
			step.Kind = Freed
		case at.key == marker && at.members[c] > expired && to.members[c] == noMember:
			step.Kind = LeftToOthers
		}
		step.Broken = judgeHandOver(w, &next, n, c, dead)
		if step.Broken == "" {
			step.Broken = judgeIntent(w, &next, n, c)
		}
		if next != *w || step.Broken != "" {
			visit(&next, step)
		}
	}
}

// waitingAt has a bit for each client that waits at a node.
func (w *world) waitingAt(n int) (set uint8) {
	for _, v := range w.nodes[n].waiting {
		if v != nobody {
			set |= 1 << (v - firstClient)
		}
	}
	return set
}

// handed finds out who was handed something by a release, and promises it the grace. Bit 0 of what
// it returns is for readers, bit 1 for a writer.
func (x *explorer) handed(w, next *world, n int) (to uint8) {
	for _, v := range w.nodes[n].waiting {
		if v == nobody || slices.Contains(next.nodes[n].waiting[:], v) {
			continue
		}
		c := v - firstClient
		now := &next.nodes[n]
		switch {
		case now.key == marker && now.members[c] > expired:
			to |= 1
		case now.key == v && w.nodes[n].key != v:
			to |= 2
		default:
			continue
		}
		l := &next.clients[c].links[n]
		l.promise = max(l.promise, x.lasting(grace))
	}
	return to
}

// pass is time: a tick of the node's clock, or, without time, anything that may vanish.
func (x *explorer) pass(w *world, n int, visit visitor) {
	next := *w
	to := &next.nodes[n]
	if x.Timeless {
		for c := range x.Clients {
			next = *w
			if next.clear(c, n); next != *w {
				visit(&next, search.Event{Kind: Vanished, Client: c, Node: n})
			}
		}
		return
	}
	if to.left > 0 {
		if to.left--; to.left == 0 {
			to.key = nobody
		}
	}
	for c := range x.Clients {
		if to.members[c] > expired {
			to.members[c]--
		}
		l := &next.clients[c].links[n]
		if l.promise > 0 {
			if l.promise--; l.promise == 0 {
				l.vote, l.answers = false, 0
				x.settle(&next, c)
			}
		}
	}
	if next != *w {
		visit(&next, search.Event{Kind: Ticked, Client: search.Nobody, Node: n})
	}
}

// forget is what may disappear by itself.
func (x *explorer) forget(w *world, n int, visit visitor) {
	at := &w.nodes[n]
	if at.intent != nobody {
		next := *w
		next.nodes[n].intent = nobody
		visit(&next, search.Event{Kind: IntentExpired, Client: search.Nobody, Node: n})
	}
	if x.Strays && at.intent != stray {
		next := *w
		x.load(w, n).Intend(stray)
		x.store(&next, n)
		visit(&next, search.Event{Kind: StrayIntent, Client: search.Nobody, Node: n})
	}
	if at.waiting[0] != nobody {
		next := *w
		next.nodes[n].waiting = [maxClients]Value{}
		visit(&next, search.Event{Kind: ListExpired, Client: search.Nobody, Node: n})
	}
	if w.faults > 0 && at.key != nobody {
		next := *w
		next.faults--
		next.nodes[n].key, next.nodes[n].left = nobody, 0
		for c := range x.Clients {
			next.clients[c].links[n].promise = 0
		}
		visit(&next, search.Event{Kind: KeyLost, Client: search.Nobody, Node: n})
	}
}
