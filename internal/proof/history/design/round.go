package design

import (
	"math"

	"github.com/redquorum/redquorum/internal/proof/search/fence"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

// A ballot is what a node says in a round.
type ballot uint8

const (
	outstanding ballot = iota
	failed             // no answer, or one that does not count
	refused            // includes healed
	granted
)

// A vote is one node's answer to the present round.
type vote struct {
	answer ballot
	slot   int8
	free   uint8
	fence  int64
}

// vote counts an answer.
func (w *world) vote(c *client, n int8, m *message, proven bool) {
	v := &c.votes[n]
	if v.answer != outstanding {
		return
	}
	switch {
	case !proven:
		v.answer = failed
	case m.answer == spec.Extended:
		v.answer = granted
	default:
		v.answer = refused
		if m.answer == spec.Healed {
			w.count(healed)
		}
	}
	v.slot, v.free = m.slot, m.free
	if m.op == raise {
		v.fence = m.number
	} else {
		v.fence = m.fence
	}
	w.decide(c)
}

// tally counts the votes of each kind.
func (w *world) tally(c *client) (out, no, yes int) {
	for n := range w.plan.nodes {
		switch c.votes[n].answer {
		case outstanding:
			out++
		case refused:
			no++
		case granted:
			yes++
		case failed:
		}
	}
	return out, no, yes
}

// decide ends a round as soon as no vote that is out can change the verdict.
func (w *world) decide(c *client) {
	need := w.rules.need(w.plan.nodes)
	out, no, yes := w.tally(c)
	switch c.phase {
	case held:
		switch {
		case !c.extending:
		case yes >= need:
			w.extendedBy(c, granted)
		case no >= need:
			w.extendedBy(c, refused)
		case yes+out < need && no+out < need:
			w.extendedBy(c, failed)
		}
	case asking:
		switch {
		case c.permits > 0:
			w.decideSlot(c, need, out, yes)
		case yes+out < need:
			w.fail(c)
		case yes >= need && !w.plan.fenced:
			w.win(c)
		case yes >= need:
			w.decideToken(c, out)
		}
	case raising, collecting:
		if yes >= need {
			w.win(c)
		} else if yes+out < need {
			w.fail(c)
		}
	case idle, expired:
	}
}

// decideSlot ends the first round of a permit: with a slot that a quorum gave, or with a second
// round for one that a quorum gave or has free.
func (w *world) decideSlot(c *client, need, out, yes int) {
	if w.rules.AnySlot && yes >= need {
		for n := range w.plan.nodes {
			if c.votes[n].answer == granted {
				c.slot = c.votes[n].slot
			}
		}
		w.win(c)
		return
	}
	available := int8(0)
	for slot := int8(1); slot <= c.permits; slot++ {
		gave, could := 0, 0
		for n := range w.plan.nodes {
			v := &c.votes[n]
			switch {
			case v.answer != granted && v.answer != refused:
			case v.answer == granted && v.slot == slot:
				gave++
				could++
			case v.free>>(slot-1)&1 == 1:
				could++
			}
		}
		if gave >= need {
			c.slot = slot
			w.win(c)
			return
		}
		if could >= need && available == 0 {
			available = slot
		}
	}
	switch {
	case out > 0:
	case available == 0:
		w.fail(c)
	default:
		c.phase, c.slot = collecting, available
		w.ask(c, message{op: take, only: true, slot: available})
	}
}

// decideToken ends the first round of an attempt that a quorum granted, if there is a token: with
// it, or with a second round that raises nodes to it.
func (w *world) decideToken(c *client, out int) {
	token, complete := w.writeToken(c)
	if c.reads {
		token, complete = w.readToken(c)
	}
	switch c.token = token; {
	case token == 0 && out == 0:
		w.fail(c)
	case token == 0:
	case complete || w.rules.NoRaise:
		w.win(c)
	default:
		w.raise(c)
	}
}

// writeToken returns the number that a quorum is at, or that a quorum can be raised to: the largest
// that it is behind by no more than clocks are apart.
func (w *world) writeToken(c *client) (token int64, complete bool) {
	var all [maxNodes]int64
	votes := all[:w.plan.nodes]
	yes := 0
	for n := range votes {
		if c.votes[n].answer == granted {
			votes[n] = c.votes[n].fence
			yes++
		}
	}
	if d := fence.First(votes); d.Token > 0 {
		return d.Token, true
	}
	for _, v := range votes {
		same, near := 0, 0
		for _, other := range votes {
			if v > 0 && other > 0 {
				same += int(b(other == v))
				near += int(b(other <= v && (v-other <= spec.Delta || w.rules.FollowFar)))
			}
		}
		if w.rules.FewFences && same > yes/2 {
			return v, true
		}
		if near >= w.rules.need(w.plan.nodes) {
			token = max(token, v)
		}
	}
	return token, false
}

// readToken returns the smallest number that a quorum granted at most. It is complete when a quorum
// is at it or above.
func (w *world) readToken(c *client) (token int64, complete bool) {
	need, smallest := w.rules.need(w.plan.nodes), int64(math.MaxInt64)
	for n := range w.plan.nodes {
		v := &c.votes[n]
		if v.answer != granted {
			continue
		}
		smallest = min(smallest, v.fence)
		notAbove := 0
		for other := range w.plan.nodes {
			notAbove += int(b(c.votes[other].answer == granted && c.votes[other].fence <= v.fence))
		}
		if notAbove >= need && (token == 0 || v.fence < token) {
			token = v.fence
		}
	}
	if w.rules.SmallReadToken {
		return smallest, true
	}
	return token, w.at(c, token) >= need
}

// at counts the nodes that confirmed a token.
func (w *world) at(c *client, token int64) (count int) {
	for n := range w.plan.nodes {
		v := &c.votes[n]
		count += int(b(v.answer == granted && (v.fence == token || c.reads && v.fence > token)))
	}
	return count
}

// raise begins the second round: nodes that are below the token are brought to it.
func (w *world) raise(c *client) {
	w.count(raises)
	c.phase = raising
	c.round++
	for n := range int8(w.plan.nodes) {
		v, l := &c.votes[n], &w.links[c.id][n]
		switch {
		case v.answer != granted:
			v.answer = failed
		case v.fence == c.token || c.reads && v.fence > c.token:
		case v.fence > c.token:
			v.answer = refused
		case !l.up:
			v.answer = failed
		default:
			v.answer = outstanding
			w.send(c.id, n, message{op: raise, value: c.value, round: c.round, reads: c.reads, number: c.token})
		}
	}
	w.after(c, c.at(w.now)+timeoutOf(c.ttl), decides)
	w.decide(c)
}
