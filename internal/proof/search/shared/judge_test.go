package shared

import (
	"math/bits"

	"github.com/redquorum/redquorum/internal/proof/search"
)

// votes is how many nodes a client counts.
func (x *explorer) votes(c *client) (votes int) {
	for n := range x.Nodes {
		if c.links[n].vote {
			votes++
		}
	}
	return votes
}

// concludeRead is every token that a reader may take: a quorum granted it a number that is not
// above, so it is at or above the token of every writer before; and a quorum is at or above it, so
// the next writer's is above. The two quorums may differ. With the largest of its grants the first
// is always so; the others are there because a master with a wrong clock is best left out.
func (x *explorer) concludeRead(w *world, c int, visit visitor) {
	one := &w.clients[c]
	largest := int8(0)
	for n := range x.Nodes {
		largest = max(largest, one.links[n].highest())
	}
	for t := int8(1); t <= int8(x.MaxFence); t++ {
		notAbove, notBelow := 0, 0
		for n := range x.Nodes {
			l := &one.links[n]
			if low := l.lowest(); low > 0 && low <= t {
				notAbove++
			}
			if l.highest() >= t {
				notBelow++
			}
		}
		if (notAbove >= x.need() || x.SmallToken) && (notBelow >= x.need() || x.NotRaised && t == largest) {
			x.win(w, c, t, visit)
		}
	}
}

// concludeWrite is every decision that the answers of a writer allow: internal/proof/search/fence
// has more.
func (x *explorer) concludeWrite(w *world, c int, visit visitor) {
	one := &w.clients[c]
	if one.phase == raising {
		at := 0
		for n := range x.Nodes {
			at += int(one.links[n].answers >> 1 & 1)
		}
		if at >= x.need() {
			x.win(w, c, one.target, visit)
		}
		return
	}
	granted, all := 0, uint8(0)
	var same [maxFence]int
	for n := range x.Nodes {
		answers := one.links[n].answers
		all |= answers
		if answers != 0 {
			granted++
		}
		for f := range same {
			same[f] += int(answers >> f & 1)
		}
	}
	for f, nodes := range same {
		if nodes >= x.need() {
			x.win(w, c, int8(f)+1, visit)
		}
		if granted >= x.need() && all>>f&1 == 1 {
			next := *w
			next.clients[c].aim(int8(f) + 1)
			visit(&next, search.Event{Kind: WriteRaising, Client: c, Node: search.Nowhere, Number: int(int8(f) + 1)})
		}
	}
}

// aim begins the second round.
func (c *client) aim(target int8) {
	c.phase, c.target = raising, target
	for n := range c.links {
		l := &c.links[n]
		grants := l.answers
		l.answers = 0
		for ; grants != 0; grants &= grants - 1 {
			c.note(n, int8(bits.TrailingZeros8(grants))+1)
		}
	}
}

// note records a grant, or a raise that succeeded.
func (c *client) note(n int, fence int8) {
	l := &c.links[n]
	switch {
	case fence == 0 || c.phase == held || c.phase == over:
	case c.mode == reader:
		low := l.lowest()
		if low == 0 || fence < low {
			low = fence
		}
		l.answers = uint8(low) | uint8(max(l.highest(), fence))<<fenceBits
	case c.phase == asking:
		l.answers |= 1 << (fence - 1)
	case fence < c.target:
		l.answers |= isBelow
	case fence == c.target:
		l.answers |= isAt
	}
}

// win is an acquisition. By time it may happen while enough votes have not expired.
func (x *explorer) win(w *world, c int, token int8, visit visitor) {
	one := &w.clients[c]
	if !x.Timeless && x.votes(one) < x.need() {
		return
	}
	e := search.Event{Kind: Held, Client: c, Node: search.Nowhere, Number: int(token)}
	next := *w
	if one.mode == reader {
		e.Broken = x.judgeReader(w, c, token)
		next.read = max(w.read, token)
	} else {
		e.Broken = x.judgeWriter(w, c, token)
		if token > 0 {
			next.written |= 1 << (token - 1)
		}
	}
	for n := range next.clients[c].links {
		next.clients[c].links[n].answers = 0
	}
	next.clients[c].phase, next.clients[c].target = held, 0
	next.clients[c].floorRead, next.clients[c].floorWrite = 0, 0
	if x.Timeless {
		x.finish(&next, c)
	}
	visit(&next, e)
}

