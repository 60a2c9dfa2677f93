package spec

import "slices"

// An Entry is what one node keeps for one name. The zero Entry is that of a name that was never
// locked. V is the type of values: strings on a node, small numbers in the search.
type Entry[V comparable] struct {
	Value   V     // of the lock key; the zero V if there is no key
	Fence   int64 // the counter; 0 if there is none
	Waiting []V   // the values that waiters will use, the oldest waiter first
}

func (e *Entry[V]) absent() bool {
	var none V
	return e.Value == none
}

// Entries are what one script works on: one name, or a set of names, none of them twice.
type Entries[V comparable] []*Entry[V]

// grant gives all keys to value, and one new fence to all of them. The +1 makes it new: without it,
// two attempts with one timestamp, or one with an old timestamp, would get a number that was given
// before. The maximum covers the whole set; otherwise the token of the set would be old under one
// of its names.
func (s Entries[V]) grant(value V, ts int64) int64 {
	fence := ts
	for _, e := range s {
		fence = max(fence, e.Fence+1)
	}
	for _, e := range s {
		e.Value, e.Fence = value, fence
	}
	return fence
}

// Acquire sets all keys, or none if one is taken. It returns the fence that it granted.
func (s Entries[V]) Acquire(value V, ts int64) (fence int64, granted bool) {
	for _, e := range s {
		if !e.absent() {
			return 0, false
		}
	}
	return s.grant(value, ts), true
}

// Pilot is Acquire for a waiter. A key that was handed to value is as good as an absent one, but
// counts only from here on: a hand-over leaves the fence as it is, and a fence that was granted
// before must not be granted again. If it is not granted, value waits.
func (e *Entry[V]) Pilot(value V, ts int64) (fence int64, granted bool) {
	if !e.absent() && e.Value != value {
		if !slices.Contains(e.Waiting, value) {
			e.Waiting = append(e.Waiting, value)
		}
		return 0, false
	}
	e.forget(value)
	return Entries[V]{e}.grant(value, ts), true
}

// Release takes the key from value and hands it to the oldest waiter that is alive. Waiters that
// are not are dropped. If nobody is left, the key is deleted. It reports whether the key was
// value's, and to whom it went.
func (e *Entry[V]) Release(value V, alive func(V) bool) (to V, released bool) {
	var none V
	if e.absent() || e.Value != value {
		return none, false
	}
	e.Value = none
	for len(e.Waiting) > 0 && e.absent() {
		oldest := e.Waiting[0]
		e.Waiting = slices.Delete(e.Waiting, 0, 1)
		if alive(oldest) {
			e.Value = oldest
		}
	}
	return e.Value, true
}

// Leave ends a wait, and passes on what was handed over meanwhile.
func (e *Entry[V]) Leave(value V, alive func(V) bool) (to V, released bool) {
	e.forget(value)
	return e.Release(value, alive)
}

func (e *Entry[V]) forget(value V) {
	e.Waiting = slices.DeleteFunc(e.Waiting, func(v V) bool { return v == value })
}

// Raise lifts the fences to t, if all keys are value's and all fences are below t.
//
// The comparison is strict, and the tokens rest on it. If a fence that is already t were good
// enough, it might be t because another attempt was given t. A key can come back to value without a
// new fence: it expired, another attempt acquired it, and its release handed it over to value,
// which was still in the list from a message sent before. A fence above t must not be lowered, or
// numbers would be given out twice.
//
// The comparison of values is no part of that argument. It prevents a late raise from lifting the
// counter under another attempt, whose own second round would then fail, and a node that lost its
// key from being counted.
func (s Entries[V]) Raise(value V, t int64) bool {
	for _, e := range s {
		if e.absent() || e.Value != value || e.Fence >= t {
			return false
		}
	}
	for _, e := range s {
		e.Fence = t
	}
	return true
}

// Mend brings the fences down to t, if all keys are value's and all fences are the one that value
// was given. This is the only way down.
func (s Entries[V]) Mend(value V, given, t int64) bool {
	for _, e := range s {
		if e.absent() || e.Value != value || e.Fence != given {
			return false
		}
	}
	for _, e := range s {
		e.Fence = t
	}
	return true
}

