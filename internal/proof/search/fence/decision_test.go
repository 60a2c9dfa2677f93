package fence

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// votes reads a row: 0 is unanswered, -1 refused, and anything else a grant.
func votes(fences ...int64) (row []Vote) {
	for _, f := range fences {
		switch {
		case f > 0:
			row = append(row, Vote{Granted, f})
		case f < 0:
			row = append(row, Vote{Answer: Refused})
		default:
			row = append(row, Vote{})
		}
	}
	return row
}

func TestFirstRoundIsDecidedByTheVotesOfAQuorum(t *testing.T) {
	for _, test := range []struct {
		votes []Vote
		want  Decision
	}{
		{votes(0, 0, 0), Decision{Verdict: Pending}},
		{votes(7, -1, 0), Decision{Verdict: Pending}},
		{votes(-1, -1, 0), Decision{Verdict: Lost}},
		{votes(7, -1, 7), Decision{Verdict: Won, Token: 7}},
		{votes(7, 6, 7), Decision{Verdict: Won, Token: 7}},
		{votes(7, 8, 7), Decision{Verdict: Won, Token: 7}},
		{votes(7, 8, 6), Decision{Verdict: Uneven, Token: 8}},
		{votes(7, 8, 0), Decision{Verdict: Uneven, Token: 8}},
		{votes(7, 7, 0, 0), Decision{Verdict: Pending}},
		{votes(7, 7, 7, -1), Decision{Verdict: Won, Token: 7}},
		{votes(7, 7, -1, -1), Decision{Verdict: Lost}},
		{votes(7, 7, 8, -1, -1), Decision{Verdict: Uneven, Token: 8}},
		{votes(4), Decision{Verdict: Won, Token: 4}},
	} {
		assert.Equal(t, test.want, First(test.votes), "%v", test.votes)
	}
}

func TestSecondRoundIsWonByAQuorumAtTheTarget(t *testing.T) {
	for _, test := range []struct {
		votes []Vote
		want  Decision
	}{
		{votes(7, 8, 0), Decision{Verdict: Pending}},
		{votes(8, 8, 0), Decision{Verdict: Won, Token: 8}},
		{votes(-1, 8, 0), Decision{Verdict: Pending}},
		{votes(-1, 8, 9), Decision{Verdict: Lost}},
		{votes(-1, 8, -1), Decision{Verdict: Lost}},
		{votes(8, 8, -1, 7, 9), Decision{Verdict: Pending}},
		{votes(8, 8, -1, 8, 9), Decision{Verdict: Won, Token: 8}},
	} {
		assert.Equal(t, test.want, Second(test.votes, 8), "%v", test.votes)
	}
}
