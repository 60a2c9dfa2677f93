package shared

import (
	"slices"
	"testing"

	"github.com/redquorum/redquorum/internal/proof/search"
)

func TestMain(m *testing.M) { search.Main(m, "readers and writers") }

// The kinds of steps that a search must reach: basic always, and the others with their option.
var (
	basic       = []search.Kind{BegunReading, BegunWriting, Granted, GrantedAgain, Held, GaveUp}
	whenTimed   = []search.Kind{Prolonged, PutBack, Ended, LeftToOthers, Freed, Ticked}
	whenLate    = []search.Kind{GrantedLate, PutBackLate, LeftAsIs, MessageLost}
	whenLonger  = []search.Kind{ProlongedLate} // with one tick, an extension has nothing to add
	whenForeign = []search.Kind{BegunForeign}
	whenFaulty  = []search.Kind{KeyLost, NotExtended}
	whenWaiting = []search.Kind{
		GrantedInTurn, ServedInTurn, Confirmed, Joined, Intended, HandedToWriter, HandedToReaders, IntentExpired, ListExpired,
	}
	whenLeft     = []search.Kind{IntendedLate}
	whenStray    = []search.Kind{StrayIntent}
	whenFenced   = []search.Kind{WriteRaising, WriteRaised, ReadRaised}
	whenTimeless = []search.Kind{WriteNotRaised, ReadNotRaised}
)

