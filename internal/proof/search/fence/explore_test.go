package fence

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/search"
)

// The kinds of steps that a search must reach: basic always, and the others with their option.
var (
	basic = []Kind{
		Begun, Acquired, AcquiredAgain, AcquiredLate, Raised, RaiseRefused, WonFirst, WonSecond, SecondBegun, GaveUp,
		SecondFailed, Deleted, ExpiredPresent, ExpiredOver,
	}
	whenWaiting = []Kind{
		BegunWaiting, Piloted, PilotedAgain, Confirmed, Joined, JoinedAfterGrant, HandedOver, HandedPastDead,
		DeletedPastDead, ListExpired,
	}
	whenAdopting = []Kind{BegunAdopting, AdoptedOver, AdoptedPresent}
)

// searches are worlds in which no claim may break.
var searches = []struct {
	name   string
	size   search.Size
	config Config
	states int // at least
}{
	{
		"3 nodes, 2 clients, everything", search.Always,
		Config{Nodes: 3, Clients: 2, MaxFence: 2, MaxTimestamp: 2, Waiting: true, Adopting: true, LateRaises: true},
		200_000,
	},
	{
		"3 nodes, 2 clients that adopt", search.Large,
		Config{Nodes: 3, Clients: 2, MaxFence: 3, MaxTimestamp: 3, Adopting: true, LateRaises: true},
		300_000,
	},
	{
		"2 nodes, 2 clients, everything", search.Always,
		Config{Nodes: 2, Clients: 2, MaxFence: 3, MaxTimestamp: 3, Waiting: true, Adopting: true},
		90_000,
	},
	{
		"3 nodes, 2 clients that wait", search.Soak,
		Config{Nodes: 3, Clients: 2, MaxFence: 3, MaxTimestamp: 3, Waiting: true},
		8_000_000,
	},
	{
		"3 nodes, 3 clients that wait", search.Soak,
		Config{Nodes: 3, Clients: 3, MaxFence: 2, MaxTimestamp: 2, Waiting: true},
		2_500_000,
	},
	{
		"5 nodes, 2 clients that wait", search.Soak,
		Config{Nodes: 5, Clients: 2, MaxFence: 2, MaxTimestamp: 2, Waiting: true},
		14_000_000,
	},
	{
		"5 nodes, 2 clients that adopt", search.Soak,
		Config{Nodes: 5, Clients: 2, MaxFence: 2, MaxTimestamp: 2, Adopting: true, LateRaises: true},
		250_000,
	},
	{
		"3 nodes, 3 clients", search.Soak,
		Config{Nodes: 3, Clients: 3, MaxFence: 3, MaxTimestamp: 3},
		1_200_000,
	},
}

func TestTokensAreUniqueAndInOrderWhateverHappens(t *testing.T) {
	for _, test := range searches {
		t.Run(test.name, func(t *testing.T) {
			test.size.Skip(t)
			report := Explore(test.config, Rules{})
			t.Log(report)
			require.False(t, report.Broken, "a claim does not hold")
			assert.GreaterOrEqual(t, report.States, test.states)
			kinds := basic
			if test.config.Waiting {
				kinds = append(kinds[:len(kinds):len(kinds)], whenWaiting...)
			}
			if test.config.Adopting {
				kinds = append(kinds[:len(kinds):len(kinds)], whenAdopting...)
			}
			for _, kind := range kinds {
				assert.Positive(t, report.Count[kind], "never: %v", kind)
			}
		})
	}
}

// The result of a search must not depend on the order of clients and nodes, or on what a code
// leaves out.
func TestCodesKeepAllThatMatters(t *testing.T) {
	x := newExplorer(Config{Nodes: 3, Clients: 3, MaxFence: 2, MaxTimestamp: 2, Waiting: true, Adopting: true}, Rules{})
	w := x.Start()
	for range 2_000 {
		steps := 0
		x.Each(&w, func(*world, event) { steps++ })
		code := x.Encode(&w)
		again := x.Decode(code)
		require.Equal(t, code, x.Encode(&again), "%+v", w)
		stepsAgain := 0
		codes := map[labelled]int{}
		x.Each(&w, func(next *world, e event) { codes[labelled{x.Encode(next), e.kind}]++ })
		x.Each(&again, func(next *world, e event) {
			stepsAgain++
			codes[labelled{x.Encode(next), e.kind}]--
		})
		require.Equal(t, steps, stepsAgain, "%+v", w)
		for c, n := range codes {
			require.Zero(t, n, "%v leads elsewhere from %+v", c.kind, w)
		}
		pick, n := int(code[0]%uint64(steps)), 0
		at := w
		x.Each(&at, func(next *world, _ event) {
			if n == pick {
				w = *next
			}
			n++
		})
	}
}

// labelled is a step as a code shows it.
type labelled struct {
	code
	kind Kind
}