// judge looks at what must be true at any time. A claim that the step broke itself comes first.
func (x *explorer) judge(w *world, e *search.Event) {
	if e.Broken == "" && !x.Timeless {
		for n := range x.Nodes {
			if broken := x.judgeNode(w, n); broken != "" {
				e.Broken = broken
			}
		}
	}
	if x.Only != "" && e.Broken != x.Only {
		e.Broken = ""
	}
}

// judgeNode compares a node with what it promised. Exclusion follows from it: a majority of readers
// and one of a writer share a node, and its key is one or the other.
func (x *explorer) judgeNode(w *world, n int) string {
	at := &w.nodes[n]
	longest := int8(0)
	for c := range x.Clients {
		promise, lives := w.clients[c].links[n].promise, at.members[c]-expired
		if w.clients[c].mode != reader {
			if promise > 0 && (at.key != valueOf(c) || at.left < promise) {
				return covered
			}
			continue
		}
		longest = max(longest, promise)
		if promise > 0 && (at.key != marker || at.left < promise || lives < promise) {
			return covered
		}
		if at.key == marker && lives > 0 && lives > promise {
			return ownTime
		}
	}
	if at.key == marker && at.left > longest {
		return lingering
	}
	return ""
}

// judgeReader is what an acquisition breaks.
func (x *explorer) judgeReader(w *world, c int, token int8) string {
	if x.Faults == 0 {
		for other := range x.Clients {
			if w.clients[other].phase == held && w.clients[other].mode != reader {
				return exclusive
			}
		}
	}
	after := w.clients[c].floorWrite
	if !x.Timeless {
		after = int8(bits.Len8(w.written))
	}
	if token > 0 && token < after {
		return ordered
	}
	return ""
}

func (x *explorer) judgeWriter(w *world, c int, token int8) string {
	if x.Faults == 0 {
		for other := range x.Clients {
			if w.clients[other].phase == held {
				return exclusive
			}
		}
	}
	if token == 0 {
		return ""
	}
	if w.written>>(token-1)&1 == 1 {
		return unique
	}
	after := max(w.clients[c].floorRead, w.clients[c].floorWrite)
	if !x.Timeless {
		after = max(w.read, int8(bits.Len8(w.written)))
	}
	if token <= after {
		return ordered
	}
	return ""
}

// judgeIntent looks at what a release did to the intent at a node.
func judgeIntent(w, next *world, n, c int) string {
	before, after := w.nodes[n].intent, next.nodes[n].intent
	if before == valueOf(c) {
		before = nobody
	}
	if before != after {
		return withdrawn
	}
	return ""
}

// judgeHandOver looks at what a release did to the key and to those that wait.
func judgeHandOver(w, next *world, n, c int, dead uint8) string {
	at, to := &w.nodes[n], &next.nodes[n]
	if at.key >= firstClient && at.key != valueOf(c) && to.key != at.key {
		return othersKey
	}
	served, waited, stay := false, false, 0
	for _, v := range at.waiting {
		if v == nobody || v == valueOf(c) {
			waited = waited || v != nobody
			continue
		}
		if stay < maxClients && to.waiting[stay] == v {
			stay++
			continue
		}
		if stay > 0 {
			return inOrder // somebody older still waits
		}
		served = served || dead>>(v-firstClient)&1 == 0
	}
	first := to.waiting[0]
	if first == nobody || dead>>(first-firstClient)&1 == 1 || w.clients[c].mode == foreign {
		return ""
	}
	reads := next.clients[first-firstClient].mode == reader
	left := w.clients[c].mode == writer && waited
	switch {
	case at.key != nobody && to.key == nobody, to.key == marker && reads && left:
		return woken
	case to.key == marker && reads && served:
		return together
	}
	return ""
}
