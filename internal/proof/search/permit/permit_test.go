package permit

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/internal/proof/search"
)

func TestMain(m *testing.M) { search.Main(m, "permits") }

// The kinds of steps that a search must reach: basic always, and the others with their option.
var (
	basic       = []search.Kind{Takes, TakesUnseen, TakesSlot, TakesSlotUnseen, Holds, Ends, Expires, ExpiresPermits}
	whenWaiting = []search.Kind{Joins, HandsOver}
	whenRenewed = []search.Kind{Extends, Heals, Renews}
)

func (c Config) reaches() []search.Kind {
	kinds := slices.Clone(basic)
	if len(slices.Compact(slices.Clone(c.Permits))) < len(c.Permits) { // two go by one number
		kinds = append(kinds, IsRefused)
	}
	if c.Waiting {
		kinds = append(kinds, whenWaiting...)
	}
	if c.Renew {
		kinds = append(kinds, whenRenewed...)
	}
	if c.Losses > 0 {
		kinds = append(kinds, Loses)
	}
	if c.Leftovers {
		kinds = append(kinds, LateTake)
	}
	if c.Permits[0] != permits && c.Permits[len(c.Permits)-1] == permits {
		kinds = append(kinds, HearsOther)
	}
	return kinds
}

func TestThereAreNeverTooManyHolders(t *testing.T) {
	holds := search.Holds(t, Explore, Config.reaches)
	holds("two numbers of permits", search.Always, Config{Permits: []int{1, 1, 2}}, Rules{}, 3_000)
	holds("one permit, and waiters", search.Always,
		Config{Permits: []int{1, 1, 1}, Waiting: true, Strays: true}, Rules{}, 20_000)
	holds("two permits, or any of two names", search.Large, Config{Permits: []int{2, 2, 2}}, Rules{}, 19_000)
	holds("one permit, and everything but losses", search.Large,
		Config{Permits: []int{1, 1, 1}, Waiting: true, Renew: true, Strays: true}, Rules{}, 25_000)
	holds("two permits, extended", search.Large, Config{Permits: []int{2, 2, 2}, Renew: true}, Rules{}, 27_000)
	holds("two permits, everything but losses", search.Large,
		Config{Permits: []int{2, 2}, Waiting: true, Renew: true, Strays: true}, Rules{}, 60_000)
	holds("two numbers of permits, and a node that forgets", search.Large,
		Config{Permits: []int{1, 2}, Renew: true, Losses: 1}, Rules{}, 22_000)
	holds("two permits, and what attempts leave behind", search.Large,
		Config{Permits: []int{2, 2}, Leftovers: true}, Rules{}, 9_000)
	holds("two permits, and waiters", search.Soak, Config{Permits: []int{2, 2, 2}, Waiting: true}, Rules{}, 400_000)
	holds("two permits, and two nodes that forget", search.Soak,
		Config{Permits: []int{2, 2}, Renew: true, Losses: 2}, Rules{}, 250_000)
	holds("two numbers of permits, and two nodes that forget", search.Large,
		Config{Permits: []int{1, 2}, Renew: true, Losses: 2}, Rules{}, 130_000)
	holds("two numbers of permits, extended, and waiters", search.Soak,
		Config{Permits: []int{1, 1, 2}, Waiting: true, Renew: true}, Rules{}, 180_000)
	holds("two numbers of permits, everything", search.Soak,
		Config{Permits: []int{1, 2}, Waiting: true, Renew: true, Losses: 1, Strays: true}, Rules{}, 400_000)
}

