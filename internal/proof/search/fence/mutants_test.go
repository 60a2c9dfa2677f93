package fence

import (
	"testing"

	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// raiseIf is a raise with some of its comparisons left out or changed.
func raiseIf(ok func(e *Entry[Value], v Value, t int64) bool) func(Entries[Value], Value, int64) bool {
	return func(s Entries[Value], v Value, t int64) bool {
		if !ok(s[0], v, t) {
			return false
		}
		s[0].Fence = t
		return true
	}
}

func mine(e *Entry[Value], v Value) bool { return e.Value == v }

var (
	raiseLax       = raiseIf(func(e *Entry[Value], v Value, t int64) bool { return mine(e, v) && e.Fence <= t })
	raiseAnyones   = raiseIf(func(e *Entry[Value], _ Value, t int64) bool { return e.Fence < t })
	raiseAnyonesTo = raiseIf(func(e *Entry[Value], _ Value, t int64) bool { return e.Fence <= t })
	raiseAnywhere  = raiseIf(func(e *Entry[Value], v Value, _ int64) bool { return mine(e, v) })
	raiseAlways    = raiseIf(func(*Entry[Value], Value, int64) bool { return true })
)

// quorumOfGranting accepts a majority of the nodes that granted, once a quorum of all nodes did.
func quorumOfGranting(votes []Vote, d Decision, target int64) Decision {
	granted, _, at := count(votes, target)
	if granted >= Quorum(len(votes)) && at >= Quorum(granted) {
		return Decision{Verdict: Won, Token: target}
	}
	return d
}

func maximum(votes []Vote) (target int64) {
	for _, v := range votes {
		target = max(target, v.Fence)
	}
	return target
}

func firstOfGranting(votes []Vote) Decision {
	return quorumOfGranting(votes, First(votes), maximum(votes))
}

func secondOfGranting(votes []Vote, target int64) Decision {
	return quorumOfGranting(votes, Second(votes, target), target)
}

// withoutSecondRound takes the largest of a quorum of grants as the token.
func withoutSecondRound(votes []Vote) Decision {
	d := First(votes)
	if d.Verdict == Uneven {
		d.Verdict = Won
	}
	return d
}

// firstOfHalf is content with half of an even number of nodes.
func firstOfHalf(votes []Vote) Decision {
	if _, _, at := count(votes, maximum(votes)); at > 0 && at >= len(votes)/2 {
		return Decision{Verdict: Won, Token: maximum(votes)}
	}
	return First(votes)
}

var (
	plain        = Config{Nodes: 3, Clients: 2, MaxFence: 3, MaxTimestamp: 3}
	noTimestamps = Config{Nodes: 3, Clients: 2, MaxFence: 3}
	waiting      = Config{Nodes: 3, Clients: 2, MaxFence: 2, MaxTimestamp: 2, Waiting: true}
	adopting     = Config{Nodes: 3, Clients: 2, MaxFence: 3, MaxTimestamp: 3, Adopting: true}
	two          = Config{Nodes: 2, Clients: 2, MaxFence: 3, MaxTimestamp: 3}
	four         = Config{Nodes: 4, Clients: 2, MaxFence: 2, MaxTimestamp: 2}
)

// mistakes are rules that break a claim.
var mistakes = []struct {
	name   string
	config Config
	rules  Rules
	broken claim
}{
	{"raise anything", plain, Rules{Raise: raiseAlways}, unique},
	{"raise anyone's key, to a fence that is there already", plain, Rules{Raise: raiseAnyonesTo}, unique},
	{"raise from any fence", plain, Rules{Raise: raiseAnywhere}, unique},
	{"raise to a fence that is there already", waiting, Rules{Raise: raiseLax}, unique},
	{"first round: a majority of those that granted", four, Rules{First: firstOfGranting}, unique},
	{"second round: a majority of those that granted", four, Rules{Second: secondOfGranting}, unique},
	{"no second round", plain, Rules{First: withoutSecondRound}, unique},
	{"no second round, order", plain, Rules{First: withoutSecondRound, OnlyOrder: true}, ordered},
	{"half of two nodes", two, Rules{First: firstOfHalf}, unique},
	{"half of four nodes", four, Rules{First: firstOfHalf}, unique},
	{"lost counters and no timestamps", noTimestamps, Rules{LoseCounters: true}, unique},
	{"lost counters and no timestamps, order", noTimestamps, Rules{LoseCounters: true, OnlyOrder: true}, ordered},
	{"answers to an earlier attempt", plain, Rules{KeepAnswers: true}, ordered},
	{"a vote that was handed over, as it is", waiting, Rules{TrustHandOver: true}, unique},
	{"adopt, and leave the fence as it is", adopting, Rules{TrustAdopted: true}, unique},
	{"adopt under one value, and leave the fence", adopting, Rules{AdoptInPlace: true, TrustAdopted: true}, unique},
	{"adopt under one value, and raise to a fence that is there already", adopting, Rules{AdoptInPlace: true, Raise: raiseLax}, unique},
}

func TestEveryKnownMistakeIsFound(t *testing.T) {
	for _, test := range mistakes {
		t.Run(test.name, func(t *testing.T) {
			report := Explore(test.config, test.rules)
			require.True(t, report.Broken, "not found in %v", report)
			report.Count = nil
			t.Log(report)
			assert.Contains(t, report.Trace[len(report.Trace)-1], test.broken.String())
		})
	}
}

// The argument for the tokens does not need these. The library does not do them, for other reasons.
func TestHarmlessChangesKeepTheTokensInOrder(t *testing.T) {
	config := Config{Nodes: 3, Clients: 2, MaxFence: 2, MaxTimestamp: 2, Adopting: true, LateRaises: true}
	states := 10_000 // at least
	if search.Soaking() {
		config.MaxFence, config.MaxTimestamp, states = 3, 3, 200_000
	}
	for _, test := range []struct {
		name   string
		config Config
		rules  Rules
	}{
		{"raise anyone's key", config, Rules{Raise: raiseAnyones}},
		{"raise to a fence that is there already, without waiters", config, Rules{Raise: raiseLax}},
		{"adopt under one value", config, Rules{AdoptInPlace: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			report := Explore(test.config, test.rules)
			t.Log(report)
			assert.False(t, report.Broken)
			assert.GreaterOrEqual(t, report.States, states)
		})
	}
}
