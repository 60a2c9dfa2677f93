package spec

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
	return n.granting(names, func(set Entries[string]) (int64, bool) { return set.Acquire(value, 0, Clamp(ts, n.Now)) })
}

// Coordinator is [Entry.Coordinator] with the caller's timestamp.
func (n *Node) Coordinator(name, value string, ts int64) (fence int64, granted bool) {
	return n.granting([]string{name}, func(set Entries[string]) (int64, bool) { return set[0].Coordinator(value, 0, Clamp(ts, n.Now)) })
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
	return n.granting(names, func(set Entries[string]) (int64, bool) { return set.Adopt(old, value, 0, Clamp(ts, n.Now)) })
}
