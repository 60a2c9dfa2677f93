package memory

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/search"
)

// basic are the kinds of steps that every search must reach.
var basic = []Kind{Admits, WritesLost, ActivatesByTime, IsGranted, Counts, Holds, Ends}

var whenNew = []Kind{
	SeesNew, WritesNew, MakesLost, SwapFails, SeesNewAgain, SeesOtherwise, ActivatesCluster, Flushed,
}

// searches are worlds in which two clients never hold the lock at once.
var searches = []struct {
	name   string
	size   search.Size
	config Config
	states int // at least
	kinds  []Kind
}{
	{
		"a new cluster, and a node that forgets", search.Always,
		Config{Clients: 2, Faults: 1, Kinds: Flush},
		20_000, whenNew,
	},
	{
		"all nodes forget", search.Large,
		Config{Clients: 2, Formed: true, Faults: 3, Kinds: Flush},
		40_000, whenNew,
	},
	{
		"all nodes forget, and clients too, strict", search.Large,
		Config{Clients: 2, Strict: true, Formed: true, Faults: 3, Kinds: Flush, Restarts: 1},
		50_000,
		[]Kind{WritesNew, MakesLost, ClientRestarts, Flushed},
	},
	{
		"a fault of any kind", search.Large,
		Config{Clients: 2, Formed: true, Faults: 1, Kinds: AnyFault, Copies: 1, Toggle: true},
		150_000,
		[]Kind{RestartsEmpty, RestartsWithCopy, Flushed, ReplicatesOther, ReplicatesCopy, ReplicatesItself},
	},
	{
		"a new cluster, two nodes that forget, and a client that forgets", search.Large,
		Config{Clients: 2, Faults: 2, Kinds: Flush, Restarts: 1},
		150_000, append(whenNew, ClientRestarts),
	},
	{
		"a slow writer", search.Large,
		Config{Clients: 2, Formed: true, Faults: 2, Kinds: Flush | Empty, Racing: true},
		180_000,
		[]Kind{Intends, SwapFails, WritesNew, MakesLost},
	},
	{
		"durable nodes", search.Large,
		Config{Clients: 2, Formed: true, Durable: true, Faults: 2, Kinds: Full | Replica | Flush, Reborn: true},
		100_000,
		[]Kind{RestartsDurable, TakesRun, ReplicatesOther, Flushed},
	},
	{
		"nodes that are sometimes durable", search.Soak,
		Config{Clients: 2, Formed: true, Durable: true, Faults: 2, Kinds: AnyFault, Copies: 1, Toggle: true},
		400_000,
		[]Kind{RestartsDurable, RestartsWithCopy, TakesRun, ReplicatesItself},
	},
	{
		"durable nodes, and three faults", search.Soak,
		Config{Clients: 2, Formed: true, Durable: true, Faults: 3, Kinds: Full | Replica | Flush},
		1_500_000,
		[]Kind{RestartsDurable, TakesRun, ReplicatesOther, Flushed},
	},
	{
		"a new cluster, a client that forgets, and a slow writer", search.Soak,
		Config{Clients: 2, Faults: 1, Kinds: Flush | Empty, Restarts: 1, Racing: true},
		600_000,
		append(whenNew, Intends),
	},
	{
		"a new cluster, and two crashes of any kind", search.Soak,
		Config{Clients: 2, Faults: 2, Kinds: Empty | Stale, Copies: 1},
		1_000_000,
		[]Kind{RestartsEmpty, RestartsWithCopy, ActivatesCluster},
	},
	{
		"replicas, and replids that change", search.Soak,
		Config{Clients: 2, Formed: true, Faults: 1, Kinds: Replica | OldMaster, Copies: 1, Renew: true},
		400_000,
		[]Kind{RenewsReplid, ReplicatesOther, ReplicatesItself},
	},
	{
		"two replicas", search.Soak,
		Config{Clients: 2, Formed: true, Faults: 2, Kinds: Replica | OldMaster, Copies: 1},
		1_000_000,
		[]Kind{ReplicatesOther, ReplicatesCopy, ReplicatesItself},
	},
	{
		"three clients, a new cluster, and a node that forgets", search.Soak,
		Config{Clients: 3, Faults: 1, Kinds: Flush},
		200_000, whenNew,
	},
	{
		"three clients, and all nodes forget", search.Soak,
		Config{Clients: 3, Formed: true, Faults: 3, Kinds: Flush},
		200_000, whenNew,
	},
}

func TestTwoClientsNeverHoldTheLockAtOnce(t *testing.T) {
	for _, test := range searches {
		t.Run(test.name, func(t *testing.T) {
			test.size.Skip(t)
			report := Explore(test.config, Rules{})
			t.Log(report)
			require.False(t, report.Broken, "two clients hold the lock")
			assert.GreaterOrEqual(t, report.States, test.states)
			for _, kind := range append(basic, test.kinds...) {
				assert.Positive(t, report.Count[kind], "never: %v", kind)
			}
		})
	}
}

// A protocol that trusts nobody is safe. This one also gives a node its vote back after every
// fault.
func TestANodeVotesAgainAfterEveryFault(t *testing.T) {
	for _, test := range []struct {
		name   string
		config Config
		fault  Kind
	}{
		{"an empty restart", Config{Kinds: Empty}, RestartsEmpty},
		{"a restart with a copy", Config{Kinds: Stale, Copies: 1}, RestartsWithCopy},
		{"a durable restart", Config{Kinds: Full, Durable: true}, RestartsDurable},
		{"FLUSHALL", Config{Kinds: Flush}, Flushed},
		{"another node's data", Config{Kinds: Replica}, ReplicatesOther},
		{"a copy", Config{Kinds: OldMaster, Copies: 1}, ReplicatesItself},
	} {
		for _, strict := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				config := test.config
				config.Clients, config.Formed, config.Faults, config.Strict, config.Track = 1, true, 1, strict, true
				report := Explore(config, Rules{})
				t.Log(report)
				require.False(t, report.Broken)
				assert.Positive(t, report.Count[test.fault])
				assert.Positive(t, report.Count[HoldsByHurt])
			})
		}
	}
}

// The result of a search must not depend on the order of clients and nodes, or on the numbers of
// incarnations.
func TestCodesKeepAllThatMatters(t *testing.T) {
	x := newExplorer(Config{
		Clients: 2, Faults: 3, Kinds: AnyFault, Copies: 2, Toggle: true, Restarts: 1, Racing: true, Durable: true, Renew: true,
	}, Rules{})
	w := x.Start()
	rounds := 3_000
	if search.Race {
		rounds = 200
	}
	for range rounds {
		c := x.Encode(&w)
		again := x.Decode(c)
		require.Equal(t, c, x.Encode(&again), "%+v", w)
		codes := map[labelled]int{}
		steps := 0
		x.Each(&w, func(next *world, e event) { steps++; codes[labelled{x.Encode(next), e.kind}]++ })
		x.Each(&again, func(next *world, e event) { codes[labelled{x.Encode(next), e.kind}]-- })
		for to, n := range codes {
			require.Zero(t, n, "%v leads elsewhere from %+v", to.kind, w)
		}
		if steps == 0 || w.faults == 0 && c[0]%16 == 0 {
			w = x.Start()
			continue
		}
		pick, n := int(c[0]%uint64(steps)), 0
		at := w
		x.Each(&at, func(next *world, _ event) {
			if n == pick {
				w = *next
			}
			n++
		})
	}
}

// labelled is a step as a code shows it.
type labelled struct {
	code
	kind Kind
}
