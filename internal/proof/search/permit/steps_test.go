package permit

import (
	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

// What a step may be.
const (
	Takes           search.Kind = "takes a slot"
	TakesUnseen     search.Kind = "takes a slot, and the answer is lost"
	TakesSlot       search.Kind = "takes the slot that it collects"
	TakesSlotUnseen search.Kind = "takes the slot that it collects, and the answer is lost"
	IsRefused       search.Kind = "is refused"
	HearsOther      search.Kind = "hears of another number of permits"
	Joins           search.Kind = "joins the wait list"
	HearsHandOver   search.Kind = "hears that it was given a slot"
	Holds           search.Kind = "takes a slot, and holds it"
	Extends         search.Kind = "extends the slot"
	Heals           search.Kind = "finds a key missing, and sets it again"
	Renews          search.Kind = "extends the slot, and holds it for longer"
	Ends            search.Kind = "attempt or lock is over"
	Releases        search.Kind = "a slot is released"
	HandsOver       search.Kind = "a slot is released, and handed over"
	Expires         search.Kind = "the key of a slot expires"
	ExpiresPermits  search.Kind = "the number of permits expires"
	LateRelease     search.Kind = "a release arrives late"
	LateTake        search.Kind = "a request of an attempt that is over arrives"
	Loses           search.Kind = "loses its data"
	Begins          search.Kind = "wants a permit"
	Unlocks         search.Kind = "unlocks"
	Cancels         search.Kind = "gives up waiting"
	Leaves          search.Kind = "a waiter that gave up leaves the list"
	GoesBack        search.Kind = "hears that it was given a slot, and goes back to the coordinator"
	Crashes         search.Kind = "crashes"
)

func at(kind search.Kind, c, n int, slot int8) search.Event {
	return search.Event{Kind: kind, Client: c, Node: n, Number: int(slot)}
}

// asks is every request for a slot that a client's attempt may have executed at a node.
func (x *explorer) asks(w *world, c, n int, visit visitor) {
	one := &w.clients[c]
	most := x.Permits[c]
	if one.phase == idle || one.phase == trying || x.Strays && one.phase != waiting {
		for first := 1; first <= most; first++ {
			x.take(w, c, n, first, visit)
		}
	}
	if x.Waiting && (one.phase == idle || int(one.at) == n+1 && (one.phase == waiting || x.Strays)) {
		for first := 1; first <= most; first++ {
			x.wait(w, c, n, first, visit)
		}
	}
	for slot := 1; slot <= most; slot++ {
		// A client that is told of a slot that was handed over collects it. So may any other: it
		// knows no more than one that was told too late. With ManySlots, it may have asked for any
		// slot before the one that it holds.
		if one.phase < collecting || int(one.slot) == slot || x.ManySlots {
			x.takeSlot(w, c, n, slot, visit)
		}
	}
	if x.TrustMessage && one.phase == waiting && int(one.at) == n+1 {
		x.trust(w, c, n, visit)
	}
}

// take executes a request for any slot.
func (x *explorer) take(w *world, c, n, first int, visit visitor) {
	next := *w
	m := &next.nodes[n]
	x.spoil(m, n, c)
	if x.TakesTwo && m.Free(first) {
		m.Slots[first-1] = valueOf(c)
		x.answered(&next, c, n, spec.SlotAnswer{Slot: first}, false, visit)
		return
	}
	a := m.Take(valueOf(c), x.Permits[c], first)
	one := &next.clients[c]
	if one.phase == idle {
		one.phase = trying
	}
	x.answered(&next, c, n, a, one.phase == trying, visit)
}

// wait executes a request of a waiter.
func (x *explorer) wait(w *world, c, n, first int, visit visitor) {
	next := *w
	m := &next.nodes[n]
	x.spoil(m, n, c)
	a := m.Wait(valueOf(c), x.Permits[c], first)
	one := &next.clients[c]
	if one.phase == idle {
		one.phase, one.at = waiting, int8(n)+1
	}
	if a.Waits {
		visit(&next, at(Joins, c, n, 0))
		return
	}
	if one.phase == waiting && a.Slot != 0 && next.nodes[n].votes() {
		told := next
		told.clients[c].phase, told.clients[c].slot = collecting, int8(a.Slot)
		x.answered(&told, c, n, a, true, visit)
		return
	}
	x.answered(&next, c, n, a, false, visit)
}

// takeSlot executes a request for one slot.
func (x *explorer) takeSlot(w *world, c, n, slot int, visit visitor) {
	next := *w
	one := &next.clients[c]
	if one.phase < collecting {
		one.phase, one.slot = collecting, int8(slot)
		for i, v := range one.votes {
			if int(v) != slot {
				one.votes[i] = unknown
			}
		}
	}
	counts := one.phase == collecting && int(one.slot) == slot
	if x.ManySlots && one.phase == collecting && int(one.slot) != slot {
		other := next // it was refused, and goes on to the next slot
		other.clients[c].slot = int8(slot)
		other.clients[c].votes = [nodes]vote{}
		visit(&other, at(IsRefused, c, n, int8(slot)))
	}
	m := &next.nodes[n]
	x.spoil(m, n, c)
	if x.LaxSlot {
		m.Permits = x.Permits[c]
	}
	a, given := m.TakeSlot(valueOf(c), x.Permits[c], slot, alive)
	m.given(given)
	x.answered(&next, c, n, a, counts, visit)
}

// answered visits the world in which the answer counts, if it may, and that in which it does not.
func (x *explorer) answered(w *world, c, n int, a spec.SlotAnswer, counts bool, visit visitor) {
	one, m := &w.clients[c], &w.nodes[n]
	switch {
	case a.Other != 0:
		visit(w, at(HearsOther, c, n, int8(a.Other)))
		return
	case a.Slot == 0:
		visit(w, at(IsRefused, c, n, 0))
		return
	}
	slot := int8(a.Slot)
	unseen := TakesSlotUnseen
	if one.phase == trying {
		unseen = TakesUnseen
	}
	if counts && one.votes[n] == unknown && (x.LossVotes || m.votes()) {
		next := *w
		if !x.NoRefresh || x.had[a.Slot-1] != valueOf(c) {
			next.nodes[n].firm |= bitOf(a.Slot - 1)
		}
		next.clients[c].votes[n] = slot
		x.counted(&next, c, n, slot, visit)
	}
	visit(w, at(unseen, c, n, slot))
}

// counted visits a world with one vote more.
func (x *explorer) counted(w *world, c, n int, slot int8, visit visitor) {
	one := &w.clients[c]
	votes := one.count(slot)
	if x.AnySlot {
		votes = nodes - one.count(unknown)
	}
	e := at(Takes, c, n, slot)
	if one.phase == collecting {
		e.Kind = TakesSlot
	}
	if votes >= quorum {
		e.Kind = Holds
		one.phase, one.slot = holding, slot
		if !x.Strays {
			one.at = 0
		}
		if x.tooMany(w) {
			e.Broken = enough
		}
	}
	visit(w, e)
}

// tooMany reports whether two clients hold the same slot, or more clients hold one than one of them
// believes.
func (x *explorer) tooMany(w *world) bool {
	holders, least := 0, permits
	var taken uint8
	for c := range x.clients {
		one := &w.clients[c]
		if one.phase != holding {
			continue
		}
		if holders++; taken&bitOf(int(one.slot)) != 0 && !x.AnySlot {
			return true
		}
		taken |= bitOf(int(one.slot))
		least = min(least, x.Permits[c])
	}
	return holders > least
}

// votes reports whether the votes of a node count: none of the attempts is under way that it may
// have forgotten.
func (m *nodeState) votes() bool { return m.lost|m.lostExt == 0 }

// spoil does what a wrong node does before it executes a request of a client. It also notes what
// the node had.
func (x *explorer) spoil(m *nodeState, n, c int) {
	x.had = m.Slots
	if x.LaxNode && n == 0 || x.OwnSlots && m.noneTaken(x.Permits[c]) {
		m.Permits = x.Permits[c]
	}
}

func (m *nodeState) noneTaken(permits int) bool {
	for slot := 1; slot <= permits; slot++ {
		if !m.Free(slot) {
			return false
		}
	}
	return true
}

// trust lets a waiter count a message as the vote of the node.
func (x *explorer) trust(w *world, c, n int, visit visitor) {
	for slot := int8(1); slot <= permits; slot++ {
		if w.clients[c].told(n)&bitOf(int(slot)) == 0 || !w.nodes[n].votes() {
			continue
		}
		next := *w
		one := &next.clients[c]
		one.phase, one.slot, one.votes = collecting, slot, [nodes]vote{}
		one.votes[n] = slot
		x.counted(&next, c, n, slot, visit)
	}
}

// told returns the slots of which a waiter was told at a node, a bit each. A waiter uses its votes
// for nothing else.
func (c *client) told(n int) uint8 {
	if c.phase != waiting || c.votes[n] == unknown {
		return 0
	}
	return bitOf(int(c.votes[n]))
}