// These are rules with which there are too many holders.
func TestEveryKnownMistakeIsFound(t *testing.T) {
	search.Large.Skip(t)
	finds := search.Finds(t, Explore)
	finds("each node counts permits", search.Always, Config{Permits: []int{2, 2, 2}}, Rules{AnySlot: true}, enough)
	finds("a release does not compare", search.Always, Config{Permits: []int{1, 1}}, Rules{NoCompare: true}, enough)
	finds("a message is a vote", search.Always,
		Config{Permits: []int{1, 1, 1}, Waiting: true}, Rules{TrustMessage: true}, enough)
	finds("a slot is handed over twice", search.Always,
		Config{Permits: []int{1, 1, 1}, Waiting: true, LongGrace: true}, Rules{TrustMessage: true, HandTwice: true}, enough)
	finds("a hand-over is confirmed without the full TTL", search.Always,
		Config{Permits: []int{1, 1, 1}, Waiting: true}, Rules{NoRefresh: true}, enough)
	finds("one value asks for one slot after the other", search.Always,
		Config{Permits: []int{2, 2}}, Rules{ManySlots: true}, enough)
	finds("one node takes any number", search.Always, Config{Permits: []int{1, 2}}, Rules{LaxNode: true}, enough)
	finds("a request for one slot takes any number", search.Always,
		Config{Permits: []int{1, 2}}, Rules{LaxSlot: true}, enough)
	finds("the number changes while others' slots are taken", search.Always,
		Config{Permits: []int{1, 2}}, Rules{OwnSlots: true}, enough)
	finds("the number expires before the slots", search.Always,
		Config{Permits: []int{1, 2}}, Rules{Expires: true}, enough)
	finds("an extension that heals under another number is a vote", search.Always,
		Config{Permits: []int{1, 2}, Renew: true}, Rules{HealVotes: true, SlotVotes: true}, enough)
	finds("an extension forgets the number", search.Always,
		Config{Permits: []int{1, 2}, Renew: true}, Rules{SlotOnly: true}, enough)
	finds("an extension does not compare the number", search.Always,
		Config{Permits: []int{1, 2}, Renew: true}, Rules{SlotVotes: true}, enough)
	finds("a node votes although it forgot", search.Always,
		Config{Permits: []int{1, 1}, Losses: 1}, Rules{LossVotes: true}, enough)
}

// The argument does not need these. The library does not do them, for other reasons.
func TestHarmlessChangesMakeNoFurtherHolder(t *testing.T) {
	search.Large.Skip(t)
	holds := search.Holds(t, Explore, nil)
	holds("a message is a vote, if the slot lives as long as the attempt", search.Large,
		Config{Permits: []int{1, 1, 1}, Waiting: true, LongGrace: true}, Rules{TrustMessage: true}, 0)
	holds("an extension that heals is a vote: it brings the number, so it is a grant like any other", search.Large,
		Config{Permits: []int{1, 2}, Renew: true, Losses: 1}, Rules{HealVotes: true}, 0)
	holds("a value gets several slots at a node", search.Large, Config{Permits: []int{2, 2}}, Rules{TakesTwo: true}, 0)
}

func TestNamesMeanNothing(t *testing.T) {
	for _, config := range []Config{
		{Permits: []int{2, 2, 2}, Waiting: true, Renew: true, Losses: 2, Strays: true, Leftovers: true},
		{Permits: []int{1, 1, 2}, Waiting: true, Renew: true, Losses: 1, Strays: true},
	} {
		search.CheckNames(t, newExplorer(config, Rules{}), 3_000)
	}
}

