package permit

import (
	"slices"

	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

// The claims.
const (
	enough          = "no more clients hold a permit than each of them believes there are, and each its own"
	coordinatorWins = "a client that the coordinator gave a slot gets it"
	inOrder         = "waiters are served in order"
)

// Config is how much of the world a search for too many holders covers. Clients make any number of
// attempts, and choose at random what a client may choose: the node that they wait at, the slot
// that they ask for first, the slot that they collect.
//
// Nothing is assumed of messages. A request of the present attempt may be executed at any time, any
// number of times, and its answer may be lost. Of time, only this is assumed: a key lives at least
// as long as the attempt or lock that counts a vote for it. An attempt or lock may end at any step.
type Config struct {
	Permits []int // the number of permits that each client asks for, in ascending order
	Waiting bool  // clients may wait, and releases hand over
	Renew   bool  // locks are extended
	Losses  int   // of a node's data, 0..3
	Strays  bool  // requests for any slot may arrive behind those for one slot

	// Leftovers keeps what attempts leave behind even where nobody waits, so that it refuses votes,
	// and late requests of attempts that are over. Without it, they disappear there at once: they
	// could only refuse votes.
	Leftovers bool

	// LongGrace lets a slot that was handed over live as long as the attempt of its waiter.
	LongGrace bool
}

// Rules are the protocol. The zero Rules are the right ones; anything set is a mistake to be found.
type Rules struct {
	AnySlot      bool // votes for different slots count together: each node counts permits
	NoCompare    bool // a release does not compare the value
	TrustMessage bool // the message about a hand-over counts as a vote
	HandTwice    bool // a release tells the two oldest waiters
	HealVotes    bool // an extension that sets keys again is a vote
	SlotOnly     bool // an extension neither sets nor compares the number
	SlotVotes    bool // an extension does not compare the number
	LaxNode      bool // the first node takes any number of permits
	LaxSlot      bool // a request for one slot does not compare the number
	OwnSlots     bool // the number may change when none of the caller's slots is taken
	Expires      bool // the number of permits may expire before the slots
	ManySlots    bool // one value may ask for one slot after the other
	LossVotes    bool // a node that lost its data votes at once
	NoRefresh    bool // a node confirms a slot that was handed over without giving it the full TTL
	TakesTwo     bool // no mistake, only waste: a value may have several slots
}

// Explore searches all worlds of the Config for one with too many holders.
func Explore(config Config, rules Rules) search.Report {
	return search.Run(func() search.Model[world] { return newExplorer(config, rules) })
}

type explorer struct {
	Config
	Rules
	clients int
	had     [spec.MaxPermits]value // what a node had before the request that it executes
}

func newExplorer(config Config, rules Rules) *explorer {
	x := &explorer{Config: config, Rules: rules, clients: len(config.Permits)}
	if x.clients > maxClients || slices.Max(config.Permits) > permits || !slices.IsSorted(config.Permits) {
		panic("permit: no such world")
	}
	return x
}

// Start is a world in which nothing has happened yet.
func (x *explorer) Start() (w world) {
	w.losses = uint8(x.Losses)
	return w
}

type visitor = func(next *world, e search.Event)

// Each visits every step.
func (x *explorer) Each(w *world, visit visitor) {
	tidied := func(next *world, e search.Event) {
		x.tidy(next)
		if *next != *w || e.Broken != "" {
			visit(next, e)
		}
	}
	for c := range x.clients {
		x.ends(w, c, tidied)
		for n := range w.nodes {
			x.asks(w, c, n, tidied)
			x.extends(w, c, n, tidied)
		}
	}
	for n := range w.nodes {
		x.loses(w, n, tidied)
		for slot := 1; slot <= permits; slot++ {
			x.frees(w, n, slot, tidied)
		}
	}
}

// tidy drops what cannot matter any more.
func (x *explorer) tidy(w *world) {
	for c := range x.clients {
		if one := &w.clients[c]; one.phase == holding { // votes that do not hold the lock
			for n := range one.votes {
				if one.votes[n] != one.slot {
					one.votes[n] = unknown
				}
			}
		}
	}
	for n := range w.nodes {
		m := &w.nodes[n]
		if x.Leftovers {
			continue
		}
		m.Leave(over)
		if m.Waiting[0] != nobody {
			continue
		}
		for i := range permits {
			if m.Slots[i] == over {
				m.Slots[i] = nobody
			}
		}
	}
}
