package search

import (
	"testing"

	"github.com/redquorum/redquorum/internal/proof/search"
	. "github.com/redquorum/redquorum/redlock/internal/quorum"
)

func TestMain(m *testing.M) { search.Main(m, "extensions") }

const nodesOfHolder = 3

// The claims.
const (
	learns = "a holder that the lock was taken from by force wins no extension that begins afterwards"
	keeps  = "a lock that one node forgets is not lost"
)

// The steps.
const (
	begins    search.Kind = "begins an extension"
	runs      search.Kind = "runs an extension"
	heals     search.Kind = "is healed"
	loses     search.Kind = "loses a message"
	hears     search.Kind = "hears a node"
	hearsLate search.Kind = "hears a node after the verdict"
	timesOut  search.Kind = "waits no longer"
	forces    search.Kind = "is forced"
	forgets   search.Kind = "forgets the key"
)

// letter is a message between the holder and a node.
type letter uint8

const (
	nothing letter = iota
	asks           // an extension on its way to the node
	heal
	yes // its answer on the way back
	no
)

// message is a letter of the extension that is under way, or of an earlier one.
type message struct {
	letter
	earlier bool
}

// master is a node, and the messages between it and the holder, the oldest first.
type master struct {
	key, forced bool
	messages    [3]message
}

type holding struct {
	nodes    [nodesOfHolder]master
	rounds   uint8
	extends  bool // an extension is under way
	behind   bool // it began when all nodes had been forced
	lost     bool
	lacked   NodeSet // by Denials, when it began
	ballot   Ballot
	lacking  NodeSet
	back     NodeSet
	denials  Denials
	failures uint8
}

// size says how much is tried.
type size struct {
	rounds, failures uint8
	forgetful        bool // node 1 forgets, and there is no force
}

// mistakes are made on purpose.
type mistakes struct {
	extensionHeals bool // in the script that asks
	healsUnasked   bool // a node that did not answer is healed, too
	dropsNoes      bool // of the extensions before
	dropsWhenWon   bool // the noes to the extension that was won, too
}

// holder is a search.
type holder struct {
	size
	mistakes
}

func (x *holder) Start() (h holding) {
	for n := range h.nodes {
		h.nodes[n].key = true
	}
	return h
}

func (x *holder) Each(h *holding, visit func(next *holding, e search.Event)) {
	for n := range h.nodes {
		x.node(h, n, visit)
		x.message(h, n, visit)
	}
	if h.lost {
		return
	}
	switch next := *h; {
	case h.extends:
		for n := range next.nodes {
			if !next.ballot.In().Has(n) {
				next.ballot.Add(n, Failed)
			}
		}
		x.decide(&next, timesOut, search.Nowhere, visit)
	case h.rounds < x.rounds:
		next.begin()
		visit(&next, search.Event{Kind: begins, Client: 0, Node: search.Nowhere})
	}
}

// node is what happens at a node by itself.
func (x *holder) node(h *holding, n int, visit func(next *holding, e search.Event)) {
	at := &h.nodes[n]
	next := *h
	switch next.nodes[n].key = false; {
	case !x.forgetful && !at.forced:
		next.nodes[n].forced = true
		visit(&next, search.Event{Kind: forces, Client: search.Nobody, Node: n})
	case x.forgetful && n == 0 && at.key:
		visit(&next, search.Event{Kind: forgets, Client: search.Nobody, Node: n})
	}
}

// message is a step of the messages between the holder and a node.
func (x *holder) message(h *holding, n int, visit func(next *holding, e search.Event)) {
	for i, m := range h.nodes[n].messages {
		next := *h
		at := &next.nodes[n]
		switch m.letter {
		case nothing:
			return
		case yes, no:
			if i == 0 {
				at.take(0)
				x.hear(&next, n, m, visit)
			}
			continue
		case asks:
			at.messages[i].letter = no
			if at.key {
				at.messages[i].letter = yes
			}
			at.key = at.key || x.extensionHeals
			visit(&next, search.Event{Kind: runs, Client: search.Nobody, Node: n})
		case heal:
			at.take(i)
			at.key = true
			visit(&next, search.Event{Kind: heals, Client: search.Nobody, Node: n})
		}
		if lose := *h; h.failures < x.failures {
			lose.failures++
			lose.nodes[n].take(i)
			visit(&lose, search.Event{Kind: loses, Client: search.Nobody, Node: n})
		}
		return // what comes behind it has not arrived
	}
}

// take removes a message.
func (at *master) take(i int) {
	copy(at.messages[i:], at.messages[i+1:])
	at.messages[len(at.messages)-1] = message{}
}

