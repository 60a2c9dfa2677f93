package memory

import (
	"testing"

	"github.com/redquorum/redquorum/internal/proof/search"
)

func TestMain(m *testing.M) { search.Main(m, "memory") }

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
func tearing(c *Config)       { c.Durable, c.Tear = true, true }
func reborn(c *Config)        { c.Durable, c.Reborn = true, true }

// basic are the kinds of steps that every search must reach.
func basic(Config) []search.Kind {
	return []search.Kind{Admits, WritesLost, ActivatesByTime, IsGranted, Counts, Holds, Ends}
}

var whenNew = []search.Kind{
	SeesNew, WritesNew, MakesLost, SwapFails, SeesNewAgain, SeesOtherwise, ActivatesCluster, Flushed,
}

func TestTwoClientsNeverHoldTheLockAtOnce(t *testing.T) {
	holds := search.Holds(t, Explore, basic)
	holds("a new cluster, and a node that forgets", search.Always,
		Config{Clients: 2, Faults: 1, Kinds: Flush}, Rules{}, 20_000, whenNew...)
	holds("all nodes forget", search.Large,
		Config{Clients: 2, Formed: true, Faults: 3, Kinds: Flush}, Rules{}, 40_000, whenNew...)
	holds("all nodes forget, and clients too, strict", search.Large,
		Config{Clients: 2, Strict: true, Formed: true, Faults: 3, Kinds: Flush, Restarts: 1},
		Rules{}, 50_000, WritesNew, MakesLost, ClientRestarts, Flushed)
	holds("a fault of any kind", search.Large,
		Config{Clients: 2, Formed: true, Faults: 1, Kinds: AnyFault, Copies: 1, Toggle: true},
		Rules{}, 150_000, RestartsEmpty, RestartsWithCopy, Flushed, ReplicatesOther, ReplicatesCopy, ReplicatesItself)
	holds("a new cluster, two nodes that forget, and a client that forgets", search.Large,
		Config{Clients: 2, Faults: 2, Kinds: Flush, Restarts: 1},
		Rules{}, 150_000, append(whenNew, ClientRestarts)...)
	holds("a slow writer", search.Large,
		Config{Clients: 2, Formed: true, Faults: 2, Kinds: Flush | Empty, Racing: true},
		Rules{}, 180_000, Intends, SwapFails, WritesNew, MakesLost)
	holds("durable nodes", search.Large,
		Config{Clients: 2, Formed: true, Durable: true, Faults: 2, Kinds: Full | Replica | Flush, Reborn: true},
		Rules{}, 100_000, RestartsDurable, TakesRun, ReplicatesOther, Flushed)
	holds("nodes that are sometimes durable", search.Soak,
		Config{Clients: 2, Formed: true, Durable: true, Faults: 2, Kinds: AnyFault, Copies: 1, Toggle: true},
		Rules{}, 400_000, RestartsDurable, RestartsWithCopy, TakesRun, ReplicatesItself)
	holds("durable nodes, and three faults", search.Soak,
		Config{Clients: 2, Formed: true, Durable: true, Faults: 3, Kinds: Full | Replica | Flush},
		Rules{}, 1_500_000, RestartsDurable, TakesRun, ReplicatesOther, Flushed)
	holds("durable nodes, of which some load a part of their logs", search.Always,
		with(formed(2, Full|Part), tearing), Rules{}, 20_000, RestartsDurable, RestartsInPart, TakesRun)
	holds("durable nodes, of which some load old logs and parts", search.Large,
		with(formed(2, Full|Part|Stale), func(c *Config) { tearing(c); c.Copies = 1 }),
		Rules{}, 100_000, RestartsDurable, RestartsInPart, RestartsWithCopy, TakesRun)
	holds("a new cluster, a client that forgets, and a slow writer", search.Soak,
		Config{Clients: 2, Faults: 1, Kinds: Flush | Empty, Restarts: 1, Racing: true},
		Rules{}, 600_000, append(whenNew, Intends)...)
	holds("a new cluster, and two crashes of any kind", search.Soak,
		Config{Clients: 2, Faults: 2, Kinds: Empty | Stale, Copies: 1},
		Rules{}, 1_000_000, RestartsEmpty, RestartsWithCopy, ActivatesCluster)
	holds("replicas, and replids that change", search.Soak,
		Config{Clients: 2, Formed: true, Faults: 1, Kinds: Replica | OldMaster, Copies: 1, Renew: true},
		Rules{}, 400_000, RenewsReplid, ReplicatesOther, ReplicatesItself)
	holds("two replicas", search.Soak,
		Config{Clients: 2, Formed: true, Faults: 2, Kinds: Replica | OldMaster, Copies: 1},
		Rules{}, 1_000_000, ReplicatesOther, ReplicatesCopy, ReplicatesItself)
	holds("three clients, a new cluster, and a node that forgets", search.Soak,
		Config{Clients: 3, Faults: 1, Kinds: Flush}, Rules{}, 200_000, whenNew...)
	holds("three clients, and all nodes forget", search.Soak,
		Config{Clients: 3, Formed: true, Faults: 3, Kinds: Flush}, Rules{}, 200_000, whenNew...)
}

