package members

import "github.com/redquorum/redquorum/internal/proof/search"

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
func (r *read) alive(votes set) set {
	for i := range masters {
		if r.notes.of(i) > r.lives.of(i) {
			votes = votes.without(i)
		}
	}
	return votes
}

// takes takes the marker of a master that voted, and drops the votes of earlier lives.
func (x *explorer) takes(r *read, votes *set, i int, m *master) {
	r.take(i, m)
	switch {
	case x.AnyLife:
	case x.EarlierVotes && r.notes.of(i) > r.lives.of(i):
		*votes = votes.without(i)
	case x.EarlierVotes:
	default:
		*votes = r.alive(*votes)
	}
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
		enough := members.count() - members.majority() + 1
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
		if to := &w.masters[j]; j != i && to.state == active && to.notes.of(i) < m.life {
			next := *w
			next.masters[j].notes = to.notes.with(i, m.life)
			if x.isNoted(&next, i) && !x.isNoted(w, i) {
				next.masters[i].before = w.alive() | w.ballots()
			}
			visit(&next, search.Event{Kind: Notes, Client: search.Nobody, Node: j, Note: "of node " + string(rune('1'+i))})
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
		visit(&next, search.Event{Kind: Revives, Client: search.Nobody, Node: i, Number: t.number()})
	}
}

// findsOut makes a master wait whose life is over, as another one says.
func (x *explorer) findsOut(w *world, i int, visit visitor) {
	m := &w.masters[i]
	latest := m.life
	for j := range w.masters {
		if w.masters[j].state == active {
			latest = max(latest, w.masters[j].notes.of(i))
		}
	}
	if m.state == active && latest > m.life && latest < maxLife {
		next := *w
		next.masters[i] = master{state: lost, wait: w.alive() | w.ballots(), life: latest + 1}
		next.breaks(i)
		visit(&next, search.Event{Kind: FindsOut, Client: search.Nobody, Node: i})
	}
}