func TestAFreePermitIsGivenOut(t *testing.T) {
	holds := search.Holds(t, ExploreCalm, func(Calm) []search.Kind {
		return []search.Kind{Begins, Takes, Holds, Unlocks, Releases}
	})
	holds("one permit, two clients that may give up", search.Always,
		Calm{Permits: 1, Clients: 2, Cancels: true},
		CalmRules{}, 5_000, IsRefused, Joins, HandsOver, HearsHandOver, Cancels, Leaves)
	holds("one permit, three clients in order", search.Always,
		Calm{Permits: 1, Clients: 3, CoordinatorFirst: true, Prompt: true}, CalmRules{}, 5_000, Joins, HandsOver, HearsHandOver)
	holds("one permit, three clients", search.Large,
		Calm{Permits: 1, Clients: 3}, CalmRules{}, 130_000, IsRefused, Joins, HandsOver, HearsHandOver, GoesBack)
	holds("one permit, three clients, and a crash", search.Large,
		Calm{Permits: 1, Clients: 3, CoordinatorFirst: true, Crashes: 1},
		CalmRules{}, 60_000, IsRefused, Crashes, Joins, HandsOver)
	holds("two permits, three calls", search.Large,
		Calm{Permits: 2, Clients: 3, CoordinatorFirst: true, Calls: 3},
		CalmRules{}, 100_000, IsRefused, Joins, HandsOver, HearsHandOver, GoesBack)
	holds("one permit, beside a client that never waits", search.Large,
		Calm{Permits: 1, Clients: 3, Spinners: 1, Calls: 4},
		CalmRules{}, 20_000, IsRefused, Joins, HandsOver, HearsHandOver)
	holds("two permits, two clients", search.Large, Calm{Permits: 2, Clients: 2, AnyFirst: true}, CalmRules{}, 50_000)
	holds("two permits, three clients in order", search.Large,
		Calm{Permits: 2, Clients: 3, CoordinatorFirst: true, Prompt: true}, CalmRules{}, 200_000, Joins, HandsOver, HearsHandOver)
	holds("one permit, and a crash", search.Large,
		Calm{Permits: 1, Clients: 2, Crashes: 1}, CalmRules{}, 18_000, IsRefused, Crashes, Joins, HandsOver)
	holds("two permits, and a crash", search.Soak,
		Calm{Permits: 2, Clients: 2, Crashes: 1}, CalmRules{}, 500_000, IsRefused, Crashes, Joins, HandsOver)
}

func TestEveryMistakeThatKeepsClientsWaitingIsFound(t *testing.T) {
	finds := search.Finds(t, ExploreCalm)
	finds("a client keeps the slots of a minority", search.Large,
		Calm{Permits: 1, Clients: 3}, CalmRules{KeepsMinority: true}, search.Stuck)
	finds("a release looks at no list", search.Always,
		Calm{Permits: 1, Clients: 2}, CalmRules{ForgetsList: true}, search.Stuck)
	finds("a waiter that leaves keeps what it was given", search.Always,
		Calm{Permits: 1, Clients: 2, Cancels: true}, CalmRules{LeaveDrops: true}, search.Stuck)
	finds("a refused client waits at the coordinator, which grants again", search.Always,
		Calm{Permits: 1, Clients: 2}, CalmRules{StaysAtCoordinator: true}, search.Circle)
	finds("a refused client waits at a node with a free slot", search.Large,
		Calm{Permits: 2, Clients: 2, Crashes: 1}, CalmRules{AnyRefusing: true}, search.Circle)
	finds("the newest waiter first", search.Always,
		Calm{Permits: 1, Clients: 3, CoordinatorFirst: true, Prompt: true}, CalmRules{Newest: true}, inOrder)
}

// Three clients that ask all nodes at once for two permits have too many states to visit. Here they
// take steps at random: a free permit that somebody wants is given out within few of them.
func TestAFreePermitIsGivenOutSoonAtRandom(t *testing.T) {
	for _, config := range []Calm{
		{Permits: 2, Clients: 3, AnyFirst: true, Cancels: true},
		{Permits: 2, Clients: 3},
		{Permits: 2, Clients: 3, Spinners: 1},
	} {
		x := newCalm(config, CalmRules{})
		random := rand.New(rand.NewPCG(1, 2))
		longest, held, refusals := 0, 0, 0
		for range 200 {
			w := x.Start()
			since := 0
			for range 500 {
				var next []world
				var events []search.Event
				x.Each(&w, func(to *world, e search.Event) { next, events = append(next, *to), append(events, e) })
				i := random.IntN(len(next))
				if w = next[i]; events[i].Kind == IsRefused {
					refusals++
				}
				switch wanted := x.Wanted(&w); {
				case events[i].Kind == Holds:
					held++
					since = 0
				case wanted && x.Task(events[i]) >= 0:
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
