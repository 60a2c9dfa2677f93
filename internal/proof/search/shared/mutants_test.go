package shared

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/search"
)

var (
	oneNode   = Config{Nodes: 1, Clients: 3, TTL: 2, Writing: true}
	late      = Config{Nodes: 1, Clients: 3, TTL: 2, Writing: true, Late: true}
	anyTime   = Config{Nodes: 1, Clients: 3, TTL: 2, Writing: true, AnyTTL: true}
	waiting   = Config{Nodes: 1, Clients: 3, TTL: 2, Writing: true, Pilots: 1, Late: true}
	deleted   = Config{Nodes: 1, Clients: 3, TTL: 2, Writing: true, Faults: 1}
	quorum    = Config{Nodes: 3, Clients: 3, TTL: 2, Writing: true}
	others    = Config{Nodes: 3, Clients: 3, TTL: 1, Writing: true, Foreign: true}
	fenced    = Config{Nodes: 3, Clients: 2, TTL: 1, Writing: true, MaxFence: 2, MaxTimestamp: 2}
	timeless  = Config{Nodes: 3, Clients: 2, TTL: 1, Writing: true, MaxFence: 2, MaxTimestamp: 2, Timeless: true}
	announced = Config{Nodes: 3, Clients: 3, TTL: 1, Writing: true, Pilots: 1}
	strays    = Config{Nodes: 1, Clients: 2, TTL: 1, Writing: true, Pilots: 1, Late: true, Strays: true}
	handed    = Config{Nodes: 3, Clients: 2, TTL: 1, Writing: true, Pilots: 1, MaxFence: 2, MaxTimestamp: 1}
)

// mistakes are rules that break a claim.
var mistakes = []struct {
	name   string
	config Config
	rules  Rules
	broken claim
}{
	{"an extension does not purge", late, Rules{ExtendRead: extendUnpurged}, kept},
	{"a release does not purge", oneNode, Rules{ReleaseRead: releaseUnpurged}, lingering},
	{
		"one time to live for all readers", oneNode,
		Rules{AcquireRead: acquireOneTime, ExtendRead: extendOneTime},
		ownTime,
	},
	{"an extension prolongs all readers", oneNode, Rules{ExtendRead: extendOneTime}, ownTime},
	{"the marker outlives its members", oneNode, Rules{ReleaseRead: releaseLong}, lingering},
	{"the marker is as long as the latest member", anyTime, Rules{AcquireRead: acquireShort}, covered},
	{"the marker is as long as the latest extension", anyTime, Rules{ExtendRead: extendShort}, covered},
	{"the marker is rounded down", oneNode, Rules{AcquireRead: acquireRounded}, covered},
	{
		"the marker is rounded down, exclusion", quorum,
		Rules{AcquireRead: acquireRounded, Only: exclusive},
		exclusive,
	},
	{"a writer's key does not refuse readers", quorum, Rules{AcquireRead: acquireBesideWriter, Only: exclusive}, exclusive},
	{"a release deletes the key of other readers", oneNode, Rules{ReleaseRead: releaseAll}, covered},
	{
		"a release deletes the key of other readers, exclusion", quorum,
		Rules{ReleaseRead: releaseAll, Only: exclusive},
		exclusive,
	},
	{"a heal votes", quorum, Rules{CountHealed: true}, kept},
	{"an extension takes a writer's key", late, Rules{ExtendRead: extendAnyKey}, covered},
	{"an extension is refused because of an intent", waiting, Rules{ExtendRead: extendUnlessIntent}, extended},
	{"a reader does not look for intents", waiting, Rules{AcquireRead: acquireUnasked}, respected},
	{"a reader whose turn has come asks like any other", waiting, Rules{AcquireRead: acquireTurnless}, inTurn},
	{"another library deletes the marker", others, Rules{ReleaseForeign: deleteMarker}, covered},
	{
		"another library deletes the marker, exclusion", others,
		Rules{ReleaseForeign: deleteMarker, Only: exclusive},
		exclusive,
	},
	{"an extension finds a member although the key was deleted", deleted, Rules{ExtendRead: extendRevived}, kept},
	{"a new reader's marker brings back members of a deleted key", deleted, Rules{AcquireRead: acquireRevived}, ownTime},
	{
		"the last reader deletes any key", deleted,
		Rules{ReleaseRead: releaseUncompared, Only: othersKey},
		othersKey,
	},
	{"a release serves one reader", waiting, Rules{ReleaseWrite: writeTo(handToOne), Only: together}, together},
	{"a release serves readers before a writer", waiting, Rules{ReleaseRead: releaseTo(handToAllReaders)}, inOrder},
	{"a hand-over shortens a reader's time", waiting, Rules{ReleaseWrite: writeTo(handShort)}, covered},
	{"a writer stops waiting and tells nobody", waiting, Rules{ReleaseWrite: leaveSilently}, woken},
	{"a waiting writer keeps readers out without an intent", waiting, Rules{AcquireRead: acquireBehind}, admitted},
	{"a writer that leaves leaves its intent", waiting, Rules{ReleaseWrite: leaveAnnounced}, withdrawn},
	{"a writer that was handed the key leaves its intent", waiting, Rules{ReleaseWrite: leaveHanded}, withdrawn},
	{"a writer takes another's intent back", waiting, Rules{ReleaseWrite: leaveUncompared}, withdrawn},
	{"a writer counts the answer to its intent", announced, Rules{CountIntent: true}, exclusive},
	{"a late intent ends readers", strays, Rules{ExtendRead: extendUnlessIntent}, extended},
	{"a late intent keeps a reader out whose turn has come", strays, Rules{AcquireRead: acquireTurnless}, inTurn},
	{"readers raise like writers", fenced, Rules{RaiseRead: raiseStrictly}, peaceful},
	{"a reader raises nothing", fenced, Rules{NotRaised: true}, ordered},
	{"a reader raises nothing, without time", timeless, Rules{NotRaised: true}, ordered},
	{"a reader takes any number that a quorum is at", fenced, Rules{SmallToken: true}, ordered},
	{"a writer counts a vote that was handed over, as it is", handed, Rules{TrustWrite: true}, ordered},
}

