package members

import "github.com/redquorum/redquorum/internal/proof/search"

// client is every step of a client.
func (x *explorer) client(w *world, c int, visit visitor) {
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
				visit(&next, search.Event{Kind: Moves, Client: c, Node: search.Nowhere, Number: t.number()})
			}
		}
		fallthrough
	case holding:
		next := *w
		next.end(c)
		visit(&next, search.Event{Kind: Ends, Client: c, Node: search.Nowhere})
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
	for i := range w.masters {
		if t := w.masters[i].accepted; x.CountsAccepted && t != 0 {
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
	for i := range w.masters {
		m := &w.masters[i]
		if m.state != active || m.key != 0 || !x.counts(c, m, m.id(i), t) {
			continue
		}
		next := *w
		next.masters[i].key = uint8(c) + 1
		one := &next.clients[c]
		one.phase, one.cur, one.votes = asking, t, one.votes.with(m.id(i))
		x.takes(&one.read, &one.votes, i, m)
		need := t.members().majority()
		e := search.Event{Kind: Votes, Client: c, Node: i, Number: t.number()}
		if x.OwnList {
			need = x.Lists[c].majority()
		} else if one.votes&^t.members() != 0 {
			e.Broken = onlyVotes
		}
		if one.votes.count() >= need {
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

// counts reports whether the marker of a master, read behind its vote, lets a client count it.
func (x *explorer) counts(c int, m *master, id int, t text) bool {
	if x.OwnList {
		return x.Lists[c].has(id)
	}
	return (t.members().has(id) || x.AnyActive) && (m.told == t || t.follows(m.told) && !x.OnlySame ||
		x.IgnoresNewer && m.told.number() > t.number() ||
		x.CountsAccepted && m.accepted == t)
}

// isNewer reports whether a text may be told to a master that was told another one: its number is
// larger, or it is the same and this text counts. Then the other one counts no more.
func (w *world) isNewer(t, told text) bool {
	return t.number() > told.number() || t.number() == told.number() && w.named(t).count() >= t.members().majority()
}

// tell writes a text to the masters that were not told it.
func (x *explorer) tell(w *world, t text, o int, visit visitor) {
	for i := range w.masters {
		m := &w.masters[i]
		fresh := m.state == stranger && t.members().has(i)
		if !fresh && (m.state != active || m.told == t || !w.isNewer(t, m.told) && !x.TellsOlder) {
			continue
		}
		if m.accepted != 0 && m.accepted.number() == t.number() && m.accepted != t && !x.TellsOver {
			continue
		}
		next := *w
		told := &next.masters[i]
		wait := w.alive()
		if x.WaitsFromAccept && m.accepted == t {
			wait = m.wait
		}
		*told = master{state: active, told: t, wait: wait, key: m.key, as: m.as, life: m.life, notes: m.notes, before: m.before}
		if m.promised == unlearned {
			told.promised = unlearned
		}
		e := search.Event{Kind: IsTold, Client: search.Nobody, Node: i, Number: t.number()}
		if o != search.Nobody {
			e.Note = "by operator " + string(rune('1'+o))
		}
		if m.told.number() > t.number() {
			e.Broken = neverBack
		}
		x.visitCounting(&next, t, e, visit)
	}
}

// visitCounting looks whether a text counts now.
func (x *explorer) visitCounting(next *world, t text, e search.Event, visit visitor) {
	known := &next.known[t.number()]
	if *known != t && next.named(t).count() >= t.members().majority() {
		if was := *known; was != 0 {
			if x.Choices || next.named(was).count() >= was.members().majority() || next.other[t.number()] != 0 && next.other[t.number()] != t {
				e.Broken = oneVersion
			}
			next.other[t.number()] = was
		}
		if e.Kind == IsTold {
			e.Kind = Completes
		}
		*known = t
	}
	visit(next, e)
}

// fault is what may happen to a master.
func (x *explorer) fault(w *world, i int, visit visitor) {
	m := &w.masters[i]
	if m.state != active {
		return
	}
	if w.forgets > 0 {
		next := *w
		next.forgets--
		wait := w.alive() | w.ballots()
		if x.LongBallots {
			wait = w.alive()
		}
		if x.Hurried {
			wait = 0
		}
		next.masters[i] = master{state: lost, wait: wait, as: m.as}
		if x.Revivals > 0 {
			next.masters[i].life = m.life + 1
		}
		if !x.OldPromise {
			next.breaks(i)
		}
		visit(&next, search.Event{Kind: Forgets, Client: search.Nobody, Node: i})
	}
}

// breaks ends an incarnation: what it promised completes nothing.
func (w *world) breaks(i int) {
	for o := range w.operators {
		one := &w.operators[o]
		one.same = one.same.without(i)
	}
}
