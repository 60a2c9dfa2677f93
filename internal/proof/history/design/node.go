package design

import (
	"slices"

	"github.com/redquorum/redquorum/internal/proof/spec"
)

// Values are numbers. No attempt has that of the marker of readers.
const markerValue = -1

// counterLife is how long counters live, in microseconds: longer than a history.
const counterLife = 600 * second

// data is what a node loses when it forgets.
type data struct {
	lock   spec.Entry[int32]
	slots  spec.Semaphore[int32]
	ends   [spec.MaxPermits]int64 // when the keys of slots expire, in milliseconds
	marker marker
}

func (d *data) clear() {
	lock := &d.lock
	*d = data{lock: spec.Entry[int32]{Marker: markerValue, Members: lock.Members[:0], Waiting: lock.Waiting[:0]}}
}

func (d *data) copyFrom(from *data) {
	members := append(d.lock.Members[:0], from.lock.Members...)
	*d = *from
	d.lock.Members = members
}

// node is one master.
type node struct {
	watch
	data
	saved    data
	durable  bool
	up       bool
	run      int32             // its process
	stopped  moment            // it executes nothing before
	hurt     moment            // when it last lost data; -1 if never
	killed   [maxClients]int32 // connections up to this one
	released []int32           // values of which it executed the last release
}

func (n *node) reset() {
	n.clear()
	n.saved.clear()
	*n = node{data: n.data, saved: n.saved, released: n.released[:0], up: true, run: 1, hurt: -1}
	n.marker = marker{state: spec.Active, incarnation: 1, run: 1}
}

// tick moves the keys to the present.
func (n *node) tick(now moment) {
	n.lock.Now = n.at(now) / millisecond
	n.lock.Expire()
	for i, end := range n.ends {
		if end != 0 && end <= n.lock.Now {
			n.ends[i] = 0
			n.slots.Expire(i + 1)
		}
	}
}

func nobody(int32) bool { return false }

// execute runs a request, and makes it its reply.
func (w *world) execute(n *node, m *message) {
	n.tick(w.now)
	l := &n.lock
	ts := spec.Clamp(m.number, n.at(w.now))
	if w.rules.NoClamp {
		ts = m.number
	}
	switch m.op {
	case hello, look:
	case swap:
		if n.marker == m.seen {
			n.marker = m.marker
		}
	case take, extend, release:
		if m.permits > 0 {
			w.executeSlot(n, m)
		} else if m.op == extend {
			m.answer = w.rules.extend(l, m)
		} else {
			w.rules.release(l, m)
		}
	case acquire:
		granted := false
		m.fence, granted = w.rules.acquire(l, m, ts)
		m.answer = voteOf(granted)
	case raise:
		switch {
		case !w.rules.FollowFar && !(m.reads && l.Fence >= m.number) &&
			!spec.Follows(l.Fence, m.number, n.at(w.now)+spec.Limit, counterLife):
		case m.reads:
			m.answer = voteOf(l.RaiseRead(m.value, m.number))
		default:
			m.answer = voteOf(l.RaiseWrite(m.value, m.number))
		}
	case mend:
		if (spec.Entries[int32]{l}).Mend(m.value, m.given, m.number) {
			w.count(mended)
		}
	}
}

func voteOf(granted bool) spec.Answer {
	if granted {
		return spec.Extended
	}
	return spec.Refused
}

// executeSlot is execute for a semaphore.
func (w *world) executeSlot(n *node, m *message) {
	s, permits, end := &n.slots, int(m.permits), n.lock.Now+m.ttl
	if w.rules.AnyNumber && m.op == take {
		s.Permits = permits
	}
	switch {
	case m.op == take:
		var a spec.SlotAnswer
		if m.only {
			a, _ = s.TakeSlot(m.value, permits, int(m.slot), nobody)
		} else {
			a = s.Take(m.value, permits, int(m.slot))
		}
		m.slot, m.free, m.answer = int8(a.Slot), a.Free, voteOf(a.Slot != 0)
		if a.Slot != 0 {
			n.ends[a.Slot-1] = max(n.ends[a.Slot-1], end)
		}
	case m.op == release:
		s.GiveBack(m.value, permits, int(m.slot), nobody)
	default:
		if m.answer = s.Extend(m.value, permits, int(m.slot)); m.answer != spec.Refused {
			n.ends[m.slot-1] = end
		}
	}
	for i := range n.ends {
		if s.Slots[i] == 0 {
			n.ends[i] = 0
		}
	}
}

