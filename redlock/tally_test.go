package redlock

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestQuorumOverlapsWithEveryOther(t *testing.T) {
	for nodes := 1; nodes <= maxNodes; nodes++ {
		q := quorum(nodes)
		assert.Greater(t, 2*q, nodes, "two quorums of %d nodes must share a node", nodes)
		assert.LessOrEqual(t, 2*(q-1), nodes, "a quorum of %d nodes is no larger than it must be", nodes)
	}
}

// The twins below know nothing of early decisions: they play every way in which the outstanding votes can still come in, look at
// the complete votes, and say pending unless all ways lead to the same verdict.

func TestDecideAcquireIsFinalExactlyWhenNothingCanChangeIt(t *testing.T) {
	compareWithTwin(t, decideAcquire, func(votes tally) verdict {
		switch {
		case 2*votes.granted > votes.nodes:
			return won
		case 2*(votes.granted+votes.refused) > votes.nodes:
			return denied
		default:
			return noQuorum
		}
	})
}

func TestDecideHeldIsFinalExactlyWhenNothingCanChangeIt(t *testing.T) {
	compareWithTwin(t, decideHeld, func(votes tally) verdict {
		switch {
		case 2*votes.granted > votes.nodes:
			return won
		case 2*votes.refused > votes.nodes:
			return denied
		default:
			return noQuorum
		}
	})
}

func compareWithTwin(t *testing.T, rule func(tally) verdict, atTheEnd func(tally) verdict) {
	t.Helper()
	for nodes := 1; nodes <= 9; nodes++ {
		for granted := 0; granted <= nodes; granted++ {
			for refused := 0; granted+refused <= nodes; refused++ {
				for failed := 0; granted+refused+failed <= nodes; failed++ {
					votes := tally{nodes: nodes, granted: granted, refused: refused, failed: failed}
					want := twin(votes, atTheEnd)
					assert.Equal(t, want, rule(votes), "%+v", votes)
				}
			}
		}
	}
}

func twin(votes tally, atTheEnd func(tally) verdict) verdict {
	if votes.outstanding() == 0 {
		return atTheEnd(votes)
	}
	var all []verdict
	for _, next := range []tally{
		{nodes: votes.nodes, granted: votes.granted + 1, refused: votes.refused, failed: votes.failed},
		{nodes: votes.nodes, granted: votes.granted, refused: votes.refused + 1, failed: votes.failed},
		{nodes: votes.nodes, granted: votes.granted, refused: votes.refused, failed: votes.failed + 1},
	} {
		all = append(all, twin(next, atTheEnd))
	}
	if all[0] == all[1] && all[1] == all[2] {
		return all[0]
	}
	return pending
}

func TestStateMovesAlongItsEdgesOnly(t *testing.T) {
	states := []state{held, released, lost}
	allowed := map[[2]state]bool{{held, released}: true, {held, lost}: true}
	for _, from := range states {
		for _, to := range states {
			t.Run(fmt.Sprintf("%v to %v", from, to), func(t *testing.T) {
				s := from
				if allowed[[2]state{from, to}] {
					s.move(to)
					assert.Equal(t, to, s)
					return
				}
				assert.Panics(t, func() { s.move(to) })
				assert.Equal(t, from, s)
			})
		}
	}
}
