package shared

import (
	"math/bits"

	"github.com/redquorum/redquorum/internal/proof/search"
)

// grace is for how many ticks a waiter has what it was handed.
const grace = 1

// times calls f with the times to live that a request may ask for.
func (x *explorer) times(f func(ttl int64)) {
	if x.AnyTTL {
		for ttl := 1; ttl < x.TTL; ttl++ {
			f(int64(ttl))
		}
	}
	f(int64(x.TTL))
}

// timestamps calls f with the timestamps that make a difference to a counter: one that is old, and
// all that are ahead of what the counter would be without.
func (x *explorer) timestamps(least int8, f func(ts int64)) {
	if x.MaxFence == 0 {
		f(0)
		return
	}
	if least > 0 && int(least) <= x.MaxFence {
		f(0)
	}
	for ts := int64(least) + 1; ts <= int64(x.MaxTimestamp); ts++ {
		f(ts)
	}
}

// granted is the step of a grant that was just made with the scratch entry.
func (x *explorer) granted(w *world, c, n int, kind search.Kind, ttl, fence int64, visit visitor) {
	next := *w
	x.store(&next, n)
	if x.MaxFence == 0 {
		fence, next.nodes[n].fence = 0, 0
	}
	one := &next.clients[c]
	l := &one.links[n]
	// A grant that comes after the decision is like one that was healed.
	l.vote = !x.Timeless && (one.phase == asking || one.phase == raising || l.vote)
	one.note(n, int8(fence))
	l.promise = x.lasting(ttl)
	visit(&next, search.Event{Kind: kind, Client: c, Node: n, Number: int(fence)})
}

func (x *explorer) lasting(ttl int64) int8 {
	if x.Timeless {
		return 0
	}
	return int8(ttl)
}

// askToRead is a request to read: plain, or, if the client waits, as one whose turn may have come.
func (x *explorer) askToRead(w *world, c, n int, visit visitor) {
	one, at := &w.clients[c], &w.nodes[n]
	l := &one.links[n]
	kind := Granted
	switch {
	case one.phase == over:
		kind = GrantedLate
	case l.vote:
		kind = GrantedAgain
	case l.promise > 0:
		kind = Confirmed
	}
	for _, turn := range [...]bool{false, true} {
		serves := turn && x.servesReaders(w, c, n)
		if turn && !serves && (!one.waits || at.intent == nobody) {
			continue
		}
		x.times(func(ttl int64) {
			x.timestamps(at.fence, func(ts int64) {
				fence, granted := x.AcquireRead(x.load(w, n), valueOf(c), ttl, ts, turn)
				if !granted {
					return
				}
				if turn {
					kind = GrantedInTurn
				}
				x.granted(w, c, n, kind, ttl, fence, func(next *world, e search.Event) {
					if at.intent != nobody && !turn && l.promise == 0 && !x.Timeless {
						e.Broken = respected
					}
					visit(next, e)
				})
				if serves {
					x.serveInTurn(w, c, n, ttl, ts, visit)
				}
			})
		})
		x.refusedToRead(w, c, n, turn, visit)
	}
}

// servesReaders reports whether a reader whose turn has come serves others at a node.
func (x *explorer) servesReaders(w *world, c, n int) bool {
	if n >= x.Coordinators || !w.clients[c].waits || w.clients[c].phase == held {
		return false
	}
	oldest := w.nodes[n].waiting[0]
	if oldest == valueOf(c) {
		oldest = w.nodes[n].waiting[1]
	}
	return oldest != nobody && w.clients[oldest-firstClient].mode == reader
}

// serveInTurn is [Entry.WaitRead] of a reader whose turn has come, with any of the waiters dead.
func (x *explorer) serveInTurn(w *world, c, n int, ttl, ts int64, visit visitor) {
	v := valueOf(c)
	for dead := range uint8(1) << maxClients {
		if dead&^(w.waitingAt(n)&^(1<<c)) != 0 {
			continue
		}
		e := x.load(w, n)
		fence, _ := x.AcquireRead(e, v, ttl, ts, true)
		e.ServeReaders(grace, func(v Value) bool { return dead>>(v-firstClient)&1 == 0 })
		x.granted(w, c, n, ServedInTurn, ttl, fence, func(next *world, e search.Event) {
			x.handed(w, next, n)
			e.Broken = judgeHandOver(w, next, n, c, dead)
			visit(next, e)
		})
	}
}

