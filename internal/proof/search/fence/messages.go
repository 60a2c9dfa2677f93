package fence

import "slices"

// load copies a node into the scratch entry; store copies it back.
func (x *explorer) load(at *nodeState) *Entry[Value] {
	e := &x.scratch
	e.Value, e.Fence, e.Waiting = at.key, int64(at.fence), e.Waiting[:0]
	for _, waiter := range at.waiting {
		if waiter != nobody {
			e.Waiting = append(e.Waiting, waiter)
		}
	}
	return e
}

func (x *explorer) store(at *nodeState) {
	e := &x.scratch
	at.key, at.fence, at.waiting = e.Value, int8(e.Fence), [maxClients]Value{}
	copy(at.waiting[:], e.Waiting)
}

// timestamps calls f with the timestamps that make a difference to a counter: one that is old, and
// all that are ahead of it.
func (x *explorer) timestamps(fence int8, f func(ts int64)) {
	if int(fence) < x.MaxFence {
		f(0)
	}
	for ts := int64(fence) + 2; ts <= int64(x.MaxTimestamp); ts++ {
		f(ts)
	}
}

// granted is the step of a grant that was just made with the scratch entry.
func (x *explorer) granted(w *world, c, n int, kind Kind, fence int64, visit visitor) {
	next := *w
	x.store(&next.nodes[n])
	next.clients[c].note(n, fence)
	visit(&next, event{kind: kind, client: int8(c), node: int8(n), number: fence})
}

func (x *explorer) acquire(w *world, c, n int, visit visitor) {
	kind := Acquired
	if w.clients[c].answers[n] != 0 {
		kind = AcquiredAgain
	}
	x.timestamps(w.nodes[n].fence, func(ts int64) {
		x.load(&w.nodes[n])
		if fence, ok := x.one.Acquire(valueOf(c), ts); ok {
			x.granted(w, c, n, kind, fence, visit)
		}
	})
}

func (x *explorer) pilot(w *world, c, n int, visit visitor) {
	one, at := &w.clients[c], &w.nodes[n]
	handed := at.key == valueOf(c) && one.answers[n] == 0
	kind := Piloted
	switch {
	case handed:
		kind = Confirmed
	case one.answers[n] != 0:
		kind = PilotedAgain
	}
	if at.key != nobody && at.key != valueOf(c) {
		if slices.Contains(at.waiting[:], valueOf(c)) {
			return
		}
		x.load(at).Pilot(valueOf(c), 0)
		next := *w
		x.store(&next.nodes[n])
		kind = Joined
		if one.answers[n] != 0 {
			kind = JoinedAfterGrant
		}
		visit(&next, event{kind: kind, client: int8(c), node: int8(n)})
		return
	}
	x.timestamps(at.fence, func(ts int64) {
		if fence, ok := x.load(at).Pilot(valueOf(c), ts); ok {
			x.granted(w, c, n, kind, fence, visit)
		}
	})
	if handed && x.TrustHandOver && at.fence > 0 {
		x.load(at)
		x.granted(w, c, n, HandOverTrusted, int64(at.fence), visit)
	}
}

// adopt takes over whatever is there: a client may have been told any value.
func (x *explorer) adopt(w *world, c, n int, visit visitor) {
	at := &w.nodes[n]
	value := x.valueIn(w, c)
	if at.key == nobody || at.key == valueOf(c) {
		return
	}
	if x.AdoptInPlace && at.key != ghost {
		return // two clients that adopt one lock, which is neither's
	}
	kind := AdoptedOver
	if at.key != ghost {
		kind = AdoptedPresent
	}
	if x.TrustAdopted {
		if at.fence > 0 {
			x.load(at).Value = value
			x.granted(w, c, n, AdoptionTrusted, int64(at.fence), visit)
		}
		return
	}
	x.timestamps(at.fence, func(ts int64) {
		x.load(at)
		if fence, ok := x.one.Adopt(at.key, value, ts); ok {
			x.granted(w, c, n, kind, fence, visit)
		}
	})
}

