package quorum

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

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
			v := rapid.SampledFrom([]Vote{Granted, Handed, Spared, Refused, Healed, Failed}).Draw(t, "vote")
			ballot.Add(node, v)
			in.Add(node)
			switch {
			case v == Failed || !voting.Has(node):
				want.Failed++
			case v == Refused || v == Healed:
				want.Refused++
				if !expected.Has(node) {
					want.Absent++
				}
			default:
				want.Granted++
			}
		}
		assert.Equal(t, in, ballot.In())
		assert.Equal(t, want, ballot.CountRelease(nodes, voting, expected))
		assert.Equal(t, nodes-in.Len(), want.Outstanding())
		want.Expected, want.Absent = 0, 0
		assert.Equal(t, want, ballot.Count(nodes, voting))
	})
}