// keeps reports whether the node keeps a client's lock until a moment.
func (n *node) keeps(c *client, until moment) bool {
	last := n.at(until-1) / millisecond
	if c.permits > 0 {
		return n.slots.Slots[c.slot-1] == c.value && n.ends[c.slot-1] > last && n.slots.Permits == int(c.permits)
	}
	l := &n.lock
	if !c.reads {
		return l.Key == c.value && l.Until > last
	}
	return l.Key == l.Marker && l.Until > last && slices.ContainsFunc(l.Members, func(m spec.Member[int32]) bool {
		return m.Value == c.value && m.Until > last
	})
}

// Rules are the mistakes that a protocol has. The zero Rules have none.
type Rules struct {
	NoRate          bool // the allowance for drift is 2 ms, whatever the TTL
	NoFixed         bool // the allowance for drift has no fixed part, which is for rounding
	SmallQuorum     bool // half of the nodes are a quorum, rounded down
	FromLastReply   bool // the validity counts from the reply that decides
	NoProof         bool // a vote counts without proof of memory
	AdmittedOnly    bool // a vote counts if the node was admitted, without the marker behind it
	ShortQuarantine bool // a node that forgot has no vote for a quarter of MaxTTL
	TrustDisk       bool // data from a disk is believed, whether the node is durable or not
	BlindRelease    bool // a writer's release does not compare the value
	ReleaseAll      bool // a reader's release deletes the key of all readers
	LateVerdict     bool // an extension counts although the validity has ended
	LateShortening  bool // a shorter TTL shortens the validity only when the round is won
	SharedTTL       bool // the key of readers ends with the one that came last
	BesideWriter    bool // a reader is granted a name that a writer has
	AnySlot         bool // votes for different slots count together
	AnyNumber       bool // a node takes over any number of permits that it is asked for
	NoRaise         bool // the largest fence is the token, without a second round
	FewFences       bool // a token is complete at a majority of the nodes that granted
	NoClamp         bool // a timestamp counts however far it is from the node's clock
	FollowFar       bool // nodes are raised to a number however far it is ahead
	SmallReadToken  bool // a reader takes the smallest fence that it was granted
	KeepConnections bool // a new connection does not kill the one before
}

func (r *Rules) need(nodes int) int {
	if r.SmallQuorum {
		return max(nodes/2, 1)
	}
	return nodes/2 + 1
}

func (r *Rules) acquire(e *spec.Entry[int32], m *message, ts int64) (fence int64, granted bool) {
	switch {
	case !m.reads:
		return e.AcquireWrite(m.value, m.ttl, ts)
	case r.BesideWriter && e.Key != 0 && e.Key != e.Marker:
		return max(e.Fence, ts), true
	}
	fence, granted = e.AcquireRead(m.value, m.ttl, ts, false)
	if granted && r.SharedTTL {
		e.Until = e.Now + m.ttl
	}
	return fence, granted
}

func (r *Rules) extend(e *spec.Entry[int32], m *message) spec.Answer {
	if !m.reads {
		return e.ExtendWrite(m.value, m.ttl)
	}
	answer := e.ExtendRead(m.value, m.ttl)
	if answer != spec.Refused && r.SharedTTL {
		e.Until = e.Now + m.ttl
	}
	return answer
}

func (r *Rules) release(e *spec.Entry[int32], m *message) {
	if r.BlindRelease && !m.reads || r.ReleaseAll && m.reads && e.Key == e.Marker {
		e.Key, e.Until = 0, 0
	}
	if m.reads {
		e.ReleaseRead(m.value, 0, nobody)
	} else {
		e.ReleaseWrite(m.value, 0, nobody)
	}
}

// allowance returns the allowance for drift over a TTL, in microseconds.
func (r *Rules) allowance(ttlMillis int64) int64 {
	switch {
	case r.NoRate:
		return driftOf(0)
	case r.NoFixed:
		return driftOf(ttlMillis) - driftOf(0)
	default:
		return driftOf(ttlMillis)
	}
}
