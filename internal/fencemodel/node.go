// Package fencemodel is a model of how fencing tokens come out of a quorum of independent nodes, and a search through
// everything that can happen to it.
//
// [Node] is a node, with the real numbers and the real rules: it can run side by side with the
// scripts. [First] and [Second] are the caller's decisions. [Explore] and [ExploreRestarts] (with
// and without [Faulty]) try every order of messages, losses, expiries and restarts within their
// limits. The tests also hand them rules that are wrong, and want each of them found out.
//
// # Why it is right
//
// A counter only rises. A grant and a raise that succeeds both move the counter of their node up to the number that they
// answer with. So on one node each number is given out once, by one execution of one script for one attempt. We say
// that the node confirmed the number to that attempt. A token is a number that a quorum of all configured nodes
// confirmed to one attempt, after that attempt began.
//
// Unique: two quorums have a node in common, and that node confirms a number once.
//
// In order: let A be acquired before B begins. Some node confirmed both tokens, A's before B began and B's after. Its
// counter rose in between.
//
// Neither argument looks at keys or clocks. Whatever expires or arrives late, a counter that is kept only rises. The keys
// see to it that there is one holder at a time, and the timestamps that the nodes mostly agree in the first round.
//
// Which number it is makes no difference either. So a node that is far ahead is left out: the
// others are not raised to its number, and its counter is brought back. [Faulty] says why that is
// right, though a counter falls.
package fencemodel

import "slices"

// An Entry is what one node keeps of one name. The zero Entry is that of a name that nobody ever locked. V is what
// values are: strings on a node, small numbers in the search.
type Entry[V comparable] struct {
	Value   V     // of the lock key; the zero V where there is no key
	Fence   int64 // the counter; 0 where there is none
	Waiting []V   // the values that waiters will use, the oldest waiter first
}

func (e *Entry[V]) absent() bool {
	var none V
	return e.Value == none
}

// Entries are those that one script works on: one name, or a set of names, none of them twice.
type Entries[V comparable] []*Entry[V]

// grant gives all keys to value, and one new fence to all of them. The +1 makes it new: without it two attempts with
// one timestamp, or one with an old timestamp, would be given a number that was given before. The maximum is taken over
// the whole set, or the token of the set would be old news under one of its names.
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

// Acquire sets all keys, or none where one is taken. It returns the fence that it granted.
func (s Entries[V]) Acquire(value V, ts int64) (fence int64, granted bool) {
	for _, e := range s {
		if !e.absent() {
			return 0, false
		}
	}
	return s.grant(value, ts), true
}

// Pilot is Acquire for a waiter. A key that was handed to value is as good as an absent one, but counts only from here
// on: a hand-over leaves the fence as it is, and a fence that was granted before must not be granted again. Not granted,
// value waits.
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

// Release takes the key from value and hands it to the oldest waiter that is alive. Waiters that are not are dropped.
// Where nobody is left the key is deleted. It reports whether the key was value's, and to whom it went.
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

// Raise lifts the fences to t, where all keys are value's and all fences are below t.
//
// The comparison is strict, and the tokens rest on it. Were a fence that is t already good enough, it might be t because
// somebody else was given t: a key can come back to value without a new fence, when it expired, another attempt
// acquired it, and its release handed it over to value, which was still in the list from a message sent before. A fence
// above t must not be lowered, or numbers would be given out twice.
//
// The comparison of values is no part of that argument. It keeps a raise that comes late from lifting the counter under
// a stranger, whose own second round would then fail, and a node that lost its key from being counted.
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

// Mend brings the fences down to t, where all keys are value's and all fences are what value was
// given. This is the only way down.
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

// Adopt gives the keys of old to value, with a new fence, where all of them are old's.
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

// Clamp returns the timestamp that is nearest to ts and no further than [Delta] from now: one wrong clock must not carry
// a counter far into the future, where no other clock gets it back.
func Clamp(ts, now int64) int64 { return min(max(ts, now-Delta), now+Delta) }

// How far a counter may go, in microseconds.
const (
	Limit = 20_000_000 // a node is raised so far ahead of its clock at most
	Ahead = 60_000_000 // so far past the clock a counter begins again that cannot be read; and past a token, one that is mended
)

// Unreadable is the fence of a counter that somebody overwrote with what is none.
const Unreadable = -1

// Follows reports whether a node whose counter is fence can be raised to t, when limit is as far as
// its clock lets it. A counter that is past limit tells that the clock was set back; then t may be
// ahead of the counter by as long as counters live.
func Follows(fence, t, limit, life int64) bool {
	return fence >= 0 && (t <= limit || fence > limit && t <= fence+life)
}

// A Node is one Redis master. Values must not be empty. Make it with [NewNode]; it is for one goroutine.
type Node struct {
	Now     int64 // its clock, in microseconds since 1970; whoever runs the node moves it
	entries map[string]*Entry[string]
}

// NewNode returns a node that keeps nothing yet.
func NewNode() *Node { return &Node{entries: make(map[string]*Entry[string])} }

// Entry is what the node keeps of the name. It is the node's own: writing to it changes the node.
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

// granting makes the fences that cannot be read those that a grant goes by.
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

// Acquire is [Entries.Acquire] with a timestamp as the caller has it.
func (n *Node) Acquire(names []string, value string, ts int64) (fence int64, granted bool) {
	return n.granting(names, func(set Entries[string]) (int64, bool) { return set.Acquire(value, Clamp(ts, n.Now)) })
}

// Pilot is [Entry.Pilot] with a timestamp as the caller has it.
func (n *Node) Pilot(name, value string, ts int64) (fence int64, granted bool) {
	return n.granting([]string{name}, func(set Entries[string]) (int64, bool) { return set[0].Pilot(value, Clamp(ts, n.Now)) })
}

// Raise is [Entries.Raise] where the node follows.
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

// Adopt is [Entries.Adopt] with a timestamp as the caller has it.
func (n *Node) Adopt(names []string, old, value string, ts int64) (fence int64, granted bool) {
	return n.granting(names, func(set Entries[string]) (int64, bool) { return set.Adopt(old, value, Clamp(ts, n.Now)) })
}

// Restart loses everything.
func (n *Node) Restart() { clear(n.entries) }
