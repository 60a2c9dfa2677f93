package shared

import "math/bits"

// judge looks at what must be true at any time. A claim that the step broke itself comes first.
func (x *explorer) judge(w *world, e *event) {
	if e.broken == noClaim && !x.Timeless {
		for n := range x.Nodes {
			if broken := x.judgeNode(w, n); broken != noClaim {
				e.broken = broken
			}
		}
	}
	if x.Only != noClaim && e.broken != x.Only {
		e.broken = noClaim
	}
}

// judgeNode compares a node with what it promised. Exclusion follows from it: a majority of readers
// and one of a writer share a node, and its key is one or the other.
func (x *explorer) judgeNode(w *world, n int) claim {
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
	return noClaim
}

// judgeReader is what an acquisition breaks.
func (x *explorer) judgeReader(w *world, c int, token int8) claim {
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
	return noClaim
}

func (x *explorer) judgeWriter(w *world, c int, token int8) claim {
	if x.Faults == 0 {
		for other := range x.Clients {
			if w.clients[other].phase == held {
				return exclusive
			}
		}
	}
	if token == 0 {
		return noClaim
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
	return noClaim
}

// judgeIntent looks at what a release did to the intent at a node.
func judgeIntent(w, next *world, n, c int) claim {
	before, after := w.nodes[n].intent, next.nodes[n].intent
	if before == valueOf(c) {
		before = nobody
	}
	if before != after {
		return withdrawn
	}
	return noClaim
}

// judgeHandOver looks at what a release did to the key and to those that wait.
func judgeHandOver(w, next *world, n, c int, dead uint8) claim {
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
		return noClaim
	}
	reads := next.clients[first-firstClient].mode == reader
	left := w.clients[c].mode == writer && waited
	switch {
	case at.key != nobody && to.key == nobody, to.key == marker && reads && left:
		return woken
	case to.key == marker && reads && served:
		return together
	}
	return noClaim
}
