package memory

import (
	"testing"

	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func formed(faults int, kinds Fault) Config {
	return Config{Clients: 2, Formed: true, Faults: faults, Kinds: kinds}
}

func with(c Config, change func(*Config)) Config {
	change(&c)
	return c
}

func copies(c *Config)        { c.Copies = 1 }
func strictCopies(c *Config)  { c.Copies, c.Strict = 1, true }
func durableCopies(c *Config) { c.Copies, c.Durable = 1, true }
func reborn(c *Config)        { c.Durable, c.Reborn = true, true }

// mistakes are rules, and worlds outside of the promise, in which two clients hold the lock.
var mistakes = []struct {
	name   string
	size   search.Size
	config Config
	rules  Rules
}{
	{"no proof", search.Always, formed(1, Flush), Rules{NoProof: true}},
	{"GET before the votes", search.Always, formed(1, Flush), Rules{ProveFirst: true}},
	{
		"a proof that does not compare the run id", search.Large,
		with(formed(2, Full|OldMaster), durableCopies),
		Rules{ProveNoRun: true},
	},
	{"votes under new", search.Always, formed(1, Flush), Rules{CountNew: true}},
	{"votes under lost", search.Always, formed(1, Flush), Rules{CountWaiting: true}},
	{
		"a cluster is new when a majority is", search.Large,
		formed(2, Flush),
		Rules{MajorityIsNew: true},
	},
	{
		"a cluster is new after one look", search.Large,
		Config{Clients: 2, Faults: 1, Kinds: Empty},
		Rules{OneLook: true},
	},
	{"lost is taken for new", search.Large, formed(3, Flush), Rules{LostIsNew: true}},
	{"a marker without a run id", search.Always, with(formed(1, Stale), copies), Rules{AnyRun: true}},
	{
		"new and lost without a run id", search.Soak,
		with(formed(2, Flush|Stale), strictCopies),
		Rules{AnyRunWaiting: true},
	},
	{"T by the client's clock", search.Always, formed(1, Flush), Rules{OwnClock: true}},
	{
		"active without a comparison", search.Large,
		Config{Clients: 2, Faults: 1, Kinds: Flush},
		Rules{Blind: true},
	},
	{
		"durable now", search.Always,
		with(formed(1, Stale), func(c *Config) { c.Copies, c.Toggle = 1, true }),
		Rules{DurableNow: true},
	},
	{
		"durable then", search.Always,
		with(formed(1, Stale), func(c *Config) { c.Copies, c.Toggle, c.Durable = 1, true, true }),
		Rules{DurableThen: true},
	},
	{
		"durable, although it was a replica", search.Large,
		with(formed(2, Full|OldMaster), durableCopies),
		Rules{PromotedTrust: true},
	},
	{
		"durable, and another node has the incarnation", search.Large,
		with(formed(2, Full|Replica), reborn),
		Rules{ElsewhereTrust: true},
	},
	{
		"durable, and a node that cannot be read has the incarnation", search.Large,
		with(formed(2, Full|Replica), reborn),
		Rules{ElsewhereKnown: true},
	},
	{
		"no witness of replicas", search.Always,
		with(formed(1, OldMaster), copies),
		Rules{NoWitness: true},
	},
	{
		"no witness of replicas where the marker waits", search.Soak,
		with(formed(2, Flush|OldMaster), strictCopies),
		Rules{WitnessActive: true},
	},
	{"new, by a client that knew the node", search.Soak, formed(3, Flush), Rules{Unknowing: true}},
	{
		"new is left, by a client that knew the node", search.Large,
		formed(3, Flush),
		Rules{LeaveNew: true},
	},
	{
		"outside: every node forgets", search.Large,
		with(formed(3, Flush), func(c *Config) { c.Forget = true }),
		Rules{},
	},
	{
		"outside: its own replica, under a connection", search.Large,
		with(formed(1, OldMaster), func(c *Config) { c.Copies, c.OwnReplica = 1, true }),
		Rules{},
	},
	{
		"outside: another node's data, and a restart", search.Soak,
		with(formed(3, Full|Replica|Flush), reborn),
		Rules{},
	},
	{
		"outside: its own replica, and a restart", search.Soak,
		with(formed(2, Full|OldMaster), func(c *Config) { c.Copies, c.Durable, c.Reborn = 1, true, true }),
		Rules{},
	},
	{
		"outside: an older disk", search.Always,
		with(formed(1, Stale), func(c *Config) { c.Copies, c.Durable, c.Rollback = 1, true, true }),
		Rules{},
	},
}

func TestEveryKnownMistakeIsFound(t *testing.T) {
	for _, test := range mistakes {
		t.Run(test.name, func(t *testing.T) {
			test.size.Skip(t)
			report := Explore(test.config, test.rules)
			require.True(t, report.Broken, "not found in %v", report)
			report.Count = nil
			t.Log(report)
			assert.Contains(t, report.Trace[len(report.Trace)-1], "another client holds it")
		})
	}
}

// The argument does not need these.
func TestHarmlessChangesLeaveOneHolder(t *testing.T) {
	for _, test := range []struct {
		name   string
		config Config
		rules  Rules
	}{
		{
			"lost keeps the incarnation of a copy",
			Config{Clients: 2, Formed: true, Faults: 1, Kinds: Stale | OldMaster, Copies: 1},
			Rules{SameName: true},
		},
		{
			"no comparison of run ids in the proof, if nodes are not durable",
			Config{Clients: 2, Formed: true, Faults: 1, Kinds: AnyFault, Copies: 1},
			Rules{ProveNoRun: true},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			search.Large.Skip(t)
			report := Explore(test.config, test.rules)
			t.Log(report)
			assert.False(t, report.Broken)
		})
	}
}
