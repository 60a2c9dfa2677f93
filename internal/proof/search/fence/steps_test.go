package fence

import (
	"math/bits"
	"slices"

	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

// What a step may be.
const (
	Begun              search.Kind = "begins"
	BegunWaiting       search.Kind = "begins, and will wait"
	BegunAdopting      search.Kind = "begins to adopt"
	Acquired           search.Kind = "SET is granted"
	AcquiredAgain      search.Kind = "SET is run again, and granted"
	AcquiredLate       search.Kind = "SET of an attempt that is over is granted"
	AcquiredOut        search.Kind = "SET is granted by a node that is out"
	Coordinatored      search.Kind = "coordinator grants"
	CoordinatoredAgain search.Kind = "coordinator grants again"
	Confirmed          search.Kind = "vote that was handed over is confirmed"
	Joined             search.Kind = "joins the waiters"
	JoinedAfterGrant   search.Kind = "joins the waiters after it was granted"
	AdoptedOver        search.Kind = "adopts the lock of an attempt that is over"
	AdoptedPresent     search.Kind = "adopts the lock of a present attempt"
	Raised             search.Kind = "fence is raised"
	RaiseRefused       search.Kind = "fence is not raised"
	RaisedLate         search.Kind = "fence is raised by an attempt that is over"
	RaisedInVain       search.Kind = "fence is raised in vain"
	WonFirst           search.Kind = "acquires in the first round"
	WonSecond          search.Kind = "acquires in the second round"
	SecondBegun        search.Kind = "begins the second round"
	GaveUp             search.Kind = "gives up in the first round"
	SecondFailed       search.Kind = "gives up in the second round"
	Deleted            search.Kind = "release deletes the key"
	HandedOver         search.Kind = "release hands the key over"
	HandedPastDead     search.Kind = "release hands the key over, past a dead waiter"
	DeletedPastDead    search.Kind = "release deletes the key, all waiters are dead"
	ExpiredPresent     search.Kind = "key of a present attempt expires"
	ExpiredOver        search.Kind = "key of an attempt that is over expires"
	ListExpired        search.Kind = "list of waiters expires"
	CounterLost        search.Kind = "node loses key and counter"
	ValueReused        search.Kind = "begins again with the same value, and with its answers"
	HandOverTrusted    search.Kind = "counts the vote that was handed over, as it is"
	AdoptionTrusted    search.Kind = "adopts, and counts the fence as it is"
	Ticked             search.Kind = "time goes on"
	Spoiled            search.Kind = "counter is put far ahead, or anew"
	NotFollowed        search.Kind = "fence is too far ahead to be raised to"
	Mended             search.Kind = "counter is brought back"
)

type visitor func(next *world, e search.Event)

func (x *explorer) Each(w *world, visit func(next *world, e search.Event)) {
	idleSeen := false
	for c := range x.Clients {
		if w.clients[c].phase != idle {
			x.attempt(w, c, visit)
		} else if !idleSeen { // all idle clients are the same
			idleSeen = true
			x.begin(w, c, visit)
		}
	}
	for n := range x.Nodes {
		x.late(w, n, visit)
		x.release(w, n, visit)
		x.forget(w, n, visit)
	}
}

func (x *explorer) begin(w *world, c int, visit visitor) {
	next := *w
	fresh := client{phase: asking, floor: largest(w.tokens)}
	next.clients[c] = fresh
	visit(&next, search.Event{Kind: Begun, Client: c, Node: search.Nowhere})
	if x.Adopting {
		next.clients[c].adopts = true
		visit(&next, search.Event{Kind: BegunAdopting, Client: c, Node: search.Nowhere})
	}
	if x.Waiting {
		for n := range x.Nodes {
			next.clients[c] = fresh
			next.clients[c].coordinator = int8(n) + 1
			visit(&next, search.Event{Kind: BegunWaiting, Client: c, Node: n})
		}
	}
}

// attempt is every step of an attempt under way.
func (x *explorer) attempt(w *world, c int, visit visitor) {
	one := &w.clients[c]
	for n := range x.Nodes {
		switch {
		case one.adopts:
			x.adopt(w, c, n, visit)
		case int(one.coordinator) == n+1:
			x.coordinator(w, c, n, visit)
		default:
			x.acquire(w, c, n, visit)
		}
		if one.phase == raising && one.answers[n]&isBelow != 0 {
			x.raise(w, c, n, visit)
		}
		if one.phase == asking && one.answers[n] != 0 && x.LateRaises {
			x.raiseInVain(w, c, n, visit)
		}
	}
	x.conclude(w, c, visit)
	next := *w
	next.end(c)
	kind := GaveUp
	if one.phase == raising {
		kind = SecondFailed
	}
	visit(&next, search.Event{Kind: kind, Client: c, Node: search.Nowhere})
	if x.KeepAnswers && one.phase == asking {
		next := *w
		next.clients[c].floor = largest(w.tokens)
		visit(&next, search.Event{Kind: ValueReused, Client: c, Node: search.Nowhere})
	}
}

// conclude is every decision that the answers of an attempt allow.
func (x *explorer) conclude(w *world, c int, visit visitor) {
	one := &w.clients[c]
	decided := x.decide(one)
	for rest := decided.tokens; rest != 0; rest &= rest - 1 {
		t := int8(bits.TrailingZeros16(rest)) + 1
		e := search.Event{Kind: WonFirst, Client: c, Node: search.Nowhere, Number: int(t)}
		if one.phase == raising {
			e.Kind = WonSecond
		}
		switch {
		case w.tokens>>(t-1)&1 == 1 && !x.OnlyOrder:
			e.Broken = unique
		case t <= one.floor:
			e.Broken = ordered
		}
		next := *w
		next.tokens |= 1 << (t - 1)
		next.end(c)
		visit(&next, e)
	}
	for rest := decided.targets; rest != 0; rest &= rest - 1 {
		next := *w
		next.clients[c].aim(int8(bits.TrailingZeros16(rest)) + 1)
		visit(&next, search.Event{Kind: SecondBegun, Client: c, Node: search.Nowhere, Number: int(next.clients[c].target)})
	}
}

// load copies a node into the scratch entry; store copies it back.
func (x *explorer) load(at *nodeState) *spec.Entry[Value] {
	e := &x.scratch
	e.Key, e.Fence, e.Waiting = at.key, int64(at.fence), e.Waiting[:0]
	for _, waiter := range at.waiting {
		if waiter != nobody {
			e.Waiting = append(e.Waiting, spec.Waiter[Value]{Value: waiter})
		}
	}
	return e
}

func (x *explorer) store(at *nodeState) {
	e := &x.scratch
	at.key, at.fence, at.waiting = e.Key, int8(e.Fence), [maxClients]Value{}
	for i, waiter := range e.Waiting {
		at.waiting[i] = waiter.Value
	}
}

// ran is the step of a script that was just run on the scratch entry.
func (x *explorer) ran(w *world, n int, e search.Event, visit visitor) {
	next := *w
	x.store(&next.nodes[n])
	visit(&next, e)
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
func (x *explorer) granted(w *world, c, n int, kind search.Kind, fence int64, visit visitor) {
	next := *w
	x.store(&next.nodes[n])
	next.clients[c].note(n, fence)
	visit(&next, search.Event{Kind: kind, Client: c, Node: n, Number: int(fence)})
}

func (x *explorer) acquire(w *world, c, n int, visit visitor) {
	kind := Acquired
	if w.clients[c].answers[n] != 0 {
		kind = AcquiredAgain
	}
	x.timestamps(w.nodes[n].fence, func(ts int64) {
		x.load(&w.nodes[n])
		if fence, ok := x.one.Acquire(valueOf(c), 0, ts); ok {
			x.granted(w, c, n, kind, fence, visit)
		}
	})
}

func (x *explorer) coordinator(w *world, c, n int, visit visitor) {
	one, at := &w.clients[c], &w.nodes[n]
	handed := at.key == valueOf(c) && one.answers[n] == 0
	kind := Coordinatored
	switch {
	case handed:
		kind = Confirmed
	case one.answers[n] != 0:
		kind = CoordinatoredAgain
	}
	if at.key != nobody && at.key != valueOf(c) {
		if slices.Contains(at.waiting[:], valueOf(c)) {
			return
		}
		x.load(at).Coordinator(valueOf(c), 0, 0)
		next := *w
		x.store(&next.nodes[n])
		kind = Joined
		if one.answers[n] != 0 {
			kind = JoinedAfterGrant
		}
		visit(&next, search.Event{Kind: kind, Client: c, Node: n})
		return
	}
	x.timestamps(at.fence, func(ts int64) {
		if fence, ok := x.load(at).Coordinator(valueOf(c), 0, ts); ok {
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
			x.load(at).Key = value
			x.granted(w, c, n, AdoptionTrusted, int64(at.fence), visit)
		}
		return
	}
	x.timestamps(at.fence, func(ts int64) {
		x.load(at)
		if fence, ok := x.one.Adopt(at.key, value, 0, ts); ok {
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
	e := search.Event{Kind: Raised, Client: c, Node: n, Number: int(t)}
	next := *w
	if x.Raise(x.one, x.valueIn(w, c), t) {
		next.clients[c].note(n, t)
	} else {
		e.Kind = RaiseRefused
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
			x.ran(w, n, search.Event{Kind: RaisedInVain, Client: c, Node: n, Number: int(t)}, visit)
		}
	}
}

// late is a message of an attempt that is over, which reaches a node only now: a SET, a raise. A
// late coordinator request or adoption leads nowhere that an expiry and a late SET do not.
func (x *explorer) late(w *world, n int, visit visitor) {
	at := &w.nodes[n]
	x.timestamps(at.fence, func(ts int64) {
		x.load(at)
		if fence, ok := x.one.Acquire(ghost, 0, ts); ok {
			x.ran(w, n, search.Event{Kind: AcquiredLate, Client: search.Nobody, Node: n, Number: int(fence)}, visit)
		}
	})
	if !x.LateRaises {
		return
	}
	for t := range int64(x.MaxFence) {
		x.load(at)
		if x.Raise(x.one, ghost, t+1) {
			x.ran(w, n, search.Event{Kind: RaisedLate, Client: search.Nobody, Node: n, Number: int(t + 1)}, visit)
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
		x.load(at).Release(ghost, 0, func(Value) bool {
			left--
			return left < 0
		})
		kind := [...]search.Kind{Deleted, DeletedPastDead, HandedOver, HandedPastDead}[search.Bits(dead > 0, !x.scratch.Absent())]
		x.ran(w, n, search.Event{Kind: kind, Client: search.Nobody, Node: n}, visit)
		if dead == len(at.waiting) {
			return
		}
	}
}

// forget is what may disappear by itself.
func (x *explorer) forget(w *world, n int, visit visitor) {
	at := &w.nodes[n]
	if at.key != nobody {
		kind := ExpiredPresent
		if at.key == ghost {
			kind = ExpiredOver
		}
		x.load(at).Drop()
		x.ran(w, n, search.Event{Kind: kind, Client: search.Nobody, Node: n}, visit)
	}
	if at.waiting[0] != nobody {
		next := *w
		next.nodes[n].waiting = [maxClients]Value{}
		visit(&next, search.Event{Kind: ListExpired, Client: search.Nobody, Node: n})
	}
	if x.LoseCounters && at.fence > 0 {
		next := *w
		next.nodes[n] = nodeState{}
		visit(&next, search.Event{Kind: CounterLost, Client: search.Nobody, Node: n})
	}
}
