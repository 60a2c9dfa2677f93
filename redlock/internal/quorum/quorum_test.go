package quorum

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
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

var anyNodeSet = rapid.Custom(func(t *rapid.T) NodeSet { return NodeSet(rapid.Uint64().Draw(t, "set")) })

func TestANodeSetIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyNodeSet.Draw(t, "a"), anyNodeSet.Draw(t, "b")
		var nodes []int
		for node := range MaxNodes {
			inA, inB := a.Has(node), b.Has(node)
			assert.Equal(t, inA || inB, a.Or(b).Has(node))
			assert.Equal(t, inA && inB, a.And(b).Has(node))
			assert.Equal(t, inA && !inB, a.Minus(b).Has(node))
			assert.True(t, Only(node).Has(node))
			if inA {
				nodes = append(nodes, node)
			}
			changed := a
			changed.Add(node)
			assert.Equal(t, a.Or(Only(node)), changed)
			changed.Remove(node)
			assert.Equal(t, a.Minus(Only(node)), changed)
		}
		assert.Equal(t, nodes, slices.Collect(a.Nodes()), "in ascending order")
		assert.Equal(t, len(nodes), a.Len())
		assert.Equal(t, len(nodes) == 0, a.Empty())
	})
}

func TestAllIsTheFirstNodes(t *testing.T) {
	for n := 1; n <= MaxNodes; n++ {
		assert.Equal(t, n, All(n).Len())
		assert.True(t, All(n).Has(n-1))
	}
	for first := range All(5).Nodes() {
		assert.Zero(t, first, "a loop may end early")
		break
	}
}

// The reference counts node by node.
func TestABallotCountsTheVotesOfVotingNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 9).Draw(t, "nodes")
		voting, expected := anyNodeSet.Draw(t, "voting").And(All(nodes)), anyNodeSet.Draw(t, "expected").And(All(nodes))
		want := Tally{Nodes: nodes, Expected: expected.Len()}
		var ballot Ballot
		var in NodeSet
		for node := range nodes {
			if rapid.Bool().Draw(t, "outstanding") {
				continue
			}
			v := rapid.SampledFrom([]Vote{Granted, Handed, Spared, Refused, Failed}).Draw(t, "vote")
			ballot.Add(node, v)
			in.Add(node)
			switch {
			case v == Failed || !voting.Has(node):
				want.Failed++
			case v == Refused:
				want.Refused++
				if !expected.Has(node) {
					want.Absent++
				}
			default:
				want.Granted++
			}
		}
		assert.Equal(t, in, ballot.In())
		assert.Equal(t, want, ballot.CountRelease(nodes, All(nodes), voting, expected))
		assert.Equal(t, nodes-in.Len(), want.Outstanding())
		want.Expected, want.Absent = 0, 0
		assert.Equal(t, want, ballot.Count(nodes, All(nodes), voting))
	})
}

func TestDecideRelease(t *testing.T) {
	for name, test := range map[string]struct {
		votes Tally
		want  Verdict
	}{
		"a quorum deleted it":                                     {Tally{Nodes: 3, Granted: 2, Expected: 3}, Won},
		"the last vote decides":                                   {Tally{Nodes: 3, Granted: 1, Refused: 1, Expected: 3}, Pending},
		"a quorum does not have it, and one never had":            {Tally{Nodes: 3, Granted: 1, Refused: 1, Failed: 1, Expected: 2, Absent: 1}, Won},
		"one had it, and no other that answered":                  {Tally{Nodes: 3, Granted: 1, Failed: 2, Expected: 3}, NoQuorum},
		"a quorum no longer had it":                               {Tally{Nodes: 3, Refused: 2, Expected: 3}, Denied},
		"so many no longer had it that no quorum can":             {Tally{Nodes: 4, Granted: 2, Refused: 2, Expected: 4}, Denied},
		"a member was added since, and a quorum no longer had it": {Tally{Nodes: 4, Granted: 1, Refused: 2, Expected: 3, Absent: 1}, Denied},
		"one was removed since, and a quorum no longer had it":    {Tally{Nodes: 3, Granted: 1, Refused: 2, Expected: 4}, Denied},
		"one was removed since, with which a quorum had it":       {Tally{Nodes: 4, Granted: 2, Refused: 2, Expected: 5}, NoQuorum},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.want, DecideRelease(test.votes)) })
	}
}

