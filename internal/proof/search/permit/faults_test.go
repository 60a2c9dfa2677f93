package permit

import (
	"math/bits"

	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

// ends is the end of a client's attempt or lock: it gives up, its time is over, it releases, or it
// crashes.
func (x *explorer) ends(w *world, c int, visit visitor) {
	if w.clients[c].phase == idle {
		return
	}
	next := *w
	next.end(c, over)
	visit(&next, at(Ends, c, search.Nowhere, 0))
}

// extends is an extension that arrives at a node, and heals; one that does not does less.
func (x *explorer) extends(w *world, c, n int, visit visitor) {
	if !x.Renew || w.clients[c].phase != holding {
		return
	}
	next := *w
	one, m := &next.clients[c], &next.nodes[n]
	slot := int(one.slot)
	known := m.Permits
	if x.SlotOnly || x.SlotVotes {
		m.Permits = x.Permits[c]
	}
	answer := m.Heal(valueOf(c), x.Permits[c], slot)
	if x.SlotOnly || x.SlotVotes && known != 0 {
		m.Permits = known
	}
	if answer == spec.Lacking {
		m.firm &^= bitOf(slot - 1)
	}
	if answer == spec.Refused || answer == spec.Lacking && !x.HealVotes {
		visit(&next, at(Heals, c, n, int8(slot)))
		return
	}
	if !x.LossVotes && !m.votes() {
		return
	}
	m.firm |= bitOf(slot - 1)
	one.ext |= bitOf(n)
	e := at(Extends, c, n, int8(slot))
	if bits.OnesCount8(one.ext) >= quorum {
		e.Kind = Renews
		next.renew(c)
	}
	visit(&next, e)
}

// renew makes an extension what the lock is held by. Keys that it did not reach may expire.
func (w *world) renew(c int) {
	one := &w.clients[c]
	for n := range w.nodes {
		m := &w.nodes[n]
		one.votes[n] = unknown
		if one.ext&bitOf(n) != 0 {
			one.votes[n] = one.slot
		} else if m.Slots[one.slot-1] == valueOf(c) {
			m.firm &^= bitOf(int(one.slot) - 1)
		}
		m.lost &^= bitOf(c)
		if m.lostExt&bitOf(c) != 0 {
			m.lost |= bitOf(c)
			m.lostExt &^= bitOf(c)
		}
	}
	one.ext = 0
}

// loses is the loss of all data of a node. From then on its votes do not count until what it may
// have forgotten is over.
func (x *explorer) loses(w *world, n int, visit visitor) {
	if w.losses == 0 {
		return
	}
	next := *w
	next.losses--
	m := &next.nodes[n]
	m.Semaphore, m.firm = spec.Semaphore[value]{}, 0
	for c := range x.clients {
		one := &w.clients[c]
		if one.phase != idle {
			m.lost |= bitOf(c)
		}
		if one.ext != 0 {
			m.lostExt |= bitOf(c)
		}
	}
	visit(&next, at(Loses, search.Nobody, n, 0))
}

// frees is every step of a slot at a node that no client waits for.
func (x *explorer) frees(w *world, n, slot int, visit visitor) {
	m := &w.nodes[n]
	key := m.Slots[slot-1]
	if key != nobody && (m.firm&bitOf(slot-1) == 0 && !(x.LongGrace && key.isClient())) {
		next := *w
		next.nodes[n].Expire(slot)
		visit(&next, at(Expires, search.Nobody, n, int8(slot)))
	}
	if key == over {
		x.release(w, n, slot, over, Releases, visit)
	}
	if x.NoCompare && key.isClient() {
		x.release(w, n, slot, key, LateRelease, visit)
	}
	if slot == 1 && m.Permits != 0 && (x.Rules.Expires || m.noneTaken(m.Permits)) {
		next := *w
		next.nodes[n].Permits = 0
		visit(&next, at(ExpiresPermits, search.Nobody, n, 0))
	}
	if x.Leftovers {
		x.late(w, n, slot, visit)
	}
}

// release is a release of one slot. Of the attempts that are over each has one value.
func (x *explorer) release(w *world, n, slot int, v value, kind search.Kind, visit visitor) {
	next := *w
	m := &next.nodes[n]
	rest := m.Slots
	m.Slots = [spec.MaxPermits]value{}
	m.Slots[slot-1] = v
	list := m.Waiting
	given := m.Release(v, permits, 0, alive)
	for i := range rest {
		if i != slot-1 {
			m.Slots[i] = rest[i]
		}
	}
	m.firm &^= bitOf(slot - 1)
	if to := given[slot-1]; to != nobody && kind == Releases {
		kind = HandsOver
	}
	if x.TrustMessage {
		next.tell(n, slot, given[slot-1])
		if x.HandTwice {
			for _, second := range list[1:2] {
				m.Leave(second)
				next.tell(n, slot, second)
			}
		}
	}
	visit(&next, at(kind, search.Nobody, n, int8(slot)))
}

// tell sends a waiter a message.
func (w *world) tell(n, slot int, to value) {
	if !to.isClient() {
		return
	}
	if one := &w.clients[to-firstClient]; one.phase == waiting {
		one.votes[n] = vote(slot)
	}
}

// late is a request of an attempt that is over.
func (x *explorer) late(w *world, n, slot int, visit visitor) {
	for _, most := range x.Permits {
		if slot > most {
			continue
		}
		next := *w
		m := &next.nodes[n]
		x.spoil(m, n, 0)
		if x.Waiting {
			m.Wait(over, most, slot)
		} else {
			m.Take(over, most, slot)
		}
		visit(&next, at(LateTake, search.Nobody, n, int8(slot)))
	}
}
