package fence

// Quorum is the smallest number of nodes for which any two sets have a node in common. It counts
// all configured nodes: a majority of those that granted, or half of an even number, can miss
// another such set.
func Quorum(nodes int) int { return nodes/2 + 1 }

// A Decision is what the votes of a round allow: a token, or a second round.
type Decision struct {
	Token  int64 // that a quorum of nodes confirmed; 0 for none
	Uneven bool  // a quorum granted, but not the same number
}

// First decides on the votes of the first round, one for each configured node: the number that it
// granted to this very attempt, or 0. (A grant of an earlier attempt, even under the same value,
// may be older than another client's token.)
//
// If they are uneven, a caller may wait for more votes, which might agree, or raise the other nodes
// to any number that was granted: which one a quorum confirms does not matter (the searches try
// all). The nodes that are ahead cannot reach a number that is behind, and the others do not follow
// one that is far ahead.
func First(votes []int64) Decision {
	granted := 0
	for _, v := range votes {
		if v > 0 && count(votes, v) >= Quorum(len(votes)) {
			return Decision{Token: v}
		}
		if v > 0 {
			granted++
		}
	}
	return Decision{Uneven: granted >= Quorum(len(votes))}
}

// Second decides on the second round. A node that raised has the target for its vote, as one that
// had granted it; any other vote is the earlier one, or 0.
func Second(votes []int64, target int64) (d Decision) {
	if count(votes, target) >= Quorum(len(votes)) {
		d.Token = target
	}
	return d
}

// count returns how many nodes confirmed a number.
func count(votes []int64, number int64) (nodes int) {
	for _, v := range votes {
		if v == number {
			nodes++
		}
	}
	return nodes
}
