package members

import (
	"testing"

	"github.com/redquorum/redquorum/internal/proof/search"
)

func TestMain(m *testing.M) { search.Main(m, "members") }

// The masters.
const (
	a set = 1 << iota
	b
	c
	d
	e
)

var (
	// choice has two operators that want different changes.
	choice = Config{First: a | b | c, Adds: d | e, Operators: 2, Ballots: 3, Versions: 2, Choices: true}
	// forgetful is the same beside a master that forgets.
	forgetful = with(choice, func(it *Config) { it.Forgets = 1 })
	// twice has two changes, one after the other, and clients that sleep through any of them.
	twice = Config{First: a | b | c, Adds: d | e, Clients: 2, Operators: 1, Ballots: 1, Versions: 3}
	// revived has a master that forgets, and gets its marker back.
	revived = Config{First: a | b | c, Clients: 2, Operators: 1, Ballots: 1, Versions: 2, Forgets: 1, Revivals: 1}
	// forgotten has a version that its majority chose and forgot, and that is told late.
	forgotten = Config{First: a | b | c | d, Forgotten: b | c | d, Removes: b, Operators: 2, Ballots: 2, Versions: 2}
	// removed has a removed master that was not told, and one that forgets.
	removed = Config{
		First: a | b | c, Later: []set{a | b}, Late: c, Adds: d,
		Clients: 2, Operators: 1, Ballots: 2, Versions: 3, Forgets: 1,
	}
)

func with(it Config, change func(*Config)) Config {
	change(&it)
	return it
}

// basic are the kinds of steps that every search must reach.
func basic(it Config) []search.Kind {
	kinds := []search.Kind{Begins, Promises, Decides, Accepts, Chooses, Dies, IsTold, Completes}
	if it.Clients > 0 {
		kinds = append(kinds, Votes, Holds, Ends)
	}
	if it.Forgets > 0 {
		kinds = append(kinds, Forgets, Rejoins, Finishes)
	}
	return kinds
}

func TestTwoClientsNeverHoldTheLockAtOnceWhateverMembersChange(t *testing.T) {
	holds := search.Holds(t, Explore, basic)
	holds("one change, and a master that forgets", search.Always,
		Config{First: a | b | c, Adds: d, Clients: 2, Operators: 1, Ballots: 2, Versions: 2, Forgets: 1}, Rules{}, 50_000)
	holds("two operators", search.Always, choice, Rules{}, 40_000, Finishes)
	holds("two operators, and a master that forgets", search.Large, forgetful, Rules{}, 150_000, Learns)
	holds("two members that may both forget", search.Always,
		Config{First: a | b, Adds: c, Clients: 2, Operators: 1, Ballots: 2, Versions: 2, Forgets: 2}, Rules{}, 10_000)
	holds("two operators, and two masters that forget", search.Large,
		with(forgetful, func(it *Config) { it.Forgets = 2 }), Rules{}, 250_000, Learns)
	holds("two changes", search.Always, twice, Rules{}, 75_000)
	holds("two changes of any kind", search.Large,
		with(twice, func(it *Config) { it.Removes = a | b | c }), Rules{}, 140_000)
	holds("two changes, and a master that forgets", search.Soak,
		with(twice, func(it *Config) { it.Adds, it.Ballots, it.Forgets = d, 2, 1 }), Rules{}, 1_000_000)
	holds("a version that its majority forgot, and that is told late", search.Large, forgotten, Rules{}, 300_000, Meets)
	holds("a removed master that was not told, and one that forgets", search.Soak, removed, Rules{}, 700_000)
}

func TestAMarkerOfAnEarlierLifeIsNotBelieved(t *testing.T) {
	holds := search.Holds(t, Explore, func(Config) []search.Kind {
		return []search.Kind{Votes, Holds, Forgets, Rejoins, Notes, Revives, FindsOut}
	})
	holds("among three", search.Always, revived, Rules{}, 4_000)
	holds("beside a removal", search.Always, with(revived, func(it *Config) { it.Removes = a | b | c }), Rules{}, 30_000)
	holds("beside an addition", search.Large, with(revived, func(it *Config) { it.Adds = d }), Rules{}, 150_000)
	holds("among five", search.Large, with(revived, func(it *Config) { it.First = a | b | c | d | e }), Rules{}, 10_000)
	holds("and another one forgets", search.Soak,
		with(revived, func(it *Config) { it.Forgets, it.Ballots = 2, 2 }), Rules{}, 600_000)
	holds("in the choice", search.Soak, with(forgetful, func(it *Config) { it.Revivals = 1 }), Rules{}, 0)
	finds := search.Finds(t, Explore)
	finds("a vote of an earlier life", search.Always, revived, Rules{AnyLife: true}, oneHolder)
	finds("a vote that was counted before another marker told", search.Always, revived, Rules{EarlierVotes: true}, oneHolder)
	finds("an earlier life in the choice", search.Large,
		with(forgetful, func(it *Config) { it.Revivals = 1 }), Rules{AnyLife: true}, oneChoice)
	finds("outside: too few others know", search.Always,
		with(revived, func(it *Config) { it.NotedByOne = true }), Rules{}, oneHolder)
	finds("outside: during an attempt", search.Always,
		with(revived, func(it *Config) { it.Meanwhile = true }), Rules{}, oneHolder)
}