// refusedToRead is a request to read that is not granted.
func (x *explorer) refusedToRead(w *world, c, n int, turn bool, visit visitor) {
	one, at := &w.clients[c], &w.nodes[n]
	e := x.load(w, n)
	if _, granted := x.AcquireRead(e, valueOf(c), int64(x.TTL), 0, turn); granted {
		return
	}
	next := *w
	step := search.Event{Kind: KeptOut, Client: c, Node: n}
	if at.key == nobody || at.key == marker {
		if turn {
			step.Broken = inTurn
		} else if at.intent == nobody {
			step.Broken = admitted
		}
	}
	if one.waits && !turn && one.phase != held && n < x.Coordinators {
		e.Join(valueOf(c), true)
		step.Kind = Joined
	}
	x.store(&next, n)
	if next != *w || step.Broken != "" {
		visit(&next, step)
	}
}

// trust is a mistake: a vote that was handed over counts as it is.
func (x *explorer) trust(w *world, c, n int, visit visitor) {
	at, l := &w.nodes[n], &w.clients[c].links[n]
	has := x.TrustWrite && at.key == valueOf(c) || x.TrustRead && at.key == marker && at.members[c] > expired
	if has && !l.vote && l.answers == 0 && at.fence > 0 {
		next := *w
		next.clients[c].links[n].vote = !x.Timeless
		next.clients[c].note(n, at.fence)
		visit(&next, search.Event{Kind: HandOverTrusted, Client: c, Node: n, Number: int(at.fence)})
	}
}

// raiseRead raises to any number that the reader was granted anywhere.
func (x *explorer) raiseRead(w *world, c, n int, visit visitor) {
	one, at := &w.clients[c], &w.nodes[n]
	targets := uint8(0)
	for m := range x.Nodes {
		targets |= 1<<one.links[m].lowest() | 1<<one.links[m].highest()
	}
	for targets &^= 1; targets != 0; targets &= targets - 1 {
		t := int8(bits.TrailingZeros8(targets))
		if one.links[n].answers == 0 || one.links[n].highest() >= t {
			continue
		}
		e := search.Event{Kind: ReadRaised, Client: c, Node: n, Number: int(t)}
		next := *w
		if x.RaiseRead(x.load(w, n), valueOf(c), int64(t)) {
			next.clients[c].note(n, t)
		} else {
			e.Kind = ReadNotRaised
			if at.key == marker && at.members[c] > expired {
				e.Broken = peaceful
			}
		}
		x.store(&next, n)
		visit(&next, e)
	}
}

// askToWrite is a request to write.
func (x *explorer) askToWrite(w *world, c, n int, visit visitor) {
	one, at, v := &w.clients[c], &w.nodes[n], valueOf(c)
	kind := Granted
	switch {
	case one.phase == over:
		kind = GrantedLate
	case at.key == v && !one.links[n].vote:
		kind = Confirmed
	case one.links[n].vote || one.links[n].answers != 0:
		kind = GrantedAgain
	}
	x.times(func(ttl int64) {
		if one.mode == foreign {
			if x.load(w, n).AcquireForeign(v, ttl) {
				x.granted(w, c, n, kind, ttl, 0, visit)
			}
			return
		}
		x.timestamps(at.fence+1, func(ts int64) {
			ask := (*entry).AcquireWrite
			if one.waits {
				ask = (*entry).AnnounceWrite
			}
			if fence, granted := ask(x.load(w, n), v, ttl, ts); granted {
				x.granted(w, c, n, kind, ttl, fence, visit)
			}
		})
	})
	if one.waits && at.key != nobody && at.key != v && one.phase != held {
		next := *w
		ask, kind := (*entry).AnnounceWrite, Announced
		if n < x.Coordinators {
			ask, kind = (*entry).WaitWrite, Joined
		}
		ask(x.load(w, n), v, 0, 0)
		x.store(&next, n)
		if next != *w {
			visit(&next, search.Event{Kind: kind, Client: c, Node: n})
		}
	}
}

// intend is an announcement alone. It comes before, between and after all that the writer sends, as
// often as it likes.
func (x *explorer) intend(w *world, c, n int, visit visitor) {
	one := &w.clients[c]
	if !one.waits || one.mode != writer {
		return
	}
	next := *w
	x.load(w, n).Intend(valueOf(c))
	x.store(&next, n)
	kind := Intended
	if one.phase == over {
		kind = IntendedLate
	} else if x.CountIntent {
		next.clients[c].links[n].vote = true
	}
	if next != *w {
		visit(&next, search.Event{Kind: kind, Client: c, Node: n})
	}
}

func (x *explorer) raiseWrite(w *world, c, n int, visit visitor) {
	one := &w.clients[c]
	if one.phase != raising || one.links[n].answers&isBelow == 0 {
		return
	}
	e := search.Event{Kind: WriteRaised, Client: c, Node: n, Number: int(one.target)}
	next := *w
	if x.load(w, n).RaiseWrite(valueOf(c), int64(one.target)) {
		next.clients[c].note(n, one.target)
	} else {
		e.Kind = WriteNotRaised
	}
	x.store(&next, n)
	visit(&next, e)
}