func (c Config) reaches() []search.Kind {
	kinds := slices.Clone(basic)
	for _, when := range []struct {
		is    bool
		kinds []search.Kind
	}{
		{!c.Timeless && c.Nodes > 1, whenTimed},
		{c.Late, whenLate},
		{c.Late && c.TTL > 1 && c.Nodes > 1, whenLonger},
		{c.Foreign, whenForeign},
		{c.Faults > 0, whenFaulty},
		{c.Coordinators > 0 && c.Clients > 2, whenWaiting},
		{c.Coordinators > 0 && c.Late, whenLeft},
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

func TestReadersAndWritersExcludeEachOtherWhateverHappens(t *testing.T) {
	holds := search.Holds(t, Explore, Config.reaches)
	holds("1 node, 3 clients, everything but tokens", search.Large,
		Config{Nodes: 1, Clients: 3, TTL: 2, AnyTTL: true, Writing: true, Foreign: true, Coordinators: 1, Late: true, Faults: 1},
		Rules{}, 200_000)
	holds("1 node, 3 clients, one time to live", search.Always,
		Config{Nodes: 1, Clients: 3, TTL: 2, Writing: true, Coordinators: 1, Late: true}, Rules{}, 30_000)
	holds("3 nodes, 3 clients", search.Large, Config{Nodes: 3, Clients: 3, TTL: 2, Writing: true}, Rules{}, 75_000)
	holds("3 nodes, 3 clients, one from elsewhere", search.Always, others, Rules{}, 3_500)
	holds("3 nodes, 2 clients, late messages", search.Always,
		Config{Nodes: 3, Clients: 2, TTL: 2, Writing: true, Late: true}, Rules{}, 30_000)
	holds("3 nodes, 2 clients that wait", search.Large,
		Config{Nodes: 3, Clients: 2, TTL: 2, Writing: true, Coordinators: 1}, Rules{}, 130_000)
	holds("1 node, 3 clients, intents at any time", search.Always,
		Config{Nodes: 1, Clients: 3, TTL: 1, Writing: true, Coordinators: 1, Late: true, Strays: true}, Rules{}, 25_000)
	holds("3 nodes, 2 clients that wait, intents at any time", search.Large,
		Config{Nodes: 3, Clients: 2, TTL: 1, Writing: true, Coordinators: 1, Strays: true}, Rules{}, 90_000)
	holds("3 nodes, 2 clients, tokens", search.Always, fenced, Rules{}, 35_000)
	holds("3 nodes, 2 clients, tokens without time", search.Large,
		Config{Nodes: 3, Clients: 2, TTL: 1, Writing: true, MaxFence: 2, MaxTimestamp: 1, Timeless: true}, Rules{}, 100_000)
	holds("3 nodes, 3 clients that wait", search.Large,
		Config{Nodes: 3, Clients: 3, TTL: 1, Writing: true, Coordinators: 1}, Rules{}, 1_100_000)
	holds("3 nodes, 2 clients, tokens without time, any timestamps", search.Soak, timeless, Rules{}, 550_000)
	holds("3 nodes, 3 clients, late messages", search.Soak,
		Config{Nodes: 3, Clients: 3, TTL: 1, Writing: true, Late: true}, Rules{}, 170_000)
	holds("3 nodes, 2 clients that wait anywhere", search.Soak,
		Config{Nodes: 3, Clients: 2, TTL: 2, Writing: true, Foreign: true, Coordinators: 3}, Rules{}, 130_000)
	holds("3 nodes, 2 clients that wait, late messages and a fault", search.Soak,
		Config{Nodes: 3, Clients: 2, TTL: 1, Writing: true, Coordinators: 1, Late: true, Faults: 1}, Rules{}, 1_500_000)
	holds("3 nodes, 2 clients that wait, late messages and intents at any time", search.Soak,
		Config{Nodes: 3, Clients: 2, TTL: 1, Writing: true, Coordinators: 1, Late: true, Strays: true}, Rules{}, 1_900_000)
	holds("3 nodes, 2 clients that wait, late messages and any times", search.Soak,
		Config{Nodes: 3, Clients: 2, TTL: 2, AnyTTL: true, Writing: true, Coordinators: 1, Late: true}, Rules{}, 2_000_000)
	holds("1 node, 3 clients, everything but tokens, three ticks", search.Soak,
		Config{Nodes: 1, Clients: 3, TTL: 3, AnyTTL: true, Writing: true, Foreign: true, Coordinators: 1, Late: true, Faults: 1},
		Rules{}, 400_000)
	holds("3 nodes, 3 clients, tokens", search.Soak,
		Config{Nodes: 3, Clients: 3, TTL: 1, Writing: true, MaxFence: 2, MaxTimestamp: 2}, Rules{}, 450_000)
	holds("3 nodes, 2 clients that wait, tokens", search.Soak,
		Config{Nodes: 3, Clients: 2, TTL: 1, Writing: true, Coordinators: 1, MaxFence: 2, MaxTimestamp: 2}, Rules{}, 1_700_000)
}

var (
	oneNode   = Config{Nodes: 1, Clients: 3, TTL: 2, Writing: true}
	late      = Config{Nodes: 1, Clients: 3, TTL: 2, Writing: true, Late: true}
	anyTime   = Config{Nodes: 1, Clients: 3, TTL: 2, Writing: true, AnyTTL: true}
	waiting   = Config{Nodes: 1, Clients: 3, TTL: 2, Writing: true, Coordinators: 1, Late: true}
	deleted   = Config{Nodes: 1, Clients: 3, TTL: 2, Writing: true, Faults: 1}
	quorum    = Config{Nodes: 3, Clients: 3, TTL: 2, Writing: true}
	others    = Config{Nodes: 3, Clients: 3, TTL: 1, Writing: true, Foreign: true}
	fenced    = Config{Nodes: 3, Clients: 2, TTL: 1, Writing: true, MaxFence: 2, MaxTimestamp: 2}
	timeless  = Config{Nodes: 3, Clients: 2, TTL: 1, Writing: true, MaxFence: 2, MaxTimestamp: 2, Timeless: true}
	announced = Config{Nodes: 3, Clients: 3, TTL: 1, Writing: true, Coordinators: 1}
	strays    = Config{Nodes: 1, Clients: 2, TTL: 1, Writing: true, Coordinators: 1, Late: true, Strays: true}
	handed    = Config{Nodes: 3, Clients: 2, TTL: 1, Writing: true, Coordinators: 1, MaxFence: 2, MaxTimestamp: 1}
)

// These are rules that break a claim.
func TestEveryKnownMistakeIsFound(t *testing.T) {
	search.Large.Skip(t)
	finds := search.Finds(t, Explore)
	finds("an extension does not purge", search.Always, late, Rules{ExtendRead: extendUnpurged}, kept)
	finds("a release does not purge", search.Always, oneNode, Rules{ReleaseRead: releaseUnpurged}, lingering)
	finds("one time to live for all readers", search.Always,
		oneNode, Rules{AcquireRead: acquireOneTime, ExtendRead: extendOneTime}, ownTime)
	finds("an extension prolongs all readers", search.Always, oneNode, Rules{ExtendRead: extendOneTime}, ownTime)
	finds("the marker outlives its members", search.Always, oneNode, Rules{ReleaseRead: releaseLong}, lingering)
	finds("the marker is as long as the latest member", search.Always,
		anyTime, Rules{AcquireRead: acquireShort}, covered)
	finds("the marker is as long as the latest extension", search.Always,
		anyTime, Rules{ExtendRead: extendShort}, covered)
	finds("the marker is rounded down", search.Always, oneNode, Rules{AcquireRead: acquireRounded}, covered)
	finds("the marker is rounded down, exclusion", search.Always,
		quorum, Rules{AcquireRead: acquireRounded, Only: exclusive}, exclusive)
	finds("a writer's key does not refuse readers", search.Always,
		quorum, Rules{AcquireRead: acquireBesideWriter, Only: exclusive}, exclusive)
	finds("a release deletes the key of other readers", search.Always,
		oneNode, Rules{ReleaseRead: releaseAll}, covered)
	finds("a release deletes the key of other readers, exclusion", search.Always,
		quorum, Rules{ReleaseRead: releaseAll, Only: exclusive}, exclusive)
	finds("a heal votes", search.Always, quorum, Rules{CountHealed: true}, kept)
	finds("an extension takes a writer's key", search.Always, late, Rules{ExtendRead: extendAnyKey}, covered)
	finds("an extension is refused because of an intent", search.Always,
		waiting, Rules{ExtendRead: extendUnlessIntent}, extended)
	finds("a reader does not look for intents", search.Always, waiting, Rules{AcquireRead: acquireUnasked}, respected)
	finds("a reader whose turn has come asks like any other", search.Always,
		waiting, Rules{AcquireRead: acquireTurnless}, inTurn)
	finds("another library deletes the marker", search.Always, others, Rules{ReleaseForeign: deleteMarker}, covered)
	finds("another library deletes the marker, exclusion", search.Always,
		others, Rules{ReleaseForeign: deleteMarker, Only: exclusive}, exclusive)
	finds("an extension finds a member although the key was deleted", search.Always,
		deleted, Rules{ExtendRead: extendRevived}, kept)
	finds("a new reader's marker brings back members of a deleted key", search.Always,
		deleted, Rules{AcquireRead: acquireRevived}, ownTime)
	finds("the last reader deletes any key", search.Always,
		deleted, Rules{ReleaseRead: releaseUncompared, Only: othersKey}, othersKey)
	finds("a release serves one reader", search.Always,
		waiting, Rules{ReleaseWrite: writeTo(handToOne), Only: together}, together)
	finds("a release serves readers before a writer", search.Always,
		waiting, Rules{ReleaseRead: releaseTo(handToAllReaders)}, inOrder)
	finds("a hand-over shortens a reader's time", search.Always,
		waiting, Rules{ReleaseWrite: writeTo(handShort)}, covered)
	finds("a writer stops waiting and tells nobody", search.Always, waiting, Rules{ReleaseWrite: leaveSilently}, woken)
	finds("a waiting writer keeps readers out without an intent", search.Always,
		waiting, Rules{AcquireRead: acquireBehind}, admitted)
	finds("a writer that leaves leaves its intent", search.Always,
		waiting, Rules{ReleaseWrite: leaveAnnounced}, withdrawn)
	finds("a writer that was handed the key leaves its intent", search.Always,
		waiting, Rules{ReleaseWrite: leaveHanded}, withdrawn)
	finds("a writer takes another's intent back", search.Always,
		waiting, Rules{ReleaseWrite: leaveUncompared}, withdrawn)
	finds("a writer counts the answer to its intent", search.Always, announced, Rules{CountIntent: true}, exclusive)
	finds("a late intent ends readers", search.Always, strays, Rules{ExtendRead: extendUnlessIntent}, extended)
	finds("a late intent keeps a reader out whose turn has come", search.Always,
		strays, Rules{AcquireRead: acquireTurnless}, inTurn)
	finds("readers raise like writers", search.Always, fenced, Rules{RaiseRead: raiseStrictly}, peaceful)
	finds("a reader raises nothing", search.Always, fenced, Rules{NotRaised: true}, ordered)
	finds("a reader raises nothing, without time", search.Always, timeless, Rules{NotRaised: true}, ordered)
	finds("a reader takes any number that a quorum is at", search.Always, fenced, Rules{SmallToken: true}, ordered)
	finds("a writer counts a vote that was handed over, as it is", search.Always,
		handed, Rules{TrustWrite: true}, ordered)
}

// Exclusion and tokens do not need these. The library does not do them, for other reasons.
func TestHarmlessChangesBreakNothing(t *testing.T) {
	search.Large.Skip(t)
	intents := Config{Nodes: 3, Clients: 3, TTL: 1, Writing: true, Coordinators: 1}
	if search.Race || !search.Soaking() {
		intents.Clients = 2
	}
	holds := search.Holds(t, Explore, nil)
	// As long as an extension's verdict counts only while the lock is held.
	holds("a heal votes, exclusion", search.Large, quorum, Rules{CountHealed: true, Only: exclusive}, 50_000)
	holds("a reader does not look for intents, exclusion", search.Always,
		intents, Rules{AcquireRead: acquireUnasked, Only: exclusive}, 10_000)
	holds("a reader raises at nodes where it is none", search.Always, fenced, Rules{RaiseRead: raiseAnyones}, 30_000)
	holds("a reader counts a vote that was handed over, as it is", search.Soak, handed, Rules{TrustRead: true}, 1_500_000)
}

func TestNamesMeanNothing(t *testing.T) {
	for _, config := range []Config{
		{Nodes: 3, Clients: 3, TTL: 3, Writing: true, Foreign: true, Coordinators: 2, Late: true, Strays: true, Faults: 1, MaxFence: 3, MaxTimestamp: 3},
		{Nodes: 3, Clients: 3, TTL: 1, Writing: true, Coordinators: 3, MaxFence: 3, MaxTimestamp: 3, Timeless: true},
	} {
		search.CheckNames(t, newExplorer(config, Rules{}), 2_000)
	}
}
