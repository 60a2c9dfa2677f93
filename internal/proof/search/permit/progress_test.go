package permit

import (
	"math/rand/v2"
	"testing"

	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// calms are worlds in which nobody is kept waiting.
var calms = []struct {
	name   string
	size   search.Size
	config Calm
	states int // at least
	kinds  []Kind
}{
	{
		"one permit, two clients that may give up", search.Always,
		Calm{Permits: 1, Clients: 2, Cancels: true},
		5_000,
		[]Kind{IsRefused, Joins, HandsOver, HearsHandOver, Cancels, Leaves},
	},
	{
		"one permit, three clients in order", search.Always,
		Calm{Permits: 1, Clients: 3, PilotFirst: true, Prompt: true},
		5_000,
		[]Kind{Joins, HandsOver, HearsHandOver},
	},
	{
		"one permit, three clients", search.Large,
		Calm{Permits: 1, Clients: 3},
		130_000,
		[]Kind{IsRefused, Joins, HandsOver, HearsHandOver, GoesBack},
	},
	{
		"one permit, three clients, and a crash", search.Large,
		Calm{Permits: 1, Clients: 3, PilotFirst: true, Crashes: 1},
		60_000,
		[]Kind{IsRefused, Crashes, Joins, HandsOver},
	},
	{
		"two permits, three calls", search.Large,
		Calm{Permits: 2, Clients: 3, PilotFirst: true, Calls: 3},
		100_000,
		[]Kind{IsRefused, Joins, HandsOver, HearsHandOver, GoesBack},
	},
	{
		"one permit, beside a client that never waits", search.Large,
		Calm{Permits: 1, Clients: 3, Spinners: 1, Calls: 4},
		20_000,
		[]Kind{IsRefused, Joins, HandsOver, HearsHandOver},
	},
	{
		"two permits, two clients", search.Large,
		Calm{Permits: 2, Clients: 2, AnyFirst: true},
		50_000, nil,
	},
	{
		"two permits, three clients in order", search.Large,
		Calm{Permits: 2, Clients: 3, PilotFirst: true, Prompt: true},
		200_000,
		[]Kind{Joins, HandsOver, HearsHandOver},
	},
	{
		"one permit, and a crash", search.Large,
		Calm{Permits: 1, Clients: 2, Crashes: 1},
		18_000,
		[]Kind{IsRefused, Crashes, Joins, HandsOver},
	},
	{
		"two permits, and a crash", search.Soak,
		Calm{Permits: 2, Clients: 2, Crashes: 1},
		500_000,
		[]Kind{IsRefused, Crashes, Joins, HandsOver},
	},
}

func TestAFreePermitIsGivenOut(t *testing.T) {
	for _, test := range calms {
		t.Run(test.name, func(t *testing.T) {
			test.size.Skip(t)
			progress := test.config.Explore(CalmRules{})
			t.Log(progress)
			require.False(t, progress.Broken, "two hold one slot, or a client was overtaken")
			require.False(t, progress.Stuck, "somebody waits for a free permit, and nobody gets it")
			require.False(t, progress.Cycle, "clients go on for ever")
			assert.GreaterOrEqual(t, progress.States, test.states)
			for _, kind := range append([]Kind{Begins, Takes, Holds, Unlocks, Releases}, test.kinds...) {
				assert.Positive(t, progress.Count[kind], "never: %v", kind)
			}
		})
	}
}

func TestEveryMistakeThatKeepsClientsWaitingIsFound(t *testing.T) {
	for _, test := range []struct {
		name                 string
		size                 search.Size
		config               Calm
		rules                CalmRules
		broken, stuck, cycle bool
	}{
		{
			"a client keeps the slots of a minority", search.Large,
			Calm{Permits: 1, Clients: 3},
			CalmRules{KeepsMinority: true},
			false, true, false,
		},
		{
			"a release looks at no list", search.Always,
			Calm{Permits: 1, Clients: 2},
			CalmRules{ForgetsList: true},
			false, true, false,
		},
		{
			"a waiter that leaves keeps what it was given", search.Always,
			Calm{Permits: 1, Clients: 2, Cancels: true},
			CalmRules{LeaveDrops: true},
			false, true, false,
		},
		{
			"a refused client waits at the pilot, which grants again", search.Always,
			Calm{Permits: 1, Clients: 2},
			CalmRules{StaysAtPilot: true},
			false, false, true,
		},
		{
			"a refused client waits at a node with a free slot", search.Large,
			Calm{Permits: 2, Clients: 2, Crashes: 1},
			CalmRules{AnyRefusing: true},
			false, false, true,
		},
		{
			"the newest waiter first", search.Always,
			Calm{Permits: 1, Clients: 3, PilotFirst: true, Prompt: true},
			CalmRules{Newest: true},
			true, false, false,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.size.Skip(t)
			progress := test.config.Explore(test.rules)
			t.Log(progress)
			assert.Equal(t, test.broken, progress.Broken)
			assert.Equal(t, test.stuck, progress.Stuck)
			assert.Equal(t, test.cycle, progress.Cycle)
			assert.NotEmpty(t, progress.Trace)
		})
	}
}

// Three clients that ask all nodes at once for two permits have too many states to visit. Here they
// take steps at random: a free permit that somebody wants is given out within few of them.
func TestAFreePermitIsGivenOutSoonAtRandom(t *testing.T) {
	for _, config := range []Calm{
		{Permits: 2, Clients: 3, AnyFirst: true, Cancels: true},
		{Permits: 2, Clients: 3},
		{Permits: 2, Clients: 3, Spinners: 1},
	} {
		x := &calm{Calm: config}
		random := rand.New(rand.NewPCG(1, 2))
		longest, held, refusals := 0, 0, 0
		for range 200 {
			var w world
			since := 0
			for range 500 {
				var next []world
				var moves []move
				x.each(&w, func(to *world, m move) { next, moves = append(next, *to), append(moves, m) })
				i := random.IntN(len(next))
				if w = next[i]; moves[i].kind == IsRefused {
					refusals++
				}
				switch wanted := x.wanted(&w); {
				case moves[i].kind == Holds:
					held++
					since = 0
				case wanted && !moves[i].calls:
					since++
				case !wanted:
					since = 0
				}
				longest = max(longest, since)
			}
		}
		t.Logf("%+v: %d permits, %d refusals, at most %d steps without one", config, held, refusals, longest)
		assert.Less(t, longest, 200)
		assert.Greater(t, held, 5_000)
	}
}
