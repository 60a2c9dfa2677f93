package shared

import (
	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

// The claims.
const (
	exclusive = "nobody holds the lock beside a writer"
	covered   = "what a node promised a client is there for as long as it promised"
	lingering = "the marker lives no longer than the reader that lives longest"
	ownTime   = "a reader lives no longer than it asked for"
	othersKey = "nobody touches a writer's key but that writer"
	kept      = "a node votes for an extension only if it kept the lock until then"
	extended  = "a node that kept the lock votes for its extension"
	respected = "an intent keeps new readers out"
	admitted  = "only a writer's key or an intent keeps a reader out"
	inTurn    = "only a writer's key keeps a reader out whose turn has come"
	withdrawn = "a writer that leaves takes its intent back, and nobody else's"
	together  = "readers that wait together are served together"
	woken     = "a release leaves nobody waiting who could go on"
	inOrder   = "waiters are served in order"
	peaceful  = "a reader's raise succeeds while it is a reader"
	unique    = "tokens of writers are unique"
	ordered   = "a later lock has a larger token, or, between readers or after a writer, as large a one"
)

// Config is how much of the world a search covers. Clients make any number of attempts, in any
// order, and up to Clients at once.
type Config struct {
	Nodes   int // 1..3
	Clients int // 1..3
	TTL     int // 1..3, in ticks

	AnyTTL  bool // each request asks for any time up to TTL
	Writing bool // clients write, too
	Foreign bool // and some do so with another library
	// Coordinators is at how many nodes attempts may wait, 0..Nodes. With 0 there are no intents
	// either.
	Coordinators int

	// Late lets messages arrive when their attempt is over. Without it, those of other attempts
	// stand in for them.
	Late bool

	// Strays lets intents of writers that have long left arrive at any time.
	Strays bool

	MaxFence     int // 0..3; 0 is without fencing. Steps that lead above it are left out
	MaxTimestamp int // 0..MaxFence

	// Timeless is a world in which any key or member may expire at any step, and clients do not
	// know. Tokens must be in order there, and nothing else is looked at.
	Timeless bool

	// Faults is how often the key of a node is deleted, and nothing beside it, 0..1. Exclusion is
	// not looked at then, because a lock on a bare majority does not survive that.
	Faults int
}

// Rules are the protocol. The zero Rules are the right ones; anything set is a mistake to be found.
type Rules struct {
	AcquireRead    acquiring
	ExtendRead     extending
	ReleaseRead    releasing
	RaiseRead      func(e *entry, v Value, t int64) bool
	ReleaseWrite   releasing
	ReleaseForeign func(e *entry, v Value) bool

	CountHealed bool // a healed node votes
	CountIntent bool // a writer takes the answer to its intent for a vote
	TrustRead   bool // a waiting reader counts a vote that was handed to it, as it finds it
	TrustWrite  bool // and so does a waiting writer
	NotRaised   bool // a reader takes the largest of its grants as its token, and raises nothing
	SmallToken  bool // a reader takes any number that a quorum is at or above

	Only string // no mistake: look only at this claim
}

// An entry is what the search keeps for a node. The others are its scripts.
type (
	entry     = spec.Entry[Value]
	acquiring = func(e *entry, v Value, ttl, ts int64, turn bool) (int64, bool)
	extending = func(e *entry, v Value, ttl int64) spec.Answer
	releasing = func(e *entry, v Value, grace int64, alive func(Value) bool) bool
)

// Explore searches all worlds of the Config for one in which the Rules break a claim.
func Explore(config Config, rules Rules) search.Report {
	return search.Run(func() search.Model[world] { return newExplorer(config, rules) })
}

type explorer struct {
	Config
	Rules
	scratch entry
}

func newExplorer(config Config, rules Rules) *explorer {
	search.Default(&rules.AcquireRead, (*entry).AcquireRead)
	search.Default(&rules.ExtendRead, (*entry).HealRead)
	search.Default(&rules.ReleaseRead, (*entry).ReleaseRead)
	search.Default(&rules.RaiseRead, (*entry).RaiseRead)
	search.Default(&rules.ReleaseWrite, (*entry).ReleaseWrite)
	search.Default(&rules.ReleaseForeign, (*entry).ReleaseForeign)
	if config.Nodes > maxNodes || config.Clients > maxClients || config.Coordinators > config.Nodes || config.TTL > maxTTL || config.MaxFence > maxFence ||
		config.Faults > 1 || config.Timeless && (config.TTL != 1 || config.Faults > 0 || config.Late) {
		panic("shared: no such world")
	}
	x := &explorer{Config: config, Rules: rules}
	x.scratch.Marker = marker
	return x
}

// Start is a world in which nothing has happened yet.
func (x *explorer) Start() (w world) {
	w.faults = uint8(x.Faults)
	return w
}

// need is how many nodes are a quorum.
func (x *explorer) need() int { return x.Nodes/2 + 1 }

// load copies a node into the scratch entry; store copies it back. The clock of the entry stands at
// 0, so a time is what is left.
func (x *explorer) load(w *world, n int) *entry {
	e, at := &x.scratch, &w.nodes[n]
	e.Key, e.Until, e.Intent, e.Fence = at.key, int64(at.left), at.intent, int64(at.fence)
	e.Members, e.Waiting = e.Members[:0], e.Waiting[:0]
	for c, m := range at.members {
		if m != noMember {
			e.Members = append(e.Members, spec.Member[Value]{Value: valueOf(c), Until: int64(m) - expired})
		}
	}
	for _, v := range at.waiting {
		if v != nobody {
			e.Waiting = append(e.Waiting, spec.Waiter[Value]{Value: v, Reads: w.clients[v-firstClient].mode == reader})
		}
	}
	return e
}

func (x *explorer) store(w *world, n int) {
	e, at := &x.scratch, &w.nodes[n]
	*at = nodeState{key: e.Key, left: int8(e.Until), intent: e.Intent, fence: int8(e.Fence)}
	for _, m := range e.Members {
		at.members[m.Value-firstClient] = int8(max(m.Until, 0)) + expired
	}
	for i, v := range e.Waiting {
		at.waiting[i] = v.Value
	}
}
