package permit

import (
	"slices"

	"github.com/redquorum/redquorum/internal/proof/search"
)

// Calm is a world without faults: no message is lost or comes twice, each node executes what a
// client sends in its order, no key expires, and nobody polls. Messages of different clients, and
// to different nodes, overtake each other. A client has all answers of a round before it goes on.
type Calm struct {
	Permits          int  // 1..2
	Clients          int  // 1..3
	Spinners         int  // how many of them never wait: TryAcquire
	AnyFirst         bool // a client may ask for any slot first, not only for the first one
	CoordinatorFirst bool // a client asks the coordinator first, not all nodes
	Cancels          bool // waiters may give up
	Calls            int  // how often clients ask for a permit, 1..7; 0: without end

	// Crashes is how many clients crash. What they leave behind expires later than a search looks.
	// So it then looks only for circles in which one client goes on for ever until that time.
	Crashes int

	// Prompt lets a release arrive everywhere before a request of a waiter that it woke. Then a
	// client that has the coordinator's vote must win, and nobody may get a permit while a client
	// is still on the coordinator's list that was there before it came. It takes CoordinatorFirst.
	Prompt bool
}

// CalmRules are the protocol. The zero CalmRules are the right ones; anything set is a mistake.
type CalmRules struct {
	KeepsMinority      bool // a refused client keeps what it got elsewhere, and tries the next slot
	ForgetsList        bool // a release hands nothing over
	LeaveDrops         bool // a waiter that leaves does not give back what it was given
	StaysAtCoordinator bool // a client that was refused waits at the coordinator, whoever refused
	AnyRefusing        bool // a refused client asks any node that refused, whatever is free there
	Newest             bool // a release hands over to the newest waiter
}

type calm struct {
	Calm
	CalmRules
}

// ExploreCalm searches a Calm world for clients that are kept waiting.
func ExploreCalm(config Calm, rules CalmRules) search.Report {
	return search.Progress(newCalm(config, rules), config.Clients, config.Crashes == 0)
}

func newCalm(config Calm, rules CalmRules) *calm {
	if config.Permits > permits || config.Clients > maxClients || config.Prompt && !config.CoordinatorFirst {
		panic("permit: no such world")
	}
	return &calm{config, rules}
}

// Start is a world in which nobody has asked for a permit yet.
func (x *calm) Start() world { return world{losses: uint8(x.Crashes), calls: uint8(x.Calls)} }

// Task numbers the requests and messages of a client at a node, the releases of a slot at a node,
// and waiters that leave its list. Callers decide when they want a permit, and when they do not.
func (x *calm) Task(e search.Event) int {
	switch {
	case e.Kind == Begins, e.Kind == Unlocks, e.Kind == Cancels, e.Kind == Crashes:
		return -1
	case e.Client != search.Nobody:
		return e.Client*nodes + e.Node
	case e.Number != 0:
		return maxClients*nodes + e.Node*permits + e.Number - 1
	default:
		return maxClients*nodes + nodes*permits + e.Node
	}
}

// Serves reports whether a client got a permit.
func (x *calm) Serves(e search.Event) bool { return e.Kind == Holds }

// Wanted reports whether a permit is free and a client that waits for one wants it.
func (x *calm) Wanted(w *world) bool {
	holders, wants := 0, false
	for c := range x.Clients {
		switch w.clients[c].phase {
		case idle:
		case holding:
			holders++
		case trying, waiting, queued, woken, collecting:
			wants = wants || c < x.Clients-x.Spinners
		}
	}
	return wants && holders < x.Permits
}

// Each visits every step.
func (x *calm) Each(w *world, visit visitor) {
	for c := range x.Clients {
		one := &w.clients[c]
		if w.losses > 0 && one.phase != idle {
			next := *w
			next.losses--
			next.end(c, dead)
			next.passed(c)
			visit(&next, at(Crashes, c, search.Nowhere, 0))
		}
		switch one.phase {
		case idle:
			x.begins(w, c, visit)
		case holding:
			next := *w
			next.end(c, goneOf(c))
			visit(&next, at(Unlocks, c, search.Nowhere, 0))
		case waiting:
			x.waits(w, c, visit)
			x.cancels(w, c, visit)
		case queued:
			x.cancels(w, c, visit)
		case woken:
			x.wakes(w, c, visit)
			x.cancels(w, c, visit)
		case trying, collecting:
			for n := range w.nodes {
				if one.votes[n] == unknown {
					x.asks(w, c, n, visit)
				}
			}
		}
	}
	for n := range w.nodes {
		x.settles(w, n, visit)
	}
}