// send adds a message, unless too many are under way: then it is lost.
func (at *master) send(l letter) {
	for i := range at.messages {
		if at.messages[i].letter == nothing {
			at.messages[i].letter = l
			return
		}
	}
}

// begin begins an extension.
func (h *holding) begin() {
	h.rounds++
	h.extends, h.behind, h.lacked = true, true, h.denials.Lacks()
	h.ballot, h.lacking, h.back = Ballot{}, 0, 0
	for n := range h.nodes {
		at := &h.nodes[n]
		h.behind = h.behind && at.forced
		for i := range at.messages {
			at.messages[i].earlier = at.messages[i].letter != nothing && at.messages[i].letter != heal
		}
		at.send(asks)
	}
}

// hear takes a node's answer, as round.Batch does.
func (x *holder) hear(next *holding, n int, m message, visit func(next *holding, e search.Event)) {
	vote, lacking, back := Refused, Only(n), NodeSet(0)
	switch {
	case m.letter == yes && next.lacked.Has(n):
		lacking, back = 0, Only(n)
	case m.letter == yes:
		vote, lacking = Granted, 0
	}
	if !next.extends || m.earlier {
		x.add(next, lacking, back)
		visit(next, search.Event{Kind: hearsLate, Client: 0, Node: n})
		return
	}
	next.ballot.Add(n, vote)
	next.lacking, next.back = next.lacking.Or(lacking), next.back.Or(back)
	x.decide(next, hears, n, visit)
}

// decide ends the extension, if there is a verdict.
func (x *holder) decide(next *holding, kind search.Kind, n int, visit func(next *holding, e search.Event)) {
	e := search.Event{Kind: kind, Client: 0, Node: n}
	v := DecideHeld(next.ballot.Count(nodesOfHolder, All(nodesOfHolder), All(nodesOfHolder)))
	if v == Pending {
		visit(next, e)
		return
	}
	next.extends = false
	next.denials.Decided(v)
	if x.add(next, next.lacking, next.back); x.dropsWhenWon {
		next.denials.Decided(v)
	}
	if next.lost = next.lost || v == Denied; next.lost && x.forgetful {
		e.Broken = keeps
	}
	if v == Won && next.behind {
		e.Broken = learns
	}
	if x.healsUnasked {
		x.heal(next, next.ballot.Failed)
	}
	visit(next, e)
}

// add is what a lock does with what nodes say.
func (x *holder) add(next *holding, lacking, back NodeSet) {
	next.denials.Add(lacking, back)
	next.lost = next.lost || !x.dropsNoes && next.denials.Lost(func(b *Ballot) Tally {
		return b.Count(nodesOfHolder, All(nodesOfHolder), All(nodesOfHolder))
	})
	if !next.lost && !x.extensionHeals {
		x.heal(next, lacking)
	}
}

func (x *holder) heal(next *holding, nodes NodeSet) {
	for n := range next.nodes {
		if nodes.Has(n) {
			next.nodes[n].send(heal)
		}
	}
}

func explore(s size, m mistakes) search.Report {
	return search.Run(func() search.Model[holding] { return &holder{s, m} })
}

func TestAHolderLearnsThatItsLockWasTakenByForce(t *testing.T) {
	must := func(s size) []search.Kind {
		kinds := []search.Kind{begins, runs, heals, hears, hearsLate, timesOut}
		if s.failures > 0 {
			kinds = append(kinds, loses)
		}
		return append(kinds, [...]search.Kind{forces, forgets}[search.Bits(s.forgetful)])
	}
	holds := search.Holds(t, explore, must)
	holds("2 extensions", search.Always, size{rounds: 2}, mistakes{}, 30_000)
	holds("3 extensions", search.Large, size{rounds: 3}, mistakes{}, 600_000)
	holds("4 extensions", search.Soak, size{rounds: 4}, mistakes{}, 7_000_000)
	holds("3 extensions, 2 lost messages", search.Soak, size{rounds: 3, failures: 2}, mistakes{}, 3_000_000)
	holds("a node that forgets", search.Always, size{rounds: 3, forgetful: true}, mistakes{}, 20_000)
	holds("a node that forgets, and a lost message", search.Large, size{rounds: 4, failures: 1, forgetful: true}, mistakes{}, 500_000)
	finds := search.Finds(t, explore)
	finds("an extension heals", search.Always, size{rounds: 3}, mistakes{extensionHeals: true}, learns)
	finds("a node that did not answer is healed", search.Large, size{rounds: 3}, mistakes{healsUnasked: true}, learns)
	finds("each extension counts by itself", search.Large, size{rounds: 4}, mistakes{dropsNoes: true}, learns)
	finds("a won extension drops its own noes", search.Soak, size{rounds: 4}, mistakes{dropsWhenWon: true}, learns)
}
