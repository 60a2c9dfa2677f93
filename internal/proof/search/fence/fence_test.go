package fence

import (
	"slices"
	"testing"

	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

func TestMain(m *testing.M) { search.Main(m, "fencing") }

// The kinds of steps that a search must reach: basic always, and the others with their option.
var (
	basic = []search.Kind{
		Begun, Acquired, AcquiredAgain, AcquiredLate, Raised, RaiseRefused, WonFirst, WonSecond, SecondBegun, GaveUp,
		SecondFailed, Deleted, ExpiredPresent, ExpiredOver,
	}
	whenWaiting = []search.Kind{
		BegunWaiting, Coordinatored, CoordinatoredAgain, Confirmed, Joined, JoinedAfterGrant, HandedOver, HandedPastDead,
		DeletedPastDead, ListExpired,
	}
	whenAdopting = []search.Kind{BegunAdopting, AdoptedOver, AdoptedPresent}
)

func (c Config) reaches() []search.Kind {
	kinds := slices.Clone(basic)
	if c.Waiting {
		kinds = append(kinds, whenWaiting...)
	}
	if c.Adopting {
		kinds = append(kinds, whenAdopting...)
	}
	return kinds
}

func TestTokensAreUniqueAndInOrderWhateverHappens(t *testing.T) {
	holds := search.Holds(t, Explore, Config.reaches)
	holds("3 nodes, 2 clients, everything", search.Large,
		Config{Nodes: 3, Clients: 2, MaxFence: 2, MaxTimestamp: 2, Waiting: true, Adopting: true, LateRaises: true},
		Rules{}, 200_000)
	holds("3 nodes, 2 clients that adopt", search.Large,
		Config{Nodes: 3, Clients: 2, MaxFence: 3, MaxTimestamp: 3, Adopting: true, LateRaises: true}, Rules{}, 300_000)
	holds("2 nodes, 2 clients, everything", search.Always,
		Config{Nodes: 2, Clients: 2, MaxFence: 3, MaxTimestamp: 3, Waiting: true, Adopting: true}, Rules{}, 90_000)
	holds("3 nodes, 2 clients that wait", search.Soak,
		Config{Nodes: 3, Clients: 2, MaxFence: 3, MaxTimestamp: 3, Waiting: true}, Rules{}, 8_000_000)
	holds("3 nodes, 3 clients that wait", search.Soak,
		Config{Nodes: 3, Clients: 3, MaxFence: 2, MaxTimestamp: 2, Waiting: true}, Rules{}, 2_500_000)
	holds("5 nodes, 2 clients that wait", search.Soak,
		Config{Nodes: 5, Clients: 2, MaxFence: 2, MaxTimestamp: 2, Waiting: true}, Rules{}, 14_000_000)
	holds("5 nodes, 2 clients that adopt", search.Soak,
		Config{Nodes: 5, Clients: 2, MaxFence: 2, MaxTimestamp: 2, Adopting: true, LateRaises: true}, Rules{}, 250_000)
	holds("3 nodes, 3 clients", search.Soak,
		Config{Nodes: 3, Clients: 3, MaxFence: 3, MaxTimestamp: 3}, Rules{}, 1_200_000)
}

// raiseIf is a raise with some of its comparisons left out or changed.
func raiseIf(ok func(e *spec.Entry[Value], v Value, t int64) bool) func(spec.Entries[Value], Value, int64) bool {
	return func(s spec.Entries[Value], v Value, t int64) bool {
		if !ok(s[0], v, t) {
			return false
		}
		s[0].Fence = t
		return true
	}
}

func mine(e *spec.Entry[Value], v Value) bool { return e.Key == v }

var (
	raiseLax       = raiseIf(func(e *spec.Entry[Value], v Value, t int64) bool { return mine(e, v) && e.Fence <= t })
	raiseAnyones   = raiseIf(func(e *spec.Entry[Value], _ Value, t int64) bool { return e.Fence < t })
	raiseAnyonesTo = raiseIf(func(e *spec.Entry[Value], _ Value, t int64) bool { return e.Fence <= t })
	raiseAnywhere  = raiseIf(func(e *spec.Entry[Value], v Value, _ int64) bool { return mine(e, v) })
	raiseAlways    = raiseIf(func(*spec.Entry[Value], Value, int64) bool { return true })
)

// quorumOfGranting accepts a majority of the nodes that granted, once a quorum of all nodes did.
func quorumOfGranting(votes []int64, d Decision, target int64) Decision {
	granted := len(votes) - count(votes, 0)
	if granted >= Quorum(len(votes)) && count(votes, target) >= Quorum(granted) {
		return Decision{Token: target}
	}
	return d
}

func firstOfGranting(votes []int64) Decision {
	return quorumOfGranting(votes, First(votes), slices.Max(votes))
}

func secondOfGranting(votes []int64, target int64) Decision {
	return quorumOfGranting(votes, Second(votes, target), target)
}

// withoutSecondRound takes the largest of a quorum of grants as the token.
func withoutSecondRound(votes []int64) Decision {
	if d := First(votes); !d.Uneven {
		return d
	}
	return Decision{Token: slices.Max(votes)}
}

// firstOfHalf is content with half of an even number of nodes.
func firstOfHalf(votes []int64) Decision {
	if most := slices.Max(votes); most > 0 && count(votes, most) >= len(votes)/2 {
		return Decision{Token: most}
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

// These are rules that break a claim.
func TestEveryKnownMistakeIsFound(t *testing.T) {
	search.Large.Skip(t)
	finds := search.Finds(t, Explore)
	finds("raise anything", search.Always, plain, Rules{Raise: raiseAlways}, unique)
	finds("raise anyone's key, to a fence that is there already", search.Always,
		plain, Rules{Raise: raiseAnyonesTo}, unique)
	finds("raise from any fence", search.Always, plain, Rules{Raise: raiseAnywhere}, unique)
	finds("raise to a fence that is there already", search.Always, waiting, Rules{Raise: raiseLax}, unique)
	finds("first round: a majority of those that granted", search.Always, four, Rules{First: firstOfGranting}, unique)
	finds("second round: a majority of those that granted", search.Always,
		four, Rules{Second: secondOfGranting}, unique)
	finds("no second round", search.Always, plain, Rules{First: withoutSecondRound}, unique)
	finds("no second round, order", search.Always, plain, Rules{First: withoutSecondRound, OnlyOrder: true}, ordered)
	finds("half of two nodes", search.Always, two, Rules{First: firstOfHalf}, unique)
	finds("half of four nodes", search.Always, four, Rules{First: firstOfHalf}, unique)
	finds("lost counters and no timestamps", search.Always, noTimestamps, Rules{LoseCounters: true}, unique)
	finds("lost counters and no timestamps, order", search.Always,
		noTimestamps, Rules{LoseCounters: true, OnlyOrder: true}, ordered)
	finds("answers to an earlier attempt", search.Always, plain, Rules{KeepAnswers: true}, ordered)
	finds("a vote that was handed over, as it is", search.Always, waiting, Rules{TrustHandOver: true}, unique)
	finds("adopt, and leave the fence as it is", search.Always, adopting, Rules{TrustAdopted: true}, unique)
	finds("adopt under one value, and leave the fence", search.Always,
		adopting, Rules{AdoptInPlace: true, TrustAdopted: true}, unique)
	finds("adopt under one value, and raise to a fence that is there already", search.Always,
		adopting, Rules{AdoptInPlace: true, Raise: raiseLax}, unique)
}

// The argument for the tokens does not need these. The library does not do them, for other reasons.
func TestHarmlessChangesKeepTheTokensInOrder(t *testing.T) {
	search.Large.Skip(t)
	config := Config{Nodes: 3, Clients: 2, MaxFence: 2, MaxTimestamp: 2, Adopting: true, LateRaises: true}
	states := 10_000 // at least
	if search.Soaking() {
		config.MaxFence, config.MaxTimestamp, states = 3, 3, 200_000
	}
	holds := search.Holds(t, Explore, nil)
	holds("raise anyone's key", search.Always, config, Rules{Raise: raiseAnyones}, states)
	holds("raise to a fence that is there already, without waiters", search.Always, config, Rules{Raise: raiseLax}, states)
	holds("adopt under one value", search.Always, config, Rules{AdoptInPlace: true}, states)
}

func (c RestartConfig) reaches() []search.Kind {
	kinds := []search.Kind{Acquired, CounterLost, Ticked, Raised, WonFirst, WonSecond, GaveUp, ExpiredPresent, ExpiredOver}
	if !c.Bare {
		kinds = append(kinds, AcquiredLate)
	}
	if !c.Unused {
		kinds = append(kinds, AcquiredOut)
	}
	return kinds
}

// either claim may break.
const either = ""

func TestNodeThatLostItsCountersStaysOutForLongerThanAttemptsAndSkew(t *testing.T) {
	holds, finds := search.Holds(t, ExploreRestarts, RestartConfig.reaches), search.Finds(t, ExploreRestarts)
	holds("longer than the TTL", search.Large, RestartConfig{TTL: 1, Out: 2, Horizon: 3, Losses: 1}, nil, 100_000)
	holds("longer than the TTL, for longer", search.Soak,
		RestartConfig{TTL: 1, Out: 2, Horizon: 4, Losses: 1}, nil, 100_000)
	holds("longer than the TTL and twice the skew, bare", search.Soak,
		RestartConfig{TTL: 1, Skew: 1, Out: 4, Horizon: 5, Losses: 1, Bare: true, Attempts: 3}, nil, 100_000)
	holds("expired after longer than the TTL", search.Large,
		RestartConfig{TTL: 1, Out: 2, Horizon: 4, Losses: 1, Unused: true}, nil, 100_000)
	holds("expired after longer than the TTL, for longer", search.Soak,
		RestartConfig{TTL: 1, Out: 2, Horizon: 5, Losses: 1, Unused: true}, nil, 100_000)
	finds("not out at all", search.Always, RestartConfig{TTL: 1, Out: 0, Horizon: 4, Losses: 1}, nil, either)
	finds("the TTL", search.Always, RestartConfig{TTL: 1, Out: 1, Horizon: 4, Losses: 1}, nil, either)
	finds("the TTL and twice the skew", search.Soak,
		RestartConfig{TTL: 1, Skew: 1, Out: 3, Horizon: 4, Losses: 1}, nil, either)
	finds("the TTL and twice the skew, bare", search.Large,
		RestartConfig{TTL: 1, Skew: 1, Out: 3, Horizon: 4, Losses: 1, Bare: true, Attempts: 3}, nil, either)
	finds("expired after the TTL", search.Always,
		RestartConfig{TTL: 1, Out: 1, Horizon: 4, Losses: 1, Unused: true}, nil, either)
	finds("expired after the TTL and twice the skew", search.Soak,
		RestartConfig{TTL: 1, Skew: 1, Out: 3, Horizon: 4, Losses: 1, Unused: true}, nil, either)
}

// within is how much a search for the harm of one faulty node covers.
func within(horizon, attempts, losses int) RestartConfig {
	return RestartConfig{TTL: 1, Horizon: horizon, Losses: losses, Attempts: attempts, Bare: true}
}

func with(f *Faulty, change func(*Faulty)) *Faulty {
	changed := *f
	change(&changed)
	return &changed
}

func TestOneFaultyNodeDoesNotBreakTheTokens(t *testing.T) {
	right := &Faulty{Limit: 0, Ahead: 2, Highest: 6} // twice the TTL
	farther := &Faulty{Limit: 1, Ahead: 3, Highest: 7}
	holds := search.Holds(t, ExploreRestarts, func(RestartConfig) []search.Kind {
		return []search.Kind{Acquired, Spoiled, NotFollowed, Mended, Raised, RaisedInVain, WonFirst, WonSecond, GaveUp, Ticked}
	})
	holds("as it is, briefly", search.Large, within(3, 2, 1), right, 20_000)
	holds("as it is, with one more attempt", search.Soak, within(3, 3, 1), right, 20_000)
	holds("as it is, for longer", search.Soak, within(4, 3, 1), right, 20_000)
	holds("as it is, twice", search.Soak, within(3, 3, 2), right, 20_000)
	holds("as it is, further ahead", search.Soak, within(3, 3, 1), farther, 20_000)
	finds := search.Finds(t, ExploreRestarts)
	finds("mend to less than two attempts ahead", search.Soak,
		within(3, 3, 1), with(right, func(f *Faulty) { f.Ahead = 1 }), either)
	finds("mend to less than what nodes follow and two attempts ahead", search.Soak,
		within(3, 3, 1), with(farther, func(f *Faulty) { f.Ahead = 2 }), either)
	finds("mend to the token", search.Soak,
		within(3, 3, 1), with(right, func(f *Faulty) { f.MendToGranted = true }), either)
	finds("mend without a quorum of others", search.Large,
		within(5, 3, 0), with(right, func(f *Faulty) { f.MendUnconfirmed = true }), either)
	finds("mend anyone's key", search.Soak,
		within(4, 3, 1), with(right, func(f *Faulty) { f.MendAnyones = true }), either)
	finds("follow anything that is granted elsewhere", search.Soak,
		within(3, 3, 1), with(right, func(f *Faulty) { f.FollowAnything = true }), either)
}

func TestNamesMeanNothing(t *testing.T) {
	search.CheckNames(t, newExplorer(
		Config{Nodes: 3, Clients: 3, MaxFence: 2, MaxTimestamp: 2, Waiting: true, Adopting: true}, Rules{}), 2_000)
	r := &restarter{RestartConfig: RestartConfig{TTL: 1, Skew: 1, Out: 3, Horizon: 4, Losses: 1}}
	r.one = spec.Entries[Value]{&r.scratch}
	search.CheckNames(t, r, 2_000)
}