// A protocol that trusts nobody is safe. This one also gives a node its vote back after every
// fault.
func TestANodeVotesAgainAfterEveryFault(t *testing.T) {
	for fault, config := range map[search.Kind]Config{
		RestartsEmpty:    {Kinds: Empty},
		RestartsWithCopy: {Kinds: Stale, Copies: 1},
		RestartsDurable:  {Kinds: Full, Durable: true},
		RestartsInPart:   {Kinds: Part, Durable: true, Tear: true},
		Flushed:          {Kinds: Flush},
		ReplicatesOther:  {Kinds: Replica},
		ReplicatesItself: {Kinds: OldMaster, Copies: 1},
	} {
		config.Clients, config.Formed, config.Faults, config.Track = 1, true, 1, true
		holds := search.Holds(t, Explore, nil)
		holds(string(fault), search.Always, config, Rules{}, 0, fault, HoldsByHurt)
		config.Strict = true
		holds(string(fault)+", strict", search.Always, config, Rules{}, 0, fault, HoldsByHurt)
	}
}

// These are rules, and worlds outside of the promise, in which two clients hold the lock.
func TestEveryKnownMistakeIsFound(t *testing.T) {
	search.Large.Skip(t)
	finds := search.Finds(t, Explore)
	finds("no proof", search.Always, formed(1, Flush), Rules{NoProof: true}, oneHolder)
	finds("GET before the votes", search.Always, formed(1, Flush), Rules{ProveFirst: true}, oneHolder)
	finds("a proof that does not compare the run id", search.Large,
		with(formed(2, Full|OldMaster), durableCopies), Rules{ProveNoRun: true}, oneHolder)
	finds("votes under new", search.Always, formed(1, Flush), Rules{CountNew: true}, oneHolder)
	finds("votes under lost", search.Always, formed(1, Flush), Rules{CountWaiting: true}, oneHolder)
	finds("a cluster is new when a majority is", search.Large, formed(2, Flush), Rules{MajorityIsNew: true}, oneHolder)
	finds("a cluster is new after one look", search.Large,
		Config{Clients: 2, Faults: 1, Kinds: Empty}, Rules{OneLook: true}, oneHolder)
	finds("lost is taken for new", search.Large, formed(3, Flush), Rules{LostIsNew: true}, oneHolder)
	finds("a marker without a run id", search.Always, with(formed(1, Stale), copies), Rules{AnyRun: true}, oneHolder)
	finds("new and lost without a run id", search.Soak,
		with(formed(2, Flush|Stale), strictCopies), Rules{AnyRunWaiting: true}, oneHolder)
	finds("T by the client's clock", search.Always, formed(1, Flush), Rules{OwnClock: true}, oneHolder)
	finds("active without a comparison", search.Large,
		Config{Clients: 2, Faults: 1, Kinds: Flush}, Rules{Blind: true}, oneHolder)
	finds("durable now", search.Always,
		with(formed(1, Stale), func(c *Config) { c.Copies, c.Toggle = 1, true }), Rules{DurableNow: true}, oneHolder)
	finds("durable then", search.Always,
		with(formed(1, Stale), func(c *Config) { c.Copies, c.Toggle, c.Durable = 1, true, true }),
		Rules{DurableThen: true}, oneHolder)
	finds("a part of a log", search.Always, with(formed(1, Part), tearing), Rules{LoadsAll: true}, oneHolder)
	finds("a log without its end", search.Always,
		with(formed(2, Part|Stale), func(c *Config) { tearing(c); c.Copies = 1 }), Rules{LoadsAll: true}, oneHolder)
	finds("a part of a log, by a server that once loaded all", search.Always,
		with(formed(1, Part), tearing), Rules{LoadsThen: true}, oneHolder)
	finds("durable, although it was a replica", search.Large,
		with(formed(2, Full|OldMaster), durableCopies), Rules{PromotedTrust: true}, oneHolder)
	finds("durable, and another node has the incarnation", search.Large,
		with(formed(2, Full|Replica), reborn), Rules{ElsewhereTrust: true}, oneHolder)
	finds("durable, and a node that cannot be read has the incarnation", search.Large,
		with(formed(2, Full|Replica), reborn), Rules{ElsewhereKnown: true}, oneHolder)
	finds("no witness of replicas", search.Always, with(formed(1, OldMaster), copies), Rules{NoWitness: true}, oneHolder)
	finds("no witness of replicas where the marker waits", search.Soak,
		with(formed(2, Flush|OldMaster), strictCopies), Rules{WitnessActive: true}, oneHolder)
	finds("new, by a client that knew the node", search.Soak, formed(3, Flush), Rules{Unknowing: true}, oneHolder)
	finds("new is left, by a client that knew the node", search.Large,
		formed(3, Flush), Rules{LeaveNew: true}, oneHolder)
	finds("outside: a part of a log, and nobody sees it", search.Always,
		with(formed(2, Full|Part), func(c *Config) { tearing(c); c.Unseen = true }), Rules{}, oneHolder)
	finds("outside: a single key", search.Always, formed(1, Single), Rules{}, oneHolder)
	finds("outside: every node forgets", search.Large,
		with(formed(3, Flush), func(c *Config) { c.Forget = true }), Rules{}, oneHolder)
	finds("outside: its own replica, under a connection", search.Large,
		with(formed(1, OldMaster), func(c *Config) { c.Copies, c.OwnReplica = 1, true }), Rules{}, oneHolder)
	finds("outside: another node's data, and a restart", search.Soak,
		with(formed(3, Full|Replica|Flush), reborn), Rules{}, oneHolder)
	finds("outside: its own replica, and a restart", search.Soak,
		with(formed(2, Full|OldMaster), func(c *Config) { c.Copies, c.Durable, c.Reborn = 1, true, true }),
		Rules{}, oneHolder)
	finds("outside: an older disk", search.Always,
		with(formed(1, Stale), func(c *Config) { c.Copies, c.Durable, c.Rollback = 1, true, true }), Rules{}, oneHolder)
}

// The argument does not need these.
func TestHarmlessChangesLeaveOneHolder(t *testing.T) {
	search.Large.Skip(t)
	holds := search.Holds(t, Explore, nil)
	holds("lost keeps the incarnation of a copy", search.Large,
		with(formed(1, Stale|OldMaster), copies), Rules{SameName: true}, 0)
	holds("that a server loaded a part of its log when the marker was written", search.Large,
		with(formed(2, Full|Part), tearing), Rules{LoadsNow: true}, 0)
	holds("no comparison of run ids in the proof, if nodes are not durable", search.Large,
		with(formed(1, AnyFault), copies), Rules{ProveNoRun: true}, 0)
}

func TestNamesMeanNothing(t *testing.T) {
	search.CheckNames(t, newExplorer(Config{
		Clients: 2, Faults: 3, Kinds: AnyFault, Copies: 2, Toggle: true, Restarts: 1, Racing: true, Durable: true, Renew: true,
	}, Rules{}), 3_000)
}
