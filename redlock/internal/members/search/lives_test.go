package search

import (
	proof "github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// lives has a number for each master: how many times it is known to have forgotten.
type lives uint16

// Names says how many bits each master has.
func (lives) Names() string { return "3 bits of nodes" }

const (
	lifeBits = 3
	maxLife  = 1<<lifeBits - 1
)

func (l lives) of(i int) uint8 { return uint8(l >> (i * lifeBits) & maxLife) }

func (l lives) with(i int, life uint8) lives {
	return l&^(maxLife<<(i*lifeBits)) | lives(life)<<(i*lifeBits)
}

// read is what markers have told a client or an operator in one attempt.
type read struct {
	lives lives // of those that voted, when they did
	notes lives // the latest that any of them was shown of a master
}

// take takes the marker of a master that voted.
func (r *read) take(i int, m *master) {
	r.lives = r.lives.with(i, m.life)
	for other := range masters {
		r.notes = r.notes.with(other, max(r.notes.of(other), m.notes.of(other)))
	}
}

// alive returns those of some voters that voted in the latest life that is known of them.
func (x *explorer) alive(r *read, votes set) set {
	known := x.client(r.notes).Lives
	for i := range masters {
		marker := record.Marker{Incarnation: incarnation(i, r.lives.of(i))}
		if known.Over(marker, record.Place{Cluster: cluster, Member: letter(i), Life: int64(r.lives.of(i))}) {
			votes = votes.without(i)
		}
	}
	return votes
}

// takes takes the marker of a master that voted, and drops the votes of earlier lives.
func (x *explorer) takes(r *read, votes *set, i int, m *master) {
	r.take(i, m)
	*votes = x.alive(r, *votes)
}

// told is what somebody knows of lives that has asked all masters.
func (x *explorer) told(w *world) (known lives) {
	for i := range w.masters {
		m := &w.masters[i]
		known = known.with(m.id(i), max(known.of(m.id(i)), m.life))
		for other := range masters {
			known = known.with(other, max(known.of(other), m.notes.of(other)))
		}
	}
	return known
}

// shown is the masters that were shown the life of one.
func (w *world) shown(i int) (shown set) {
	for j := range w.masters {
		if m := &w.masters[j]; j != i && m.state == active && m.notes.of(i) >= w.masters[i].life {
			shown = shown.with(j)
		}
	}
	return shown
}

// isNoted reports whether every majority with a master has another one that was shown its life.
func (x *explorer) isNoted(w *world, i int) bool {
	shown := w.shown(i)
	for _, t := range w.known {
		members := t.members()
		enough := members.count() - quorum.Need(members.count()) + 1
		if x.NotedByOne {
			enough = 1
		}
		if members.has(i) && (shown&members).count() < enough {
			return false
		}
	}
	return true
}

// lifetimes is what becomes of the lives of a master.
func (x *explorer) lifetimes(w *world, i int, visit visitor) {
	m := &w.masters[i]
	if m.life == 0 {
		return
	}
	for j := range w.masters {
		to := &w.masters[j]
		if j == i || to.state != active || to.notes.of(i) >= m.life {
			continue
		}
		for _, change := range x.client(to.notes.with(i, m.life)).Show(x.report(to, j), x.roster(to.told)) {
			next := *w
			x.make(&next, &change)
			if x.isNoted(&next, i) && !x.isNoted(w, i) {
				next.masters[i].before = w.alive() | w.ballots()
			}
			visit(&next, proof.Event{Kind: Notes, Client: proof.Nobody, Node: j, Note: "of node " + string(rune('1'+i))})
		}
	}
	if w.revivals > 0 && x.isNoted(w, i) && (x.Meanwhile || m.before&(w.alive()|w.ballots()) == 0) {
		x.revives(w, i, visit)
	}
}

// revives brings back a marker and a register of an earlier life: as of any time, so they may name
// any version, and nothing that was promised or accepted since.
func (x *explorer) revives(w *world, i int, visit visitor) {
	m := &w.masters[i]
	for _, t := range w.known {
		if !t.members().has(i) {
			continue
		}
		next := *w
		next.revivals--
		next.masters[i] = master{state: active, told: t, life: m.life - 1}
		visit(&next, proof.Event{Kind: Revives, Client: proof.Nobody, Node: i, Number: t.number()})
	}
}
