package shared

import "math/bits"

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
			visit(&next, event{kind: WriteRaising, client: int8(c), node: nowhere, number: int8(f) + 1})
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
	e := event{kind: Held, client: int8(c), node: nowhere, number: token}
	next := *w
	if one.mode == reader {
		e.broken = x.judgeReader(w, c, token)
		next.read = max(w.read, token)
	} else {
		e.broken = x.judgeWriter(w, c, token)
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
