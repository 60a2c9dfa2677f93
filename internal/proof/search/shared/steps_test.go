package shared

import (
	"math/bits"

	"github.com/redquorum/redquorum/internal/proof/search"
)

// What a step may be.
const (
	BegunReading    search.Kind = "begins to read"
	BegunWriting    search.Kind = "begins to write"
	BegunForeign    search.Kind = "begins to write, with another library"
	Granted         search.Kind = "is granted the lock"
	GrantedAgain    search.Kind = "is granted the lock again"
	GrantedLate     search.Kind = "is granted the lock after its attempt is over"
	GrantedInTurn   search.Kind = "is granted the lock in spite of an intent, because its turn has come"
	ServedInTurn    search.Kind = "is granted the lock because its turn has come, and serves the readers behind it"
	Confirmed       search.Kind = "confirms a vote that was handed over"
	KeptOut         search.Kind = "is kept out by an intent"
	Joined          search.Kind = "joins the waiters"
	Announced       search.Kind = "announces itself to readers"
	Held            search.Kind = "holds the lock"
	WriteRaising    search.Kind = "begins the second round"
	WriteRaised     search.Kind = "raises the counter to write"
	WriteNotRaised  search.Kind = "does not raise the counter to write"
	ReadRaised      search.Kind = "raises the counter to read"
	ReadNotRaised   search.Kind = "does not raise the counter to read"
	Prolonged       search.Kind = "extends the lock"
	PutBack         search.Kind = "heals the lock"
	NotExtended     search.Kind = "does not extend the lock"
	ProlongedLate   search.Kind = "extends the lock after it is over"
	PutBackLate     search.Kind = "heals the lock after it is over"
	GaveUp          search.Kind = "gives up"
	Ended           search.Kind = "ends the lock"
	Expires         search.Kind = "is no longer sure of the lock"
	LeftToOthers    search.Kind = "releases, and other readers remain"
	Freed           search.Kind = "releases, and the key is free"
	HandedToWriter  search.Kind = "releases, and a writer is handed the key"
	HandedToReaders search.Kind = "releases, and readers are handed the key"
	LeftAsIs        search.Kind = "releases nothing"
	MessageLost     search.Kind = "loses the release"
	Ticked          search.Kind = "time goes on"
	Vanished        search.Kind = "has its key or member expire"
	Intended        search.Kind = "announces itself, and asks for no vote"
	IntendedLate    search.Kind = "announces itself after its attempt is over"
	StrayIntent     search.Kind = "intent of a writer arrives that has long left"
	IntentExpired   search.Kind = "intent expires"
	ListExpired     search.Kind = "list of waiters expires"
	KeyLost         search.Kind = "key is deleted by nobody who may"
	HandOverTrusted search.Kind = "counts the vote that was handed over, as it is"
)

type visitor func(next *world, e search.Event)

// Each visits every step from w.
func (x *explorer) Each(w *world, visitNext func(next *world, e search.Event)) {
	visit := func(next *world, e search.Event) {
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
	for m, kind := range [...]search.Kind{reader: BegunReading, writer: BegunWriting, foreign: BegunForeign} {
		fresh.mode = mode(m)
		if fresh.mode == writer && !x.Writing || fresh.mode == foreign && !x.Foreign {
			continue
		}
		for _, waits := range [...]bool{false, true} {
			if waits && (x.Coordinators == 0 || fresh.mode == foreign) {
				continue
			}
			next := *w
			next.clients[c] = fresh
			next.clients[c].waits = waits
			visit(&next, search.Event{Kind: kind, Client: c, Node: search.Nowhere})
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
func (x *explorer) end(w *world, c int, kind search.Kind, visit visitor) {
	next := *w
	x.finish(&next, c)
	visit(&next, search.Event{Kind: kind, Client: c, Node: search.Nowhere})
}

func (x *explorer) finish(next *world, c int) {
	one := &next.clients[c]
	one.phase, one.target, one.floorRead, one.floorWrite = over, 0, 0, 0
	for n := range x.Nodes {
		l := &one.links[n]
		l.vote, l.answers, l.closed = false, 0, !x.Late
		// Without time, what is left may expire at once. Only a hand-over makes more of it.
		if x.Timeless && x.Coordinators == 0 {
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
		visit(&next, search.Event{Kind: MessageLost, Client: c, Node: n})
	}
}
