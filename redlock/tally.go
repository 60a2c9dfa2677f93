package redlock

// A vote is one node's answer in a round.
type vote uint8

const (
	granted vote = iota // did what it was asked
	handed              // granted a release, and gave the key to one who waits for it
	spared              // granted a release, and left the key to clients of other libraries for a while
	refused             // answered, and did not: the key is another's, or gone
	healed              // set the key anew; votes like refused, but holds our value
	failed              // no answer of use: an error, or none in time
)

// tally counts the votes of a round.
type tally struct {
	nodes   int // asked
	granted int
	refused int // healed ones included
	failed  int

	expected int // of a release: nodes that have, or may have, what is to be released
	absent   int // of the refused: those that were not expected to have it
}

// quorum is the smallest number of nodes that any two sets of have a node in common: the majority, of all nodes that are
// configured, whether or not they can be reached.
func quorum(nodes int) int { return nodes/2 + 1 }

func (t tally) outstanding() int { return t.nodes - t.granted - t.refused - t.failed }

// A verdict is what a round has decided.
type verdict uint8

const (
	pending  verdict = iota // the votes that are out can still change it
	won                     // a quorum granted
	denied                  // a quorum answered, and no quorum granted
	noQuorum                // too few nodes answered
)

// decideAcquire is the verdict on an acquisition: final as soon as no vote that is still out can change it. Denied means
// that a quorum of nodes was there to answer and the votes did not go to us.
func decideAcquire(t tally) verdict {
	need, out := quorum(t.nodes), t.outstanding()
	answered := t.granted + t.refused
	switch {
	case t.granted >= need:
		return won
	case t.granted+out >= need:
		return pending
	case answered >= need:
		return denied
	case answered+out >= need:
		return pending // lost already; which way, the next votes tell
	default:
		return noQuorum
	}
}

// decideHeld is the verdict on a question about a lock that is held (extend, verify, release): it takes a quorum to say yes and
// a quorum to say no. What lies between says nothing about the lock.
func decideHeld(t tally) verdict {
	need, out := quorum(t.nodes), t.outstanding()
	switch {
	case t.granted >= need:
		return won
	case t.refused >= need:
		return denied
	case t.granted+out >= need, t.refused+out >= need:
		return pending
	default:
		return noQuorum
	}
}

// decideRelease is the verdict on a release. It is won when a quorum deleted the lock; and, when all have answered or failed, also when a quorum
// does not have it, as long as it may have been held to the end: a node that never granted it is as free as one that deleted it. It is denied
// when so many nodes no longer had it that no quorum can have held it.
func decideRelease(t tally) verdict {
	need := quorum(t.nodes)
	switch gone := t.refused - t.absent; {
	case t.granted >= need:
		return won
	case gone > t.expected-need:
		return denied
	case t.outstanding() > 0:
		return pending
	case t.granted+t.absent >= need:
		return won
	default:
		return noQuorum
	}
}