func TestEveryKnownMistakeIsFound(t *testing.T) {
	for _, test := range mistakes {
		t.Run(test.name, func(t *testing.T) {
			report := Explore(test.config, test.rules)
			require.True(t, report.Broken, "not found in %v", report)
			report.Count = nil
			t.Log(report)
			assert.Contains(t, report.Trace[len(report.Trace)-1], test.broken.String())
		})
	}
}

// Exclusion and tokens do not need these. The library does not do them, for other reasons.
func TestHarmlessChangesBreakNothing(t *testing.T) {
	intents := Config{Nodes: 3, Clients: 3, TTL: 1, Writing: true, Pilots: 1}
	if search.Race || !search.Soaking() {
		intents.Clients = 2
	}
	for _, test := range []struct {
		name   string
		size   search.Size
		config Config
		rules  Rules
		states int // at least
	}{
		// As long as an extension's verdict counts only while the lock is held.
		{"a heal votes, exclusion", search.Large, quorum, Rules{CountHealed: true, Only: exclusive}, 50_000},
		{"a reader does not look for intents, exclusion", search.Always, intents, Rules{AcquireRead: acquireUnasked, Only: exclusive}, 10_000},
		{"a reader raises at nodes where it is none", search.Always, fenced, Rules{RaiseRead: raiseAnyones}, 30_000},
		{"a reader counts a vote that was handed over, as it is", search.Soak, handed, Rules{TrustRead: true}, 1_500_000},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.size.Skip(t)
			report := Explore(test.config, test.rules)
			t.Log(report)
			assert.False(t, report.Broken)
			assert.GreaterOrEqual(t, report.States, test.states)
		})
	}
}
