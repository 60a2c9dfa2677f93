package search

import (
	"math/bits"
	"slices"

	proof "github.com/redquorum/redquorum/internal/proof/search"
)

const (
	masters      = 5
	maxClients   = 3
	maxOperators = 2
	maxVersions  = 4
	maxBallots   = 6
	unlearned    = 7 // in place of a ballot: it takes no part in the choice
)

// A set is of masters, or of clients: a bit for each.
type set uint8

// Names says that a set is of masters, if a field does not say otherwise.
func (set) Names() string { return "bits of nodes" }

func (s set) has(i int) bool    { return s>>i&1 != 0 }
func (s set) bit(i int) int     { return int(s >> i & 1) }
func (s set) count() int        { return bits.OnesCount8(uint8(s)) }
func (s set) with(i int) set    { return s | 1<<i }
func (s set) without(i int) set { return s &^ (1 << i) }

// A text is a version: its number, its members, and those of the one before. Two proposals of the
// same members are one text, because they do the same. It is 0 for none.
type text uint16

// Names says that each master has two bits: whether it is a member, and whether it was one before.
func (text) Names() string { return "2 bits of nodes" }

func textOf(number int, before, members set) (t text) {
	for i := range masters {
		t |= text(members.bit(i)|before.bit(i)<<1) << (2 * i)
	}
	return t | text(number)<<(2*masters)
}

func (t text) number() int  { return int(t >> (2 * masters)) }
func (t text) members() set { return t.every(0) }
func (t text) before() set  { return t.every(1) }

func (t text) every(bit int) (s set) {
	for i := range masters {
		if t>>(2*i+bit)&1 != 0 {
			s = s.with(i)
		}
	}
	return s
}

// next returns the version after one, with other members.
func (t text) next(members set) text { return textOf(t.number()+1, t.members(), members) }

type state uint8

const (
	stranger state = iota // it belongs to no cluster, and has granted nothing
	active
	lost // it has forgotten, and is known as the member that it was
)

// A master is one of the nodes. Its number is its member ID, too.
type master struct {
	state    state
	told     text
	wait     set   `search:"bits of clients"` // attempts that were under way when it was told, or forgot
	promised uint8 // a ballot, for the version after told
	ballot   uint8 // of what it accepted
	accepted text
	key      uint8 `search:"client"` // 0, or c+1
	as       uint8 `search:"node"`   // 0, or one more than the member ID that it was given by mistake
	life     uint8 // how many times its marker says that it forgot
	notes    lives // of the others, as it was shown them
	before   set   `search:"bits of clients"` // attempts that were under way when enough others were shown its life
}

func (m *master) id(i int) int {
	if m.as != 0 {
		return int(m.as) - 1
	}
	return i
}

type phase uint8

const (
	idle phase = iota
	asking
	holding
)

// A client that is idle knows any version that ever counted: it may have slept since.
type client struct {
	phase phase
	cur   text
	votes set
	read
}

type stage uint8

const (
	away stage = iota
	promising
	accepting
	telling
)

// An operator is any process that goes through a choice: for a change of its own, to finish one
// that it found, or to let a master rejoin.
type operator struct {
	stage    stage
	cur      text
	ballot   uint8
	may      set   // whom its own change may concern
	promised set   // in the first phase
	told     set   // those that were told the next text
	same     set   // of those that promised, who have not forgotten since
	acked    set   // those that accepted, or were told it meanwhile
	found    uint8 // the largest ballot of what was accepted, among the promises
	value    text  // of found; then what it proposes
	read
}

type world struct {
	masters   [masters]master    `search:"nodes"`
	clients   [maxClients]client `search:"clients"`
	operators [maxOperators]operator
	known     [maxVersions + 1]text // that counted at some time, by number
	other     [maxVersions + 1]text // that counted before, of the same number
	chosen    [maxVersions + 1]text
	used      [maxVersions + 1]set `search:"-"` // ballots, by the version under which they were
	forgets   uint8                // that may still come
	revivals  uint8                // the same
}

// alive is all attempts that are under way, lock or not.
func (w *world) alive() (alive set) {
	for c := range w.clients {
		if w.clients[c].phase != idle {
			alive = alive.with(c)
		}
	}
	return alive
}

// ballots is all ballots that are under way, as bits behind those of clients.
func (w *world) ballots() (alive set) {
	for o := range w.operators {
		if s := w.operators[o].stage; s == promising || s == accepting {
			alive = alive.with(maxClients + o)
		}
	}
	return alive
}

// over ends a ballot, or what came of it.
func (w *world) over(o int) {
	w.operators[o] = operator{}
	for i := range w.masters {
		m := &w.masters[i]
		m.wait, m.before = m.wait.without(maxClients+o), m.before.without(maxClients+o)
	}
}

// texts is what anybody may believe to have been chosen: what counted at some time, and what a
// master was told.
func (w *world) texts() (texts []text) {
	for _, t := range w.known {
		texts = append(texts, t)
	}
	for i := range w.masters {
		if m := &w.masters[i]; m.state == active && m.told.members().has(m.id(i)) {
			texts = append(texts, m.told)
		}
	}
	slices.Sort(texts)
	return slices.DeleteFunc(slices.Compact(texts), func(t text) bool { return t == 0 })
}

// latest is the newest version that counted at some time.
func (w *world) latest() (t text) {
	for _, known := range w.known {
		t = max(t, known) // the number comes first
	}
	return t
}

// Alike says that masters may change places that may be added and removed alike, and so may
// clients.
func (x *explorer) Alike() proof.Alike {
	return proof.Alike{Nodes: x.alike, Clients: proof.Same(x.Clients)}
}
