package shared

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/search"
)

// The kinds of steps that a search must reach: basic always, and the others with their option.
var (
	basic       = []Kind{BegunReading, BegunWriting, Granted, GrantedAgain, Held, GaveUp}
	whenTimed   = []Kind{Prolonged, PutBack, Ended, LeftToOthers, Freed, Ticked}
	whenLate    = []Kind{GrantedLate, PutBackLate, LeftAsIs, MessageLost}
	whenLonger  = []Kind{ProlongedLate} // with one tick, an extension has nothing to add
	whenForeign = []Kind{BegunForeign}
	whenFaulty  = []Kind{KeyLost, NotExtended}
	whenWaiting = []Kind{
		GrantedInTurn, ServedInTurn, Confirmed, Joined, Intended, HandedToWriter, HandedToReaders, IntentExpired, ListExpired,
	}
	whenLeft     = []Kind{IntendedLate}
	whenStray    = []Kind{StrayIntent}
	whenFenced   = []Kind{WriteRaising, WriteRaised, ReadRaised}
	whenTimeless = []Kind{WriteNotRaised, ReadNotRaised}
)

func (c *Config) kinds() []Kind {
	kinds := append([]Kind(nil), basic...)
	for _, when := range []struct {
		is    bool
		kinds []Kind
	}{
		{!c.Timeless && c.Nodes > 1, whenTimed},
		{c.Late, whenLate},
		{c.Late && c.TTL > 1 && c.Nodes > 1, whenLonger},
		{c.Foreign, whenForeign},
		{c.Faults > 0, whenFaulty},
		{c.Pilots > 0 && c.Clients > 2, whenWaiting},
		{c.Pilots > 0 && c.Late, whenLeft},
		{c.Strays, whenStray},
		{c.MaxFence > 0, whenFenced},
		{c.Timeless, whenTimeless},
	} {
		if when.is {
			kinds = append(kinds, when.kinds...)
		}
	}
	return kinds
}

// searches are worlds in which no claim may break.
var searches = []struct {
	name   string
	size   search.Size
	config Config
	states int // at least
}{
	{
		"1 node, 3 clients, everything but tokens", search.Large,
		Config{Nodes: 1, Clients: 3, TTL: 2, AnyTTL: true, Writing: true, Foreign: true, Pilots: 1, Late: true, Faults: 1},
		200_000,
	},
	{
		"1 node, 3 clients, one time to live", search.Always,
		Config{Nodes: 1, Clients: 3, TTL: 2, Writing: true, Pilots: 1, Late: true},
		30_000,
	},
	{"3 nodes, 3 clients", search.Large, Config{Nodes: 3, Clients: 3, TTL: 2, Writing: true}, 75_000},
	{"3 nodes, 3 clients, one from elsewhere", search.Always, others, 3_500},
	{"3 nodes, 2 clients, late messages", search.Always, Config{Nodes: 3, Clients: 2, TTL: 2, Writing: true, Late: true}, 30_000},
	{"3 nodes, 2 clients that wait", search.Large, Config{Nodes: 3, Clients: 2, TTL: 2, Writing: true, Pilots: 1}, 130_000},
	{
		"1 node, 3 clients, intents at any time", search.Always,
		Config{Nodes: 1, Clients: 3, TTL: 1, Writing: true, Pilots: 1, Late: true, Strays: true},
		25_000,
	},
	{
		"3 nodes, 2 clients that wait, intents at any time", search.Large,
		Config{Nodes: 3, Clients: 2, TTL: 1, Writing: true, Pilots: 1, Strays: true},
		90_000,
	},
	{"3 nodes, 2 clients, tokens", search.Always, fenced, 35_000},
	{
		"3 nodes, 2 clients, tokens without time", search.Large,
		Config{Nodes: 3, Clients: 2, TTL: 1, Writing: true, MaxFence: 2, MaxTimestamp: 1, Timeless: true},
		100_000,
	},
	{"3 nodes, 3 clients that wait", search.Large, Config{Nodes: 3, Clients: 3, TTL: 1, Writing: true, Pilots: 1}, 1_100_000},
	{"3 nodes, 2 clients, tokens without time, any timestamps", search.Soak, timeless, 550_000},
	{"3 nodes, 3 clients, late messages", search.Soak, Config{Nodes: 3, Clients: 3, TTL: 1, Writing: true, Late: true}, 170_000},
	{
		"3 nodes, 2 clients that wait anywhere", search.Soak,
		Config{Nodes: 3, Clients: 2, TTL: 2, Writing: true, Foreign: true, Pilots: 3},
		130_000,
	},
	{
		"3 nodes, 2 clients that wait, late messages and a fault", search.Soak,
		Config{Nodes: 3, Clients: 2, TTL: 1, Writing: true, Pilots: 1, Late: true, Faults: 1},
		1_500_000,
	},
	{
		"3 nodes, 2 clients that wait, late messages and intents at any time", search.Soak,
		Config{Nodes: 3, Clients: 2, TTL: 1, Writing: true, Pilots: 1, Late: true, Strays: true},
		1_900_000,
	},
	{
		"3 nodes, 2 clients that wait, late messages and any times", search.Soak,
		Config{Nodes: 3, Clients: 2, TTL: 2, AnyTTL: true, Writing: true, Pilots: 1, Late: true},
		2_000_000,
	},
	{
		"1 node, 3 clients, everything but tokens, three ticks", search.Soak,
		Config{Nodes: 1, Clients: 3, TTL: 3, AnyTTL: true, Writing: true, Foreign: true, Pilots: 1, Late: true, Faults: 1},
		400_000,
	},
	{
		"3 nodes, 3 clients, tokens", search.Soak,
		Config{Nodes: 3, Clients: 3, TTL: 1, Writing: true, MaxFence: 2, MaxTimestamp: 2},
		450_000,
	},
	{
		"3 nodes, 2 clients that wait, tokens", search.Soak,
		Config{Nodes: 3, Clients: 2, TTL: 1, Writing: true, Pilots: 1, MaxFence: 2, MaxTimestamp: 2},
		1_700_000,
	},
}

func TestReadersAndWritersExcludeEachOtherWhateverHappens(t *testing.T) {
	for _, test := range searches {
		t.Run(test.name, func(t *testing.T) {
			test.size.Skip(t)
			report := Explore(test.config, Rules{})
			t.Log(report)
			require.False(t, report.Broken, "a claim does not hold")
			assert.GreaterOrEqual(t, report.States, test.states)
			for _, kind := range test.config.kinds() {
				assert.Positive(t, report.Count[kind], "never: %v", kind)
			}
		})
	}
}

// The result of a search must not depend on the order of clients and nodes, or on what a code
// leaves out.
func TestCodesKeepAllThatMatters(t *testing.T) {
	for _, config := range []Config{
		{Nodes: 3, Clients: 3, TTL: 3, Writing: true, Foreign: true, Pilots: 2, Late: true, Strays: true, Faults: 1, MaxFence: 3, MaxTimestamp: 3},
		{Nodes: 3, Clients: 3, TTL: 1, Writing: true, Pilots: 3, MaxFence: 3, MaxTimestamp: 3, Timeless: true},
	} {
		x := newExplorer(config, Rules{})
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
			pick, n := int((code[0]^code[1]^code[2])%uint64(steps)), 0
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
