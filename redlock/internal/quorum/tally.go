package quorum

// Tally is the number of votes of each kind in a round.
type Tally struct {
	Nodes   int // asked
	Granted int
	Refused int
	Failed  int

	Expected int // for a release: nodes that have, or may have, what it releases
	Absent   int // refusals of nodes that were not expected to have it
}

// Outstanding returns how many votes are still out.
func (t Tally) Outstanding() int { return t.Nodes - t.Granted - t.Refused - t.Failed }

// A Verdict is the outcome of a round.
type Verdict uint8

// The verdicts.
const (
	Pending  Verdict = iota // the outstanding votes can still change it
	Won                     // a quorum granted
	Denied                  // a quorum answered, and no quorum granted
	NoQuorum                // too few nodes answered
)

// DecideAcquire returns the verdict on an acquisition, final as soon as no outstanding vote can
// change it. Denied means that a quorum of nodes answered, and too few of them granted.
func DecideAcquire(t Tally) Verdict {
	need, out := Need(t.Nodes), t.Outstanding()
	answered := t.Granted + t.Refused
	switch {
	case t.Granted >= need:
		return Won
	case t.Granted+out >= need:
		return Pending
	case answered >= need:
		return Denied
	case answered+out >= need:
		return Pending // not won in any case; the next votes decide how
	default:
		return NoQuorum
	}
}

// DecideHeld returns the verdict on a request about a held lock (extend, verify): it takes a quorum
// to say yes and a quorum to say no. Anything in between says nothing about the lock.
func DecideHeld(t Tally) Verdict {
	need, out := Need(t.Nodes), t.Outstanding()
	switch {
	case t.Granted >= need:
		return Won
	case t.Refused >= need:
		return Denied
	case t.Granted+out >= need, t.Refused+out >= need:
		return Pending
	default:
		return NoQuorum
	}
}

// DecideAnswered returns the verdict on a question of which only the answer counts, not what it
// says: it takes one from a quorum.
func DecideAnswered(t Tally) Verdict {
	answered := t.Granted + t.Refused
	switch need := Need(t.Nodes); {
	case answered >= need:
		return Won
	case answered+t.Outstanding() >= need:
		return Pending
	default:
		return NoQuorum
	}
}

// DecideRelease returns the verdict on a release. It is won when a quorum deleted the lock. It is
// also won when all nodes have answered or failed and a quorum does not have the lock, as long as
// the lock may have been held to the end: a node that never granted it is as free as one that
// deleted it. It is denied when a quorum no longer had the lock, or so many nodes did not that no
// quorum can have held it.
func DecideRelease(t Tally) Verdict {
	need := Need(t.Nodes)
	switch gone := t.Refused - t.Absent; {
	case t.Granted >= need:
		return Won
	case gone >= need, gone > max(t.Expected-need, 0): // members may have come or gone
		return Denied
	case t.Outstanding() > 0:
		return Pending
	case t.Granted+t.Absent >= need:
		return Won
	default:
		return NoQuorum
	}
}
