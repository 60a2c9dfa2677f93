package quorum

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestQuorumOverlapsWithEveryOther(t *testing.T) {
	for nodes := 1; nodes <= MaxNodes; nodes++ {
		q := Need(nodes)
		assert.Greater(t, 2*q, nodes, "two quorums of %d nodes must share a node", nodes)
		assert.LessOrEqual(t, 2*(q-1), nodes, "a quorum of %d nodes is no larger than it must be", nodes)
	}
}

// The references below know nothing of early decisions: they play every way in which the
// outstanding votes can still come in, judge the complete votes, and say Pending unless all ways
// lead to the same verdict.

func TestDecideAcquireIsFinalExactlyWhenNothingCanChangeIt(t *testing.T) {
	compareWithReference(t, DecideAcquire, func(votes Tally) Verdict {
		switch {
		case 2*votes.Granted > votes.Nodes:
			return Won
		case 2*(votes.Granted+votes.Refused) > votes.Nodes:
			return Denied
		default:
			return NoQuorum
		}
	})
}

func TestDecideHeldIsFinalExactlyWhenNothingCanChangeIt(t *testing.T) {
	compareWithReference(t, DecideHeld, func(votes Tally) Verdict {
		switch {
		case 2*votes.Granted > votes.Nodes:
			return Won
		case 2*votes.Refused > votes.Nodes:
			return Denied
		default:
			return NoQuorum
		}
	})
}

func compareWithReference(t *testing.T, rule func(Tally) Verdict, atTheEnd func(Tally) Verdict) {
	t.Helper()
	for nodes := 1; nodes <= 9; nodes++ {
		for granted := 0; granted <= nodes; granted++ {
			for refused := 0; granted+refused <= nodes; refused++ {
				for failed := 0; granted+refused+failed <= nodes; failed++ {
					votes := Tally{Nodes: nodes, Granted: granted, Refused: refused, Failed: failed}
					want := reference(votes, atTheEnd)
					assert.Equal(t, want, rule(votes), "%+v", votes)
				}
			}
		}
	}
}

func reference(votes Tally, atTheEnd func(Tally) Verdict) Verdict {
	if votes.Outstanding() == 0 {
		return atTheEnd(votes)
	}
	var all []Verdict
	for _, next := range []Tally{
		{Nodes: votes.Nodes, Granted: votes.Granted + 1, Refused: votes.Refused, Failed: votes.Failed},
		{Nodes: votes.Nodes, Granted: votes.Granted, Refused: votes.Refused + 1, Failed: votes.Failed},
		{Nodes: votes.Nodes, Granted: votes.Granted, Refused: votes.Refused, Failed: votes.Failed + 1},
	} {
		all = append(all, reference(next, atTheEnd))
	}
	if all[0] == all[1] && all[1] == all[2] {
		return all[0]
	}
	return Pending
}