// Adopt gives the keys of old to value, with a new fence, if all of them are old's.
func (s Entries[V]) Adopt(old, value V, ts int64) (fence int64, granted bool) {
	for _, e := range s {
		if e.absent() || e.Value != old {
			return 0, false
		}
	}
	return s.grant(value, ts), true
}

// Expire deletes the key.
func (e *Entry[V]) Expire() {
	var none V
	e.Value = none
}

// Delta is how far a caller's timestamp may be from the node's clock, in microseconds.
const Delta = 10_000_000

// Clamp returns the timestamp nearest to ts that is no further than [Delta] from now. A wrong clock
// must not carry a counter far into the future, where no other clock catches up with it.
func Clamp(ts, now int64) int64 { return min(max(ts, now-Delta), now+Delta) }

// How far a counter may go, in microseconds.
const (
	// Limit is how far ahead of its clock a node can be raised, at most.
	Limit = 20_000_000

	// Ahead is how far past the clock an unreadable counter begins again, and how far past a token
	// a mended one does.
	Ahead = 60_000_000
)

// Unreadable is the fence of a counter that was overwritten with something that is no number.
const Unreadable = -1

// Follows reports whether a node whose counter is fence can be raised to t, if its clock allows up
// to limit. A counter past limit shows that the clock was set back; then t may be ahead of the
// counter by as long as counters live.
func Follows(fence, t, limit, life int64) bool {
	return fence >= 0 && (t <= limit || fence > limit && t <= fence+life)
}

// A Node is one Redis master. Values must not be empty. Make it with [NewNode]. It is for one
// goroutine.
type Node struct {
	Now     int64 // its clock, in microseconds since 1970; the caller moves it
	entries map[string]*Entry[string]
}

// NewNode returns a node without any keys.
func NewNode() *Node { return &Node{entries: make(map[string]*Entry[string])} }

// Entry returns what the node keeps for the name. It is the node's own: writing to it changes the
// node.
func (n *Node) Entry(name string) *Entry[string] {
	e := n.entries[name]
	if e == nil {
		e = new(Entry[string])
		n.entries[name] = e
	}
	return e
}

func (n *Node) all(names []string) Entries[string] {
	set := make(Entries[string], len(names))
	for i, name := range names {
		set[i] = n.Entry(name)
	}
	return set
}

// granting replaces unreadable fences by those that a grant starts from.
func (n *Node) granting(names []string, grant func(set Entries[string]) (int64, bool)) (fence int64, granted bool) {
	set := n.all(names)
	var lost []*Entry[string]
	for _, e := range set {
		if e.Fence == Unreadable {
			e.Fence = n.Now + Ahead
			lost = append(lost, e)
		}
	}
	if fence, granted = grant(set); !granted {
		for _, e := range lost {
			e.Fence = Unreadable
		}
	}
	return fence, granted
}

// Acquire is [Entries.Acquire] with the caller's timestamp.
func (n *Node) Acquire(names []string, value string, ts int64) (fence int64, granted bool) {
	return n.granting(names, func(set Entries[string]) (int64, bool) { return set.Acquire(value, Clamp(ts, n.Now)) })
}

// Pilot is [Entry.Pilot] with the caller's timestamp.
func (n *Node) Pilot(name, value string, ts int64) (fence int64, granted bool) {
	return n.granting([]string{name}, func(set Entries[string]) (int64, bool) { return set[0].Pilot(value, Clamp(ts, n.Now)) })
}

// Raise is [Entries.Raise], if the node follows.
func (n *Node) Raise(names []string, value string, t, life int64) bool {
	set := n.all(names)
	for _, e := range set {
		if !Follows(e.Fence, t, n.Now+Limit, life) {
			return false
		}
	}
	return set.Raise(value, t)
}

// Mend is [Entries.Mend].
func (n *Node) Mend(names []string, value string, given, t int64) bool {
	return n.all(names).Mend(value, given, t)
}

// Adopt is [Entries.Adopt] with the caller's timestamp.
func (n *Node) Adopt(names []string, old, value string, ts int64) (fence int64, granted bool) {
	return n.granting(names, func(set Entries[string]) (int64, bool) { return set.Adopt(old, value, Clamp(ts, n.Now)) })
}

// Restart loses everything.
func (n *Node) Restart() { clear(n.entries) }