func TestDecideToken(t *testing.T) {
	const second = int64(1_000_000)
	const far = 3600 * second
	for name, test := range map[string]struct {
		fences    []int64
		granted   NodeSet
		token     int64
		at, below NodeSet
	}{
		"all the same":                                       {[]int64{7, 7, 7}, 0b111, 7, 0b111, 0},
		"a quorum the same":                                  {[]int64{7, 0, 7}, 0b101, 7, 0b101, 0},
		"one behind, a quorum at the largest":                {[]int64{7, 5, 7}, 0b111, 7, 0b101, 0},
		"one ahead, a quorum at another":                     {[]int64{9, 7, 7}, 0b111, 7, 0b110, 0},
		"one ahead, and no quorum without it":                {[]int64{7, 9, 0}, 0b011, 9, 0b010, 0b001},
		"all different":                                      {[]int64{3, 2, 1}, 0b111, 3, 0b001, 0b110},
		"what did not grant has no say":                      {[]int64{7, 9, 7}, 0b101, 7, 0b101, 0},
		"a majority of the granting nodes is not one of all": {[]int64{7, 7, 5, 0, 0}, 0b00111, 7, 0b00011, 0b00100},
		"half of an even number is not enough":               {[]int64{7, 7, 5, 5}, 0b1111, 7, 0b0011, 0b1100},
		"one node":                                           {[]int64{7}, 1, 7, 1, 0},
		"one far ahead, and a quorum behind it":              {[]int64{far, 5, 7}, 0b111, 7, 0b100, 0b010},
		"one far ahead, and no quorum without it":            {[]int64{far, 7, 7, 0, 0}, 0b00111, 0, 0, 0},
		"one far behind":                                     {[]int64{7, far, far + 1}, 0b111, far + 1, 0b100, 0b011},
		"one far behind, and no quorum without it":           {[]int64{7, far, 0}, 0b011, 0, 0, 0},
		"a quorum far ahead":                                 {[]int64{far, far, 7}, 0b111, far, 0b011, 0},
		"as far as a node surely follows":                    {[]int64{1 + 10*second, 1, 0}, 0b011, 1 + 10*second, 0b001, 0b010},
		"further":                                            {[]int64{2 + 10*second, 1, 0}, 0b011, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			token, at, below := DecideToken(test.fences, test.granted, Need(len(test.fences)), RaiseReach)
			assert.Equal(t, test.token, token)
			assert.Equal(t, test.at, at)
			assert.Equal(t, test.below, below)
		})
	}
}

// The reference is what internal/proof/search/shared searches: a quorum granted the token at most,
// and a quorum is at it or above once those below are raised.
func TestAReadersTokenIsTheSmallestThatAQuorumGrantedAtMost(t *testing.T) {
	const most = 4
	for nodes := 1; nodes <= 5; nodes++ {
		fences := make([]int64, nodes)
		var try func(node int, granted NodeSet)
		try = func(node int, granted NodeSet) {
			if node < nodes {
				for fences[node] = range int64(most) { // 0: it did not grant
					next := granted
					if fences[node] > 0 {
						next.Add(node)
					}
					try(node+1, next)
				}
				return
			}
			token, at, below := DecideReadToken(fences, granted, Need(nodes))
			notAbove := func(t int64) (n int) {
				for i := range granted.Nodes() {
					if fences[i] <= t {
						n++
					}
				}
				return n
			}
			if granted.Len() < Need(nodes) {
				assert.Zero(t, token)
				assert.Zero(t, at|below)
				return
			}
			assert.GreaterOrEqual(t, notAbove(token), Need(nodes), "%v", fences)
			assert.Less(t, notAbove(token-1), Need(nodes), "%v: not the smallest", fences)
			for i := range at.Nodes() {
				assert.True(t, granted.Has(i) && fences[i] >= token, "%v", fences)
			}
			for i := range below.Nodes() {
				assert.True(t, granted.Has(i) && fences[i] < token, "%v", fences)
			}
			assert.GreaterOrEqual(t, at.Or(below).Len(), Need(nodes), "%v", fences)
			assert.Equal(t, at.Len() < Need(nodes), !below.Empty(), "%v: no raise that is not needed", fences)
		}
		try(0, 0)
	}
}
