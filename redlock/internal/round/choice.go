package round

import (
	"github.com/redquorum/redquorum/redlock/internal/members"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// choice is what a round knows in which each node gives one of several, such as the slots of a
// semaphore. They are counted from 1. Votes count for the same one only. Once the round has
// settled on one, a node that gave another counts as refusing it. The mutex of the round guards it.
type choice struct {
	settled bool           // chosen does not change any more
	chosen  int            // until settled the one that most nodes gave; 0 if no node gave any
	answers []wire.Choice  // by node; zero without an answer
	strays  quorum.NodeSet // nodes that have, or may have, another one than chosen
}

func (s *Spec) newChoice(nodes int) *choice {
	if !s.Any && s.One == 0 {
		return nil
	}
	return &choice{settled: !s.Any, chosen: s.One, answers: make([]wire.Choice, nodes)}
}

// Chosen returns the one that the round settled on.
func (r *Round) Chosen() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rare.choice.chosen
}

// Strays returns the nodes that have answered or failed, and may have something else than the
// chosen one under our value.
func (r *Round) Strays() quorum.NodeSet {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rare.choice.strays
}

// Available returns one that a quorum of nodes gave us, or said to be free; 0 if there is none. Of
// several it is the one that most nodes gave, and of these the first.
func (r *Round) Available(except int) (one int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one, _ = r.availableLocked(r.rounds.Members.View(), except)
	return one
}

// OtherNumber returns the number of permits that a quorum of nodes knows instead of the caller's,
// or 0.
func (r *Round) OtherNumber() (number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	count, view := 0, r.rounds.Members.View()
	for i := range r.countedLocked(view).Nodes() {
		if other := r.rare.choice.answers[i].Other; other != 0 {
			number = other
			count++
		}
	}
	if count < view.Need() {
		return 0
	}
	return number
}

// Full returns the nodes that gave nothing and have nothing free, and those that have not answered
// yet and may say so.
func (r *Round) Full() (full quorum.NodeSet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	full = quorum.All(r.size()).Minus(r.votes.In())
	for i := range r.countedLocked(r.rounds.Members.View()).Nodes() {
		if r.rare.choice.answers[i].IsFull() {
			full.Add(i)
		}
	}
	return full
}

// countedLocked returns the nodes that answered and whose vote counts.
func (r *Round) countedLocked(view *members.View) quorum.NodeSet {
	return r.votes.Granted.Or(r.votes.Refused).And(view.Voting)
}

// chooseLocked takes the answer of a node. It returns the vote for the chosen one, and whether the
// node may have another.
func (r *Round) chooseLocked(node int, v quorum.Vote, reply any) (vote quorum.Vote, stray bool) {
	c := r.rare.choice
	switch {
	case v == quorum.Failed:
		stray = r.mayHoldLocked().Has(node) // also what an earlier round was given there
	default:
		c.answers[node] = wire.ReadChoice(reply)
		if v == quorum.Granted && c.settled && c.answers[node].Got != c.chosen {
			v, stray = quorum.Refused, true
		}
	}
	if stray {
		c.strays.Add(node)
	}
	return v, stray
}

// settleLocked settles on the one that most nodes gave, once the round is decided.
func (r *Round) settleLocked() {
	c := r.rare.choice
	if c.settled {
		return
	}
	c.settled = true
	others := r.votes.Granted
	r.votes = c.forChosen(r.votes)
	c.strays |= others.Minus(r.votes.Granted)
}

// forChosen returns the votes for the one that most nodes gave: another one is a refusal.
func (c *choice) forChosen(votes quorum.Ballot) quorum.Ballot {
	for i := range votes.Granted.Nodes() {
		if c.answers[i].Got != c.chosen {
			votes.Granted.Remove(i)
			votes.Refused.Add(i)
		}
	}
	return votes
}

// mostLocked returns the one that most nodes gave, whose votes count, and how many did.
func (r *Round) mostLocked(view *members.View) (one, count int) {
	answers, granted := r.rare.choice.answers, r.votes.Granted.And(view.Voting)
	for i := range granted.Nodes() {
		same := 0
		for j := range granted.Nodes() {
			if answers[i].Got == answers[j].Got {
				same++
			}
		}
		if same > count || same == count && answers[i].Got < one {
			one, count = answers[i].Got, same
		}
	}
	return one, count
}

// availableLocked returns the best one, except for one, that a quorum of nodes gave us or said to
// be free; or 0. Likely is how many nodes that is at most, for any of them.
func (r *Round) availableLocked(view *members.View, except int) (one, likely int) {
	counted, need, gave := r.countedLocked(view), view.Need(), 0
	for i := 1; i <= wire.MaxPermits; i++ {
		given, could, known := 0, 0, false
		for node := range counted.Nodes() {
			a := &r.rare.choice.answers[node]
			known = known || a.Knows(i)
			switch {
			case a.Got == i:
				given++
				could++
			case a.IsFree(i):
				could++
			}
		}
		if !known {
			break
		}
		if i == except {
			continue
		}
		likely = max(likely, could)
		if could >= need && (one == 0 || given > gave) {
			one, gave = i, given
		}
	}
	return one, likely
}

// decideAny is the rule of [Spec.Any], called with mu held. The round is denied as soon as
// another round could win one that nodes gave or have free.
func (r *Round) decideAny(view *members.View) quorum.Verdict {
	t := r.count(&r.votes, view)
	need, out, answered := view.Need(), t.Outstanding(), t.Granted+t.Refused
	chosen, most := r.mostLocked(view)
	r.rare.choice.chosen = chosen
	switch {
	case most >= need:
		return quorum.Won
	case most+out >= need:
		return quorum.Pending
	}
	one, likely := r.availableLocked(view, 0)
	others := 0
	for i := range r.countedLocked(view).Nodes() {
		if r.rare.choice.answers[i].Other != 0 {
			others++
		}
	}
	switch {
	case one != 0:
		return quorum.Denied
	case out > 0 && likely+out >= need, others > 0 && others < need && others+out >= need:
		return quorum.Pending // for what another round could win, or for why there is none
	case answered >= need:
		return quorum.Denied
	case answered+out >= need:
		return quorum.Pending
	default:
		return quorum.NoQuorum
	}
}