func (x *calm) begins(w *world, c int, visit visitor) {
	for first := range x.Permits {
		if first > 0 && !x.AnyFirst {
			break
		}
		next := *w
		if x.Calls > 0 && w.calls == 0 {
			break
		} else if x.Calls > 0 {
			next.calls--
		}
		one := &next.clients[c]
		one.phase, one.first = trying, int8(first)+1
		if x.CoordinatorFirst {
			one.phase, one.at = waiting, coordinator+1
		}
		for other := range x.Clients {
			if x.Prompt && w.clients[other].phase == queued {
				one.ahead |= bitOf(other)
			}
		}
		visit(&next, at(Begins, c, search.Nowhere, one.first))
	}
}

func (x *calm) cancels(w *world, c int, visit visitor) {
	if !x.Cancels {
		return
	}
	next := *w
	if x.LeaveDrops {
		next.drop(c)
	}
	next.end(c, goneOf(c))
	next.passed(c)
	visit(&next, at(Cancels, c, search.Nowhere, 0))
}

// drop leaves the slots that a client was given to nobody.
func (w *world) drop(c int) {
	for n := range w.nodes {
		for i := range permits {
			if w.nodes[n].Slots[i] == valueOf(c) {
				w.nodes[n].Slots[i] = dead
			}
		}
	}
}

// passed notes that a client does not wait any more.
func (w *world) passed(c int) {
	for other := range w.clients {
		w.clients[other].ahead &^= bitOf(c)
	}
}

// asks executes a request of a round.
func (x *calm) asks(w *world, c, n int, visit visitor) {
	if w.nodes[n].has(goneOf(c)) {
		return // its release comes first
	}
	next := *w
	one, m := &next.clients[c], &next.nodes[n]
	if one.phase == trying {
		a := m.Take(valueOf(c), x.Permits, int(one.first))
		one.votes[n], one.free[n] = vote(a.Slot), a.Free
	} else {
		if x.Prompt && m.Slots[one.slot-1].isGone() {
			return // the release is under way
		}
		one.votes[n] = x.takeSlot(&next, c, n)
	}
	e := at(Takes, c, n, one.votes[n])
	if one.votes[n] == unknown {
		one.votes[n], e.Kind = refused, IsRefused
	}
	switch {
	case one.count(unknown) > 0:
		visit(&next, e)
	case one.phase == trying:
		x.tried(&next, c, e, visit)
	default:
		x.collected(&next, c, e, visit)
	}
}

func (x *calm) takeSlot(next *world, c, n int) vote {
	one, m := &next.clients[c], &next.nodes[n]
	slot := int(one.slot)
	if x.KeepsMinority {
		if m.Free(slot) || m.Slots[slot-1] == valueOf(c) {
			m.Slots[slot-1] = valueOf(c)
			return one.slot
		}
		one.free[n] = m.FreeSlots(x.Permits)
		return unknown
	}
	a, given := m.TakeSlot(valueOf(c), x.Permits, slot, alive)
	for i, to := range given {
		next.wake(n, i+1, to)
	}
	one.free[n] = a.Free
	return vote(a.Slot)
}

// tried ends the round of a client that asked for any slot. Without a quorum for one, it collects
// one that it can have from a quorum.
func (x *calm) tried(w *world, c int, e search.Event, visit visitor) {
	one := &w.clients[c]
	for slot := int8(1); slot <= permits; slot++ {
		if one.count(slot) >= quorum {
			x.holds(w, c, slot, e, visit)
			return
		}
	}
	slot := one.available(0)
	if slot == 0 {
		x.turns(w, c, x.full(one), e, visit)
		return
	}
	one.phase, one.slot, one.free = collecting, slot, [nodes]uint8{}
	for n := range one.votes {
		if one.votes[n] != slot {
			one.votes[n] = unknown
		}
	}
	visit(w, e)
}

// available returns a slot that a quorum has given to the client, or said to be free; 0 if there is
// none.
func (c *client) available(except int8) int8 {
	for slot := int8(1); slot <= permits; slot++ {
		count := 0
		for n := range c.votes {
			if c.votes[n] == slot || c.free[n]&bitOf(int(slot)-1) != 0 {
				count++
			}
		}
		if count >= quorum && slot != except {
			return slot
		}
	}
	return 0
}

// full returns a node that refused and has no free slot. There the waiter is on a list until a slot
// is released. If there is none, it returns the coordinator, which may grant.
func (x *calm) full(c *client) int {
	for n := range c.votes {
		if c.votes[n] == refused && (c.free[n] == 0 || x.AnyRefusing) && !x.StaysAtCoordinator {
			return n
		}
	}
	return coordinator
}

