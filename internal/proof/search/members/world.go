package members

import (
	"math/bits"

	"github.com/redquorum/redquorum/internal/proof/search"
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

func (s set) has(i int) bool    { return s>>i&1 != 0 }
func (s set) bit(i int) int     { return int(s >> i & 1) }
func (s set) count() int        { return bits.OnesCount8(uint8(s)) }
func (s set) majority() int     { return s.count()/2 + 1 }
func (s set) with(i int) set    { return s | 1<<i }
func (s set) without(i int) set { return s &^ (1 << i) }
func (s set) from(i int) set    { return s &^ (1<<i - 1) }

// A text is a membership: its number, and its members. Two proposals of the same members are one
// text, because they do the same. It is 0 for none.
type text uint8

func textOf(number int, members set) text { return text(number<<masters) | text(members) }
func (t text) number() int                { return int(t >> masters) }
func (t text) members() set               { return set(t) & (1<<masters - 1) }

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
	wait     set   // attempts that were under way when it was told, or forgot
	promised uint8 // a ballot, for the version after told
	ballot   uint8 // of what it accepted
	accepted text
	key      uint8 // 0, or c+1
	as       uint8 // 0, or one more than the member ID that it was given by mistake
	life     uint8 // how many times its marker says that it forgot
	notes    lives // of the others, as it was shown them
	before   set   // attempts that were under way when enough others were shown its life
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
	may      set // whom its own change may concern
	promised set // in the first phase
	same     set // of those that promised, who have not forgotten since
	acked    set
	found    uint8 // the largest ballot of what was accepted, among the promises
	value    text  // of found; then what it proposes
	read
}

type world struct {
	masters   [masters]master
	clients   [maxClients]client
	operators [maxOperators]operator
	known     [maxVersions + 1]text // that counted at some time, by number
	other     [maxVersions + 1]text // that counted before, of the same number
	chosen    [maxVersions + 1]text
	used      [maxVersions + 1]set // ballots, by the version under which they were
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

// named is who names a text in an active marker.
func (w *world) named(t text) (named set) {
	for i := range w.masters {
		if m := &w.masters[i]; m.state == active && m.told == t && t.members().has(m.id(i)) {
			named = named.with(m.id(i))
		}
	}
	return named
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
func (x *explorer) Alike() search.Alike {
	clients := search.Same(x.Clients)
	for c := range x.Lists {
		clients[c] = c
	}
	return search.Alike{Nodes: x.alike, Clients: clients}
}

// Rename also renames the members in every text.
func (x *explorer) Rename(w *world, order *search.Order) (to world) {
	var nodes [8]int
	for i, n := range order.Nodes {
		nodes[n] = i
	}
	var clients [maxClients + 1]uint8
	for i, c := range order.Clients {
		clients[c+1] = uint8(i + 1)
	}
	move := func(s set) (moved set) {
		for ; s != 0; s &= s - 1 {
			moved = moved.with(nodes[bits.TrailingZeros8(uint8(s))])
		}
		return moved
	}
	rewrite := func(t text) text { return t&^(1<<masters-1) | text(move(t.members())) }
	shift := func(l lives) (moved lives) {
		for i := range masters {
			moved = moved.with(nodes[i], l.of(i))
		}
		return moved
	}
	to.forgets, to.used, to.revivals = w.forgets, w.used, w.revivals
	for i := range w.known {
		to.known[i], to.other[i], to.chosen[i] = rewrite(w.known[i]), rewrite(w.other[i]), rewrite(w.chosen[i])
	}
	for i, n := range order.Nodes {
		m := w.masters[n]
		attempts := func(s set) (moved set) {
			for j, c := range order.Clients {
				moved |= s >> c & 1 << j
			}
			return moved | s&^(1<<maxClients-1)
		}
		m.told, m.accepted, m.key = rewrite(m.told), rewrite(m.accepted), clients[m.key]
		m.wait, m.before, m.notes = attempts(m.wait), attempts(m.before), shift(m.notes)
		if m.as != 0 {
			m.as = uint8(nodes[m.as-1]) + 1
		}
		to.masters[i] = m
	}
	for i, c := range order.Clients {
		one := w.clients[c]
		one.cur, one.votes, one.read = rewrite(one.cur), move(one.votes), read{shift(one.lives), shift(one.notes)}
		to.clients[i] = one
	}
	for i, one := range w.operators {
		one.cur, one.value, one.may = rewrite(one.cur), rewrite(one.value), move(one.may)
		one.promised, one.same, one.acked = move(one.promised), move(one.same), move(one.acked)
		one.read = read{shift(one.lives), shift(one.notes)}
		to.operators[i] = one
	}
	return to
}

// Sign tells masters and clients apart by what does not depend on names.
func (x *explorer) Sign(w *world, c, n int) uint64 {
	if n == search.Nowhere {
		one := &w.clients[c]
		return uint64(one.phase) | uint64(one.cur.number())<<2
	}
	m := &w.masters[n]
	if c != search.Nobody {
		one := &w.clients[c]
		return search.Bits(int(m.key) == c+1, one.votes.has(n), m.wait.has(c), one.cur.members().has(n))
	}
	sign := uint64(m.wait>>maxClients)<<60 | uint64(m.state) | uint64(m.told.number())<<2 | uint64(m.promised)<<5 | uint64(m.ballot)<<8
	at := 11
	add := func(s set) {
		sign |= uint64(s.bit(n)) << at
		at++
	}
	for i := range w.known {
		add(w.known[i].members())
		add(w.chosen[i].members())
		add(w.other[i].members())
	}
	for i := range w.operators {
		one := &w.operators[i]
		for _, s := range []set{one.cur.members(), one.value.members(), one.may, one.promised, one.same, one.acked} {
			add(s)
		}
	}
	add(m.told.members())
	add(m.accepted.members())
	return sign
}
