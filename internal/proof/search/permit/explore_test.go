package permit

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/search"
)

// The kinds of steps that a search must reach: basic always, and the others with their option.
var (
	basic       = []Kind{Takes, TakesUnseen, TakesSlot, TakesSlotUnseen, IsRefused, Holds, Ends, Expires}
	whenWaiting = []Kind{Joins, HandsOver}
	whenRenewed = []Kind{Extends, Heals, Renews}
)

// searches are worlds in which there are never too many holders.
var searches = []struct {
	name   string
	size   search.Size
	config Config
	states int // at least
}{
	{
		"two numbers of permits", search.Always,
		Config{Permits: []int{1, 1, 2}},
		3_000,
	},
	{
		"one permit, and waiters", search.Always,
		Config{Permits: []int{1, 1, 1}, Waiting: true, Strays: true},
		20_000,
	},
	{
		"two permits, or any of two names", search.Large,
		Config{Permits: []int{2, 2, 2}},
		19_000,
	},
	{
		"one permit, and everything but losses", search.Large,
		Config{Permits: []int{1, 1, 1}, Waiting: true, Renew: true, Strays: true},
		25_000,
	},
	{
		"two permits, extended", search.Large,
		Config{Permits: []int{2, 2, 2}, Renew: true},
		27_000,
	},
	{
		"two permits, everything but losses", search.Large,
		Config{Permits: []int{2, 2}, Waiting: true, Renew: true, Strays: true},
		60_000,
	},
	{
		"two numbers of permits, and a node that forgets", search.Large,
		Config{Permits: []int{1, 2}, Renew: true, Losses: 1},
		26_000,
	},
	{
		"two permits, and what attempts leave behind", search.Large,
		Config{Permits: []int{2, 2}, Leftovers: true},
		9_000,
	},
	{
		"two permits, and waiters", search.Soak,
		Config{Permits: []int{2, 2, 2}, Waiting: true},
		400_000,
	},
	{
		"two permits, and two nodes that forget", search.Soak,
		Config{Permits: []int{2, 2}, Renew: true, Losses: 2},
		250_000,
	},
	{
		"two numbers of permits, and two nodes that forget", search.Large,
		Config{Permits: []int{1, 2}, Renew: true, Losses: 2},
		180_000,
	},
	{
		"two numbers of permits, extended, and waiters", search.Soak,
		Config{Permits: []int{1, 1, 2}, Waiting: true, Renew: true},
		180_000,
	},
	{
		"two numbers of permits, everything", search.Soak,
		Config{Permits: []int{1, 2}, Waiting: true, Renew: true, Losses: 1, Strays: true},
		400_000,
	},
}

func TestThereAreNeverTooManyHolders(t *testing.T) {
	for _, test := range searches {
		t.Run(test.name, func(t *testing.T) {
			test.size.Skip(t)
			report := Explore(test.config, Rules{})
			t.Log(report)
			require.False(t, report.Broken, "too many hold a permit")
			assert.GreaterOrEqual(t, report.States, test.states)
			kinds := append([]Kind(nil), basic...)
			if test.config.Waiting {
				kinds = append(kinds, whenWaiting...)
			}
			if test.config.Renew {
				kinds = append(kinds, whenRenewed...)
			}
			if test.config.Losses > 0 {
				kinds = append(kinds, Loses)
			}
			if test.config.Leftovers {
				kinds = append(kinds, LateTake)
			}
			if test.config.Permits[0] != permits && test.config.Permits[len(test.config.Permits)-1] == permits {
				kinds = append(kinds, HearsOther)
			}
			for _, kind := range kinds {
				assert.Positive(t, report.Count[kind], "never: %v", kind)
			}
		})
	}
}

// Two of three nodes are a quorum, so three clients that reach different pairs of them could hold
// two permits of which each node counts two. They hold two slots.
func TestThreeClientsWithDifferentPairsOfNodesHoldTwoPermits(t *testing.T) {
	var entries [nodes]Entry[string]
	pairs := map[string][2]int{"A": {0, 1}, "B": {0, 2}, "C": {1, 2}}
	votes := map[string]map[int]int{}
	for _, v := range []string{"A", "B", "C"} {
		votes[v] = map[int]int{}
		for _, n := range pairs[v] {
			if a := entries[n].Take(v, 2, 1); a.Slot != 0 {
				votes[v][a.Slot]++
			}
		}
	}
	holders := 0
	for _, of := range votes {
		if of[1] >= quorum || of[2] >= quorum {
			holders++
		}
	}
	assert.LessOrEqual(t, holders, 2)
	assert.Positive(t, holders)
}

// The result of a search must not depend on the order of clients, nodes and slots.
func TestCodesKeepAllThatMatters(t *testing.T) {
	for _, config := range []Config{
		{Permits: []int{2, 2, 2}, Waiting: true, Renew: true, Losses: 2, Strays: true, Leftovers: true},
		{Permits: []int{1, 1, 2}, Waiting: true, Renew: true, Losses: 1, Strays: true},
	} {
		x := newExplorer(config, Rules{})
		w := x.Start()
		rounds := 3_000
		if search.Race {
			rounds = 200
		}
		for range rounds {
			k := x.Encode(&w)
			again := x.Decode(k)
			require.Equal(t, k, x.Encode(&again), "%+v", w)
			codes := map[labelled]int{}
			steps := 0
			x.Each(&w, func(next *world, e event) { steps++; codes[labelled{x.Encode(next), e.kind}]++ })
			x.Each(&again, func(next *world, e event) { codes[labelled{x.Encode(next), e.kind}]-- })
			for to, n := range codes {
				require.Zero(t, n, "%v leads elsewhere from %+v", to.kind, w)
			}
			pick, n := int(mix(k[0]^k[1]^k[2])%uint64(steps)), 0
			at := w
			x.Each(&at, func(next *world, _ event) {
				if n == pick {
					w = *next
				}
				n++
			})
		}
	}
}

// labelled is a step as a code shows it.
type labelled struct {
	code
	kind Kind
}
