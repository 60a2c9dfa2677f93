package fence

// Quorum is the smallest number of nodes for which any two sets have a node in common. It counts
// all configured nodes: a majority of those that granted, or half of an even number, can miss
// another such set.
func Quorum(nodes int) int { return nodes/2 + 1 }

// An Answer is what one node said to one attempt.
type Answer uint8

// What a node may answer.
const (
	Unanswered Answer = iota // nothing yet
	Refused                  // it did not grant, did not raise, or failed
	Granted                  // it granted, or raised
)

// A Vote is the latest answer of one node that counts for this very attempt. An answer to an
// earlier attempt, even under the same value, may be older than another client's token.
type Vote struct {
	Answer Answer
	Fence  int64 // that the node granted, or was raised to
}

// A Verdict is what votes amount to.
type Verdict uint8

// What votes may amount to.
const (
	Pending Verdict = iota // too few votes so far
	Won                    // a quorum of nodes confirmed the token
	Uneven                 // a quorum granted, but not the same number: a second round is needed
	Lost                   // no votes that are still out can help
)

// A Decision is a verdict and what follows.
type Decision struct {
	Verdict Verdict
	Token   int64 // if Won, the token; if Uneven, what to raise those to that granted less
}

// First decides on the votes of the first round, one for each configured node. It says Uneven as
// soon as a quorum has granted; a caller may instead wait for more votes, which might agree.
//
// If Uneven, it says the largest fence. A caller may raise to any other fence that was granted:
// which number a quorum confirms does not matter (the searches try all). The nodes that are ahead
// cannot reach a fence that is behind, and the others do not follow one that is far ahead.
func First(votes []Vote) Decision {
	need := Quorum(len(votes))
	var target int64
	for _, v := range votes {
		if v.Answer != Granted {
			continue
		}
		if count(votes, v.Fence).at >= need {
			return Decision{Verdict: Won, Token: v.Fence}
		}
		target = max(target, v.Fence)
	}
	switch all := count(votes, target); {
	case all.at+all.below >= need:
		return Decision{Verdict: Uneven, Token: target}
	case all.at+all.below+all.unanswered >= need:
		return Decision{Verdict: Pending}
	default:
		return Decision{Verdict: Lost}
	}
}

// Second decides on the second round. A node that raised has the vote {Granted, target}. One that
// refused to has a vote that is Refused. One that was not asked, or has not answered, has its
// earlier vote. Nodes that granted the target itself are not asked. A late grant above the target
// does not count for it.
func Second(votes []Vote, target int64) Decision {
	all, need := count(votes, target), Quorum(len(votes))
	switch {
	case all.at >= need:
		return Decision{Verdict: Won, Token: target}
	case all.at+all.below+all.unanswered >= need:
		return Decision{Verdict: Pending}
	default:
		return Decision{Verdict: Lost}
	}
}

// A tally is how many nodes granted a target, less, more, or have not answered.
type tally struct{ at, below, above, unanswered int }

func count(votes []Vote, target int64) (all tally) {
	for _, v := range votes {
		switch {
		case v.Answer == Unanswered:
			all.unanswered++
		case v.Answer == Refused:
		case v.Fence == target:
			all.at++
		case v.Fence < target:
			all.below++
		default:
			all.above++
		}
	}
	return all
}
