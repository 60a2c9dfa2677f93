package search

import (
	"testing"

	"github.com/stretchr/testify/assert"

	proof "github.com/redquorum/redquorum/internal/proof/search"
)

func TestMain(m *testing.M) { proof.Main(m, "members") }

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
	forgotten = Config{First: a | b | c | d, Forgotten: b | c | d, Removes: a | b | c, Operators: 2, Ballots: 2, Versions: 2}
	// returned has two that rejoined by the word of a removed one, cut off from the newest member.
	returned = Config{
		First: a | b | c, Later: []set{a | b | c | d, a | b | d}, Late: c, Rejoined: a | b,
		Clients: 2, Operators: 1, Ballots: 1, Versions: 4,
	}
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
func basic(it Config) []proof.Kind {
	kinds := []proof.Kind{Begins, Promises, Decides, Accepts, Chooses, Dies, IsTold, Completes}
	if it.Clients > 0 {
		kinds = append(kinds, Votes, Holds, Ends)
	}
	if it.Forgets > 0 {
		kinds = append(kinds, Forgets, Rejoins, Finishes)
	}
	return kinds
}

func TestTwoClientsNeverHoldTheLockAtOnceWhateverMembersChange(t *testing.T) {
	holds := proof.Holds(t, Explore, basic)
	holds("one change, and a master that forgets", proof.Large,
		Config{First: a | b | c, Adds: d, Clients: 2, Operators: 1, Ballots: 2, Versions: 2, Forgets: 1}, Rules{}, 190_000)
	holds("two members that may both forget", proof.Always,
		Config{First: a | b, Adds: c, Clients: 2, Operators: 1, Ballots: 2, Versions: 2, Forgets: 2}, Rules{}, 25_000)
	holds("two changes of any kind", proof.Large,
		with(twice, func(it *Config) { it.Removes = a | b | c }), Rules{}, 140_000)
	holds("two changes, and a master that forgets", proof.Soak,
		with(twice, func(it *Config) { it.Adds, it.Ballots, it.Forgets = d, 2, 1 }), Rules{}, 1_000_000)
	holds("a removed master that was not told, and one that forgets", proof.Soak, removed, Rules{}, 700_000)
}

func TestMembersThatRejoinedByTheWordOfARemovedOneWaitAgain(t *testing.T) {
	proof.Holds(t, Explore, nil)("two of three", proof.Always, returned, Rules{}, 1_000, FindsOut, Rejoins, Holds)
}

func TestAChangeWaitsForWhatWasCountedBeforeTheLast(t *testing.T) {
	holds := proof.Holds(t, Explore, basic)
	holds("two removals", proof.Always, with(twice, func(it *Config) { it.Adds, it.Removes = 0, a|b }), Rules{}, 9_000)
	holds("two additions", proof.Large, twice, Rules{}, 100_000)
}

func TestTheMembersChooseOneVersion(t *testing.T) {
	holds := proof.Holds(t, Explore, basic)
	holds("two operators", proof.Always, choice, Rules{}, 80_000, Finishes)
	holds("two operators, and a removal", proof.Large,
		with(choice, func(it *Config) { it.Removes = c }), Rules{}, 400_000, Finishes)
	holds("two operators, and a master that forgets", proof.Large, forgetful, Rules{}, 150_000, Learns)
	holds("two operators, and two masters that forget", proof.Large,
		with(forgetful, func(it *Config) { it.Forgets = 2 }), Rules{}, 250_000, Learns)
	holds("a version that its majority forgot, and that is told late", proof.Large, forgotten, Rules{}, 300_000, Meets)
}

func TestAMasterThatForgotRejoinsAtWhatOthersRemember(t *testing.T) {
	proof.Holds(t, Explore, nil)("a cluster that grew", proof.Always,
		Config{First: a, Later: []set{a | b, a | b | c}, Clients: 2, Operators: 1, Ballots: 1, Versions: 4, Forgets: 1},
		Rules{}, 15_000, Forgets, Rejoins)
}

func TestABallotIsOverBeforeWhoForgotItIsBack(t *testing.T) {
	assert.True(t, newExplorer(forgetful, Rules{}).ballotsEnd)
	proof.Finds(t, Explore)("otherwise", proof.Soak,
		with(forgetful, func(it *Config) { it.Ballots = 4 }), Rules{LongBallots: true}, oneChoice)
}

func TestAMarkerOfAnEarlierLifeIsNotBelieved(t *testing.T) {
	holds := proof.Holds(t, Explore, func(it Config) []proof.Kind {
		kinds := []proof.Kind{Forgets, Rejoins, Notes, Revives, FindsOut}
		if it.Clients > 0 {
			kinds = append(kinds, Votes, Holds)
		}
		return kinds
	})
	holds("among three", proof.Always, revived, Rules{}, 4_000)
	holds("beside the removal of one", proof.Always,
		with(revived, func(it *Config) { it.Removes, it.Clients = c, 1 }), Rules{}, 15_000)
	holds("beside a removal", proof.Large, with(revived, func(it *Config) { it.Removes = a | b | c }), Rules{}, 30_000)
	holds("beside an addition", proof.Large, with(revived, func(it *Config) { it.Adds = d }), Rules{}, 150_000)
	holds("among five", proof.Large, with(revived, func(it *Config) { it.First = a | b | c | d | e }), Rules{}, 10_000)
	holds("and another one forgets", proof.Soak,
		with(revived, func(it *Config) { it.Forgets, it.Ballots = 2, 2 }), Rules{}, 600_000)
	holds("in the choice", proof.Soak, with(forgetful, func(it *Config) { it.Revivals = 1 }), Rules{}, 0)
	finds := proof.Finds(t, Explore)
	finds("outside: too few others know", proof.Always,
		with(revived, func(it *Config) { it.NotedByOne = true }), Rules{}, oneHolder)
	finds("outside: during an attempt", proof.Always,
		with(revived, func(it *Config) { it.Meanwhile = true }), Rules{}, oneHolder)
}

// What is outside of the promise, or no decision of package core, is found as well.
func TestWhatTheMembersAreNotSafeAgainstIsFound(t *testing.T) {
	finds := proof.Finds(t, Explore)
	finds("two members at once", proof.Always,
		with(twice, func(it *Config) { it.Removes, it.Versions = a|b|c, 2 }), Rules{TwoAtOnce: true}, oneHolder)
	finds("outside: a removed master comes back beside a forgetful one", proof.Large,
		with(removed, func(it *Config) { it.Ahead = true }), Rules{}, oneHolder)
}

// The argument does not need that votes are dropped.
func TestVotesMayBeKeptWhenANewerVersionIsLearned(t *testing.T) {
	proof.Holds(t, Explore, nil)("two changes", proof.Large, twice, Rules{KeepsVotes: true}, 0, Moves)
}

func TestNamesOfMastersAndClientsMeanNothing(t *testing.T) {
	proof.CheckNames(t, newExplorer(with(twice, func(it *Config) {
		it.Operators, it.Ballots, it.Forgets, it.Revivals, it.Choices = 2, 3, 1, 1, true
	}), Rules{}), 3_000)
}
