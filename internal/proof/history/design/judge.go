package design

import (
	"slices"

	"github.com/redquorum/redquorum/internal/proof/spec"
)

// A Claim is what a history can break.
type Claim uint8

// The claims.
const (
	Nothing   Claim = iota
	Exclusive       // nobody holds the lock beside its holder, but readers do (S2, S12, S34)
	Permitted       // there are no more holders than permits, of one number (S32)
	Unique          // no two writers have one token (S15)
	Ordered         // an earlier lock has the smaller token (S15, S16, S22, S37)
	Kept            // a quorum keeps a lock as long as its holder believes in it (S2, S3, S35)
	Behind          // nothing of an attempt is granted behind its release (S6, S8)
	Final           // a validity that has ended never comes back (S4)
	numClaims
)

func (c Claim) String() string {
	return [...]string{
		"nothing", "the lock is exclusive", "no more holders than permits", "tokens are unique", "tokens are in order",
		"a quorum keeps what its holder believes in", "nothing comes behind a release", "a lost lock stays lost",
	}[c]
}

// verdicts are what the judges of a history know.
type verdicts struct {
	broken [numClaims]bool
	first  Claim
	tokens []tokenOf
}

// tokenOf is a lock that was acquired with fencing.
type tokenOf struct {
	token    int64
	acquired moment
	reads    bool
}

func (w *world) violate(claim Claim, c *client) {
	if w.broken[claim] || w.plan.lawless && (claim == Exclusive || claim == Permitted || claim == Kept) {
		return
	}
	w.broken[claim] = true
	if w.first == Nothing {
		w.first = claim
	}
	w.say(clientName(c.id), "VIOLATION: %v", claim)
	if claim == w.until {
		w.log = nil
	}
}

// believing reports whether the client believes in its lock.
func (w *world) believing(c *client) bool { return c.phase == held && !c.down && w.now < c.believes }

// judgeHolders looks at a client that has begun to believe, or believes for longer.
func (w *world) judgeHolders(c *client) {
	holders := 0
	for i := range w.plan.clients {
		other := &w.clients[i]
		if !w.believing(other) {
			continue
		}
		holders++
		switch {
		case other == c:
		case c.permits == 0 && c.reads && other.reads:
			w.count(together)
		case c.permits == 0:
			w.violate(Exclusive, c)
		case c.permits != other.permits || c.slot == other.slot:
			w.violate(Permitted, c)
		default:
			w.count(together)
		}
	}
	if c.permits > 0 && holders > int(c.permits) {
		w.violate(Permitted, c)
	}
}

// judgeToken looks at a token that was just given.
func (w *world) judgeToken(c *client) {
	if !w.plan.fenced {
		return
	}
	for _, other := range w.tokens {
		before := other.acquired < c.began
		switch {
		case !c.reads && !other.reads && c.token == other.token:
			w.violate(Unique, c)
		case !before || c.reads && other.reads:
		case c.token < other.token, c.token == other.token && !c.reads:
			w.violate(Ordered, c)
		}
	}
	w.tokens = append(w.tokens, tokenOf{c.token, w.now, c.reads})
}

// judgeKept compares what clients believe with what nodes keep. A node that has lost its memory
// since the round that the lock is held by counts as one that keeps it: that it does not vote for
// another is what the other judges look at.
func (w *world) judgeKept() {
	for i := range w.plan.clients {
		c := &w.clients[i]
		if !w.believing(c) {
			continue
		}
		kept := 0
		for n := range w.plan.nodes {
			node := &w.nodes[n]
			kept += int(b(node.hurt >= c.confirmed || node.keeps(c, c.believes)))
		}
		if kept < w.plan.nodes/2+1 {
			w.violate(Kept, c)
		}
	}
}

// judgeNode looks at what a node did for an attempt.
func (w *world) judgeNode(n *node, client int8, m *message) {
	switch m.op {
	case acquire, take, extend:
		if m.answer != spec.Refused && slices.Contains(n.released, m.value) {
			w.violate(Behind, &w.clients[client])
		}
	case release:
		if m.last {
			n.released = append(n.released, m.value)
		}
	case hello, look, swap, raise, mend:
	}
}
