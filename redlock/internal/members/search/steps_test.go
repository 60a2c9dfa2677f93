package search

import (
	"slices"
	"strings"

	proof "github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// counts is every step of a client.
func (x *explorer) counts(w *world, c int, visit visitor) {
	one := &w.clients[c]
	switch one.phase {
	case idle:
		for _, t := range x.believed(w) {
			x.votes(w, c, t, visit)
		}
	case asking:
		x.votes(w, c, one.cur, visit)
		for _, t := range w.known {
			if x.KeepsVotes && t.number() > one.cur.number() {
				next := *w
				next.clients[c].cur, next.clients[c].votes = t, one.votes&t.members()
				visit(&next, proof.Event{Kind: Moves, Client: c, Node: proof.Nowhere, Number: t.number()})
			}
		}
		fallthrough
	case holding:
		next := *w
		next.end(c)
		visit(&next, proof.Event{Kind: Ends, Client: c, Node: proof.Nowhere})
	}
}

// believed is every text under which a client may begin to count.
func (x *explorer) believed(w *world) (texts []text) {
	for _, t := range w.known {
		if t != 0 {
			texts = append(texts, t)
		}
	}
	for _, t := range w.other {
		if t != 0 {
			texts = append(texts, t)
		}
	}
	return texts
}

// end ends an attempt of a client, or its lock. What it leaves behind would only refuse votes.
func (w *world) end(c int) {
	w.clients[c] = client{}
	for i := range w.masters {
		m := &w.masters[i]
		m.wait, m.before = m.wait.without(c), m.before.without(c)
		if int(m.key) == c+1 {
			m.key = 0
		}
	}
}

// votes is the votes of an attempt. The first one begins it: one that began earlier would only end
// earlier.
func (x *explorer) votes(w *world, c int, t text, visit visitor) {
	roster := x.roster(t)
	for i := range w.masters {
		m := &w.masters[i]
		if r := x.report(m, i); r.Marker.State != record.MarkerActive || !roster.Counts(r.Place) || m.key != 0 {
			continue
		}
		next := *w
		next.masters[i].key = uint8(c) + 1
		one := &next.clients[c]
		one.phase, one.cur, one.votes = asking, t, one.votes.with(m.id(i))
		x.takes(&one.read, &one.votes, i, m)
		e := proof.Event{Kind: Votes, Client: c, Node: i, Number: t.number()}
		if one.votes&^t.members() != 0 {
			e.Broken = onlyVotes
		}
		if one.votes.count() >= roster.Need() {
			e.Kind, one.phase = Holds, holding
			for other := range x.Clients {
				if other != c && next.clients[other].phase == holding {
					e.Broken = oneHolder
				}
			}
			one.cur, one.votes, one.read = 0, 0, read{}
		}
		visit(&next, e)
	}
}

// tends is what a client does that looks after a version: it tells it to masters, and has those
// wait whose life is over. How a master rejoins that has waited is in choice_test.go.
func (x *explorer) tends(w *world, all []core.Report, t text, visit visitor) {
	todo := x.client(x.told(w)).Todo(x.care(all, t))
	for _, change := range todo.Changes {
		if change.Register != nil { // what is shown is in lives_test.go
			x.tell(w, change, proof.Event{Kind: IsTold, Client: proof.Nobody, Node: change.Of.Node, Number: t.number()}, visit)
		}
	}
	next, last := *w, proof.Nowhere
	for _, wait := range todo.Waits { // at once: all that are not cut off
		if x.forget(&next, wait.Of.Node, wait.Swap) {
			last = wait.Of.Node
		}
	}
	if last != proof.Nowhere {
		visit(&next, proof.Event{Kind: FindsOut, Client: proof.Nobody, Node: last})
	}
}

// care is a version that is looked after.
func (x *explorer) care(all []core.Report, t text) core.Care {
	return core.CareFor(x.roster(t), true, all)
}

// tell has a master told a version.
func (x *explorer) tell(w *world, change core.Change, e proof.Event, visit visitor) {
	next, before := *w, w.masters[e.Node].told
	if !x.make(&next, &change) {
		return
	}
	if next.masters[e.Node].told.number() < before.number() {
		e.Broken = neverBack
	}
	x.visitCounting(&next, e, visit)
}

// visitCounting looks whether a version counts now that did not.
func (x *explorer) visitCounting(next *world, e proof.Event, visit visitor) {
	for n, known := range append([]text{0}, next.known[1:]...) {
		if n > 0 && known == 0 {
			continue
		}
		t := x.learned(next, known)
		if e.Broken == "" && known != 0 && !x.TwoAtOnce && !x.Ahead && x.followed(next, known) != t {
			e.Broken = findsNewest
		}
		if t == 0 || t == known || next.known[t.number()] == t {
			continue
		}
		if was := next.known[t.number()]; was != 0 {
			before := x.roster(was)
			if other := next.other[t.number()]; x.Choices || core.NamedIn(x.all(next), before) >= before.Need() || other != 0 && other != t {
				e.Broken = oneVersion
			}
			next.other[t.number()] = was
		}
		if e.Kind == IsTold {
			e.Kind = Completes
		}
		next.known[t.number()] = t
	}
	visit(next, e)
}

// belief is what a client knew, and what it depends on what it learns: who was told what.
type belief struct {
	known  text
	told   [masters]text
	states [masters]state
	as     [masters]uint8

	follows bool // it hears the members of known at first, and not all masters
}

// learned returns by what a client counts votes that counted by known, and has heard all masters.
func (x *explorer) learned(w *world, known text) text {
	return x.believes(w, belief{known: known}, func() text {
		return textOfRoster(x.client(0).Learn(core.Belief{Roster: x.roster(known)}, x.all(w)).Roster)
	})
}

// followed returns the same of one that is connected to the members of known, and to those to which
// what it hears of others leads it.
func (x *explorer) followed(w *world, known text) text {
	return x.believes(w, belief{known: known, follows: true}, func() text { return x.follow(w, known) })
}

// believes finds out each thing once.
func (x *explorer) believes(w *world, key belief, find func() text) text {
	for i := range w.masters {
		m := &w.masters[i]
		key.told[i], key.states[i], key.as[i] = m.told, m.state, m.as
	}
	t, found := x.beliefs[key]
	if !found {
		t = find()
		x.beliefs[key] = t
	}
	return t
}

func (x *explorer) follow(w *world, known text) text {
	c, b, all := x.client(0), core.Belief{Roster: x.roster(known)}, x.all(w)
	for nodes, asked := known.members(), set(0); nodes != asked; {
		asked = nodes
		heard := slices.DeleteFunc(slices.Clone(all), func(r core.Report) bool { return !asked.has(r.Node) })
		b = c.Learn(b, heard)
		nodes |= textOfRoster(b.Roster).members() | textOfRoster(c.Unproven(b.Roster, heard)).members()
	}
	return textOfRoster(b.Roster)
}

// fault has a master forget all that it held. Whoever connects to it next writes the marker.
func (x *explorer) fault(w *world, i int, visit visitor) {
	m := &w.masters[i]
	if m.state != active || w.forgets == 0 {
		return
	}
	server := core.Server{RunID: letter(i), ReplID: letter(i), MaxTTL: maxTTL.Milliseconds()}
	c := x.client(lives(0).with(m.id(i), m.life))
	j := server.Judge(record.Marker{}, core.Knowledge{
		Known: x.report(m, i).Marker.Incarnation, MaxTTL: core.Quarantine(maxTTL).Milliseconds(), Claim: c.Claim(m.id(i), x.roster(m.told)),
	})
	next := *w
	next.forgets--
	if j.Change != nil && x.forget(&next, i, *j.Change) {
		visit(&next, proof.Event{Kind: Forgets, Client: proof.Nobody, Node: i})
	}
}

// forget has a master wait, by the marker that it has now.
func (x *explorer) forget(w *world, i int, swap wire.Swap) bool {
	m := record.ParseMarker(swap.Begin + " until 1 " + swap.Rest)
	p := m.Place()
	to := master{state: lost, as: w.masters[i].as}
	if id := strings.Index(letters, p.Member); p.Member != "" && id != i {
		to.as = uint8(id) + 1
	}
	if x.Revivals > 0 {
		if to.life = uint8(p.Life); p.Life > maxLife {
			return false
		}
	}
	if swap.Wait >= maxTTL.Milliseconds() {
		to.wait = w.alive()
		if x.ballotsEnd {
			to.wait |= w.ballots()
		}
	}
	w.masters[i] = to
	w.breaks(i)
	return true
}

// breaks ends an incarnation: what it promised completes nothing.
func (w *world) breaks(i int) {
	for o := range w.operators {
		one := &w.operators[o]
		one.same = one.same.without(i)
	}
}