func TestEveryKnownMistakeAboutMembersIsFound(t *testing.T) {
	finds := search.Finds(t, Explore)
	finds("a majority of the list", search.Always,
		Config{First: a | b | c, Clients: 2, Lists: []set{a, a | b | c}}, Rules{OwnList: true}, oneHolder)
	finds("a vote of one that was removed", search.Always,
		with(twice, func(it *Config) { it.Adds, it.Removes, it.Versions = 0, c, 2 }), Rules{AnyActive: true}, onlyVotes)
	finds("a vote under an older version than its marker names", search.Large, twice, Rules{IgnoresNewer: true}, oneHolder)
	finds("no wait", search.Large, twice, Rules{NoWait: true}, oneHolder)
	finds("a wait from the acceptance", search.Large, twice, Rules{WaitsFromAccept: true}, oneHolder)
	finds("two members at once", search.Always,
		with(twice, func(it *Config) { it.Removes, it.Versions = a|b|c, 2 }), Rules{TwoAtOnce: true}, oneHolder)
	finds("a stranger for a member that does not answer", search.Always,
		with(twice, func(it *Config) { it.Adds, it.Versions = d, 2 }), Rules{Elimination: true}, oneHolder)
	finds("no quarantine", search.Always,
		with(twice, func(it *Config) { it.Adds, it.Versions, it.Forgets = 0, 2, 1 }), Rules{Hurried: true}, oneHolder)
	finds("a version that goes back", search.Always, twice, Rules{TellsOlder: true}, neverBack)
	finds("one that rejoins at version 1", search.Always,
		Config{First: a, Later: []set{a | b, a | b | c}, Clients: 2, Operators: 1, Ballots: 1, Versions: 4, Forgets: 1},
		Rules{RejoinsFirst: true}, oneHolder)
	finds("a change while a member is behind", search.Soak,
		Config{First: a | b | c, Later: []set{a | b | c | d}, Late: c, Adds: e, Clients: 2, Operators: 1, Ballots: 1, Versions: 3, Forgets: 1},
		Rules{Behind: true}, oneHolder)
	finds("no ballots", search.Always, choice, Rules{NoBallots: true}, oneChoice)
	finds("what was begun is not finished", search.Always, choice, Rules{IgnoresFound: true}, oneChoice)
	finds("a forgetful master in the choice that it forgot", search.Large, forgetful, Rules{Unlearned: true}, oneChoice)
	finds("learning from one other", search.Large, forgetful, Rules{LearnsFromOne: true}, oneChoice)
	finds("a promise of a master that forgot", search.Large, forgetful,
		Rules{OldPromise: true, LongBallots: true}, oneChoice)
	finds("a ballot that outlives the quarantine", search.Large,
		with(forgetful, func(it *Config) { it.Ballots = 4 }), Rules{LongBallots: true}, oneChoice)
	finds("told over what was accepted", search.Always, forgotten, Rules{TellsOver: true}, oneVersion)
	finds("told before a majority holds to it", search.Large, forgotten, Rules{FinishesEarly: true}, oneVersion)
	finds("outside: a removed master comes back beside a forgetful one", search.Large,
		with(removed, func(it *Config) { it.Ahead = true }), Rules{}, oneHolder)
}

// The argument does not need these.
func TestHarmlessChangesOfMembershipLeaveOneHolder(t *testing.T) {
	holds := search.Holds(t, Explore, nil)
	holds("a vote only under the version that its marker names", search.Large, twice, Rules{OnlySame: true}, 0)
	holds("votes are kept when a newer version is learned", search.Large, twice, Rules{KeepsVotes: true}, 0, Moves)
	holds("both", search.Large, twice, Rules{KeepsVotes: true, OnlySame: true}, 0, Moves)
	holds("promises without incarnations", search.Large, forgetful, Rules{OldPromise: true}, 0)
}

func TestNamesOfMastersAndClientsMeanNothing(t *testing.T) {
	search.CheckNames(t, newExplorer(with(twice, func(it *Config) {
		it.Operators, it.Ballots, it.Forgets, it.Revivals, it.Choices = 2, 3, 1, 1, true
	}), Rules{}), 3_000)
}

var lists = []Forming{
	{Lists: []set{a | b, b | c}},
	{Lists: []set{a | b | c, b | c}},
	{Lists: []set{a, a | b | c}},
	{Lists: []set{a | b | c, c | d}},
	{Lists: []set{a | b | c, a | b | c}},
}

func TestNoMasterBelongsToTwoNewClusters(t *testing.T) {
	holds := search.Holds(t, ExploreForming, nil)
	for _, it := range lists {
		holds("in any order", search.Always, it, FormingRules{}, 10_000,
			Tries, Joins, IsTaken, Opens, Shuts, IsDue, Asks, Frees, Follows)
	}
}

func TestEveryKnownMistakeAboutNewClustersIsFound(t *testing.T) {
	finds := search.Finds(t, ExploreForming)
	finds("made active at any time", search.Always, lists[0], FormingRules{AnyTime: true}, ownMaster)
	finds("taken away without asking", search.Always, lists[0], FormingRules{NoAsking: true}, ownMaster)
	finds("taken away when most are not active", search.Always, lists[1], FormingRules{AskMajority: true}, ownMaster)
	finds("joined although it joined another", search.Always, lists[0], FormingRules{Blind: true}, ownMaster)
	finds("made active when a majority joined", search.Always, lists[3], FormingRules{MajorityJoin: true}, ownMaster)
	finds("made active although one was refused", search.Always, lists[0], FormingRules{KeepsOn: true}, ownMaster)
}