// collected ends the round of a client that asked for one slot. Refused, it tries the next slot
// that it can have from a quorum.
func (x *calm) collected(w *world, c int, e search.Event, visit visitor) {
	one := &w.clients[c]
	if one.count(one.slot) >= quorum {
		x.holds(w, c, one.slot, e, visit)
		return
	}
	if x.Prompt {
		e.Broken = coordinatorWins
	}
	to, slot := x.full(one), one.available(one.slot)
	one.first = one.slot%int8(x.Permits) + 1
	if slot == 0 || x.StaysAtCoordinator || x.AnyRefusing {
		x.turns(w, c, to, e, visit)
		return
	}
	first, ahead := one.first, one.ahead
	if !x.KeepsMinority {
		w.end(c, goneOf(c))
	}
	w.clients[c] = client{phase: collecting, slot: slot, first: first, ahead: ahead}
	visit(w, e)
}

// turns gives up an attempt. A waiter asks a node next.
func (x *calm) turns(w *world, c, to int, e search.Event, visit visitor) {
	one := &w.clients[c]
	first, ahead := one.first, one.ahead
	if c >= x.Clients-x.Spinners {
		w.end(c, goneOf(c))
		visit(w, e)
		return
	}
	if !x.KeepsMinority {
		w.end(c, goneOf(c))
	}
	*one = client{phase: waiting, at: int8(to) + 1, first: first, ahead: ahead}
	visit(w, e)
}

func (x *calm) holds(w *world, c int, slot int8, e search.Event, visit visitor) {
	one := &w.clients[c]
	e.Kind, e.Number = Holds, int(slot)
	for other := range x.Clients {
		o := &w.clients[other]
		if o.phase == holding && o.slot == slot {
			e.Broken = enough
		} else if one.ahead&bitOf(other) != 0 && o.phase == queued {
			e.Broken = inOrder
		}
	}
	*one = client{phase: holding, slot: slot}
	w.passed(c)
	for n := range w.nodes { // what it has besides, it releases
		for i := range permits {
			if w.nodes[n].Slots[i] == valueOf(c) && int8(i)+1 != slot {
				w.nodes[n].Slots[i] = goneOf(c)
			}
		}
	}
	visit(w, e)
}

// waits executes a request of a waiter.
func (x *calm) waits(w *world, c int, visit visitor) {
	next := *w
	one := &next.clients[c]
	n := int(one.at) - 1
	m := &next.nodes[n]
	if m.has(goneOf(c)) {
		return
	}
	switch a := m.Wait(valueOf(c), x.Permits, int(one.first)); {
	case a.Slot != 0:
		one.phase, one.slot = collecting, int8(a.Slot)
		one.votes[n] = one.slot
		visit(&next, at(Takes, c, n, one.slot))
	case a.Waits:
		one.phase = queued
		visit(&next, at(Joins, c, n, 0))
	default: // the list is full
	}
}

// wakes is the message about a hand-over. A slot that was given to a waiter by another node than
// the coordinator is given back: two nodes that hand over would split the votes of two waiters.
func (x *calm) wakes(w *world, c int, visit visitor) {
	next := *w
	one := &next.clients[c]
	n := int(one.at) - 1
	if n != coordinator {
		one.first = one.slot
		x.turns(&next, c, coordinator, at(GoesBack, c, n, one.slot), visit)
		return
	}
	one.phase = collecting
	visit(&next, at(HearsHandOver, c, n, one.slot))
}

// settles is what arrives of attempts that are over.
func (x *calm) settles(w *world, n int, visit visitor) {
	for slot := 1; slot <= x.Permits; slot++ {
		if !w.nodes[n].Slots[slot-1].isGone() {
			continue
		}
		next := *w
		m := &next.nodes[n]
		to := nobody
		switch {
		case x.ForgetsList:
			m.Expire(slot)
		case x.Newest:
			to = m.newest(slot)
		default:
			to = m.HandOver(slot, alive)
		}
		kind := Releases
		if to != nobody {
			kind = HandsOver
		}
		if to.isGone() && x.LeaveDrops {
			m.Slots[slot-1] = dead
		}
		next.wake(n, slot, to)
		visit(&next, at(kind, search.Nobody, n, int8(slot)))
	}
	for c := range x.Clients {
		next := *w
		next.nodes[n].Leave(goneOf(c))
		if next.nodes[n] != w.nodes[n] {
			visit(&next, at(Leaves, search.Nobody, n, 0))
		}
	}
}

// has reports whether a value has a slot or waits.
func (m *nodeState) has(v value) bool {
	return slices.Contains(m.Slots[:], v) || slices.Contains(m.Waiting[:], v)
}

func (m *nodeState) newest(slot int) (to value) {
	for _, waiting := range m.Waiting {
		if waiting != nobody {
			to = waiting
		}
	}
	m.Leave(to)
	m.Slots[slot-1] = to
	return to
}

// wake tells a waiter that it was given a slot.
func (w *world) wake(n, slot int, to value) {
	if !to.isClient() {
		return
	}
	if one := &w.clients[to-firstClient]; one.phase == queued && int(one.at) == n+1 {
		one.phase, one.slot = woken, int8(slot)
	}
}
