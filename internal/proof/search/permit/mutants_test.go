package permit

import (
	"testing"

	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mistakes are rules with which there are too many holders.
var mistakes = []struct {
	name   string
	config Config
	rules  Rules
}{
	{"each node counts permits", Config{Permits: []int{2, 2, 2}}, Rules{AnySlot: true}},
	{"a release does not compare", Config{Permits: []int{1, 1}}, Rules{NoCompare: true}},
	{
		"a message is a vote",
		Config{Permits: []int{1, 1, 1}, Waiting: true},
		Rules{TrustMessage: true},
	},
	{
		"a slot is handed over twice",
		Config{Permits: []int{1, 1, 1}, Waiting: true, LongGrace: true},
		Rules{TrustMessage: true, HandTwice: true},
	},
	{
		"a hand-over is confirmed without the full TTL",
		Config{Permits: []int{1, 1, 1}, Waiting: true},
		Rules{NoRefresh: true},
	},
	{"one value asks for one slot after the other", Config{Permits: []int{2, 2}}, Rules{ManySlots: true}},
	{"one node takes any number", Config{Permits: []int{1, 2}}, Rules{LaxNode: true}},
	{"a request for one slot takes any number", Config{Permits: []int{1, 2}}, Rules{LaxSlot: true}},
	{"the number changes while others' slots are taken", Config{Permits: []int{1, 2}}, Rules{OwnSlots: true}},
	{"the number expires before the slots", Config{Permits: []int{1, 2}}, Rules{Expires: true}},
	{"an extension that heals is a vote", Config{Permits: []int{1, 2}, Renew: true}, Rules{HealVotes: true}},
	{"an extension forgets the number", Config{Permits: []int{1, 2}, Renew: true}, Rules{SlotOnly: true}},
	{"an extension does not compare the number", Config{Permits: []int{1, 2}, Renew: true}, Rules{SlotVotes: true}},
	{"a node votes although it forgot", Config{Permits: []int{1, 1}, Losses: 1}, Rules{LossVotes: true}},
}

func TestEveryKnownMistakeIsFound(t *testing.T) {
	for _, test := range mistakes {
		t.Run(test.name, func(t *testing.T) {
			report := Explore(test.config, test.rules)
			require.True(t, report.Broken, "not found in %v", report)
			report.Count = nil
			t.Log(report)
			assert.Contains(t, report.Trace[len(report.Trace)-1], brokenText)
		})
	}
}

// The argument does not need these. The library does not do them, for other reasons.
func TestHarmlessChangesMakeNoFurtherHolder(t *testing.T) {
	for _, test := range []struct {
		name   string
		config Config
		rules  Rules
	}{
		{
			"a message is a vote, if the slot lives as long as the attempt",
			Config{Permits: []int{1, 1, 1}, Waiting: true, LongGrace: true},
			Rules{TrustMessage: true},
		},
		{
			"an extension that heals is a vote, if all know the number: it is a grant like any other",
			Config{Permits: []int{1, 1}, Renew: true, Losses: 1},
			Rules{HealVotes: true},
		},
		{
			"a value gets several slots at a node",
			Config{Permits: []int{2, 2}},
			Rules{TakesTwo: true},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			search.Large.Skip(t)
			report := Explore(test.config, test.rules)
			t.Log(report)
			assert.False(t, report.Broken)
		})
	}
}