// valueIn is the value in a client's messages.
func (x *explorer) valueIn(w *world, c int) Value {
	if x.AdoptInPlace && w.clients[c].adopts {
		return ghost
	}
	return valueOf(c)
}

func (x *explorer) raise(w *world, c, n int, visit visitor) {
	t := int64(w.clients[c].target)
	x.load(&w.nodes[n])
	e := event{kind: Raised, client: int8(c), node: int8(n), number: t}
	next := *w
	if x.Raise(x.one, x.valueIn(w, c), t) {
		next.clients[c].note(n, t)
	} else {
		e.kind = RaiseRefused
	}
	x.store(&next.nodes[n])
	visit(&next, e)
}

// raiseInVain belongs to a second round that failed: the attempt goes on with what was granted, and
// does not count what was raised.
func (x *explorer) raiseInVain(w *world, c, n int, visit visitor) {
	for t := int64(w.nodes[n].fence) + 1; t <= int64(x.MaxFence); t++ {
		x.load(&w.nodes[n])
		if x.Raise(x.one, valueOf(c), t) {
			next := *w
			x.store(&next.nodes[n])
			visit(&next, event{kind: RaisedInVain, client: int8(c), node: int8(n), number: t})
		}
	}
}

// late is a message of an attempt that is over, which reaches a node only now: a SET, a raise. A
// late pilot request or adoption leads nowhere that an expiry and a late SET do not.
func (x *explorer) late(w *world, n int, visit visitor) {
	at := &w.nodes[n]
	x.timestamps(at.fence, func(ts int64) {
		x.load(at)
		if fence, ok := x.one.Acquire(ghost, ts); ok {
			next := *w
			x.store(&next.nodes[n])
			visit(&next, event{kind: AcquiredLate, client: ghostClient, node: int8(n), number: fence})
		}
	})
	if !x.LateRaises {
		return
	}
	for t := range int64(x.MaxFence) {
		x.load(at)
		if x.Raise(x.one, ghost, t+1) {
			next := *w
			x.store(&next.nodes[n])
			visit(&next, event{kind: RaisedLate, client: ghostClient, node: int8(n), number: t + 1})
		}
	}
}

// release is the release of an attempt that is over, with any number of the waiters dead.
func (x *explorer) release(w *world, n int, visit visitor) {
	at := &w.nodes[n]
	if at.key != ghost {
		return
	}
	for dead := 0; dead == 0 || at.waiting[dead-1] != nobody; dead++ {
		left := dead
		to, _ := x.load(at).Release(ghost, func(Value) bool {
			left--
			return left < 0
		})
		kind := [...]Kind{Deleted, DeletedPastDead, HandedOver, HandedPastDead}[b(dead > 0)+2*b(to != nobody)]
		next := *w
		x.store(&next.nodes[n])
		visit(&next, event{kind: kind, client: ghostClient, node: int8(n)})
		if dead == len(at.waiting) {
			return
		}
	}
}

func b(is bool) int {
	if is {
		return 1
	}
	return 0
}

// forget is what may disappear by itself.
func (x *explorer) forget(w *world, n int, visit visitor) {
	at := &w.nodes[n]
	if at.key != nobody {
		kind := ExpiredPresent
		if at.key == ghost {
			kind = ExpiredOver
		}
		x.load(at).Expire()
		next := *w
		x.store(&next.nodes[n])
		visit(&next, event{kind: kind, client: ghostClient, node: int8(n)})
	}
	if at.waiting[0] != nobody {
		next := *w
		next.nodes[n].waiting = [maxClients]Value{}
		visit(&next, event{kind: ListExpired, client: ghostClient, node: int8(n)})
	}
	if x.LoseCounters && at.fence > 0 {
		next := *w
		next.nodes[n] = nodeState{}
		visit(&next, event{kind: CounterLost, client: ghostClient, node: int8(n)})
	}
}
