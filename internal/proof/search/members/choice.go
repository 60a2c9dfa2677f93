package members

import "github.com/redquorum/redquorum/internal/proof/search"

func by(kind search.Kind, o, at int, t text) search.Event {
	return search.Event{Kind: kind, Client: search.Nobody, Node: at, Number: t.number(), Note: "operator " + string(rune('1'+o))}
}

// operator is every step of an operator.
func (x *explorer) operator(w *world, o int, visit visitor) {
	one := &w.operators[o]
	switch one.stage {
	case away:
		for _, t := range w.texts() {
			if t.number() < x.Versions {
				x.begins(w, o, t, visit)
			}
		}
		return
	case promising:
		x.promises(w, o, visit)
		x.meets(w, o, visit)
		x.decides(w, o, visit)
		x.rejoins(w, o, visit)
	case accepting:
		x.accepts(w, o, visit)
	case telling:
		x.tell(w, one.value, o, visit)
	}
	next := *w
	next.over(o)
	visit(&next, by(Dies, o, search.Nowhere, 0))
}

// begins takes a ballot that nobody has had. Whoever began earlier may still have a larger one.
func (x *explorer) begins(w *world, o int, t text, visit visitor) {
	for ballot := 1; ballot <= x.Ballots; ballot++ {
		if w.used[t.number()].has(ballot) {
			continue
		}
		next := *w
		next.used[t.number()] = next.used[t.number()].with(ballot)
		may := x.Adds | x.Removes
		if missing := t.members() &^ w.named(t); missing != 0 && !x.Behind {
			may &= missing & x.Removes
			if missing.count() > 1 {
				may = 0
			}
		}
		next.operators[o] = operator{stage: promising, cur: t, ballot: uint8(ballot), may: may}
		visit(&next, by(Begins, o, search.Nowhere, t))
	}
}

// promises is the first phase.
func (x *explorer) promises(w *world, o int, visit visitor) {
	one := &w.operators[o]
	for i := range w.masters {
		m := &w.masters[i]
		forgot := one.told != 0 && m.promised == unlearned // it promises nothing, and only accepts
		if !one.cur.members().has(i) || m.state != active || m.told != one.cur || m.as != 0 ||
			one.promised.has(i) || one.ballot <= m.promised && !x.NoBallots && !forgot {
			continue
		}
		next := *w
		if !forgot {
			next.masters[i].promised = max(one.ballot, m.promised)
		}
		it := &next.operators[o]
		it.promised, it.same = it.promised.with(i), it.same.with(i)
		x.takes(&it.read, &it.promised, i, m)
		if m.ballot > it.found && it.told == 0 {
			it.found, it.value = m.ballot, m.accepted
		}
		visit(&next, by(Promises, o, i, one.cur))
	}
}

// meets finds a member that was told the next text. That one was chosen.
func (x *explorer) meets(w *world, o int, visit visitor) {
	one := &w.operators[o]
	for i := range w.masters {
		m := &w.masters[i]
		if !one.cur.members().has(i) || m.state != active || !m.told.follows(one.cur) || m.as != 0 ||
			one.told.has(i) || one.told != 0 && one.value != m.told {
			continue
		}
		next := *w
		it := &next.operators[o]
		it.told, it.promised, it.found, it.value = it.told.with(i), it.promised.without(i), 1, m.told
		visit(&next, by(Meets, o, i, m.told))
	}
}

// decides goes on to the second phase, with what was found, or with a change of its own.
func (x *explorer) decides(w *world, o int, visit visitor) {
	one := &w.operators[o]
	if (one.promised | one.told).count() < one.cur.members().majority() {
		return
	}
	propose := func(kind search.Kind, t text) {
		next := *w
		next.operators[o] = operator{
			stage: accepting, cur: one.cur, ballot: one.ballot, told: one.told, acked: one.told, same: one.same, value: t, read: one.read,
		}
		x.tellsIfHeld(&next, o, one.cur.members().majority())
		visit(&next, by(kind, o, search.Nowhere, t))
	}
	if one.found != 0 && !x.IgnoresFound {
		propose(Finishes, one.value)
		return
	}
	for _, members := range x.changes(one.cur.members(), one.may) {
		propose(Decides, textOf(one.cur.number()+1, members))
	}
}

// changes is what a membership may become.
func (x *explorer) changes(from, may set) (to []set) {
	possible := may & (x.Adds&^from | x.Removes&from)
	for i := range masters {
		if !possible.has(i) || from == set(1)<<i {
			continue
		}
		if !x.TwoAtOnce {
			to = append(to, from^1<<i)
		}
		for j := range i {
			if x.TwoAtOnce && possible.has(j) && from != 1<<i|1<<j {
				to = append(to, from^1<<i^1<<j)
			}
		}
	}
	return to
}

// accepts is the second phase. A master accepts nothing until all attempts are over that were under
// way when it was told its version.
func (x *explorer) accepts(w *world, o int, visit visitor) {
	one := &w.operators[o]
	for i := range w.masters {
		m := &w.masters[i]
		if !one.same.has(i) || one.acked.has(i) || m.state != active || m.told != one.cur ||
			m.promised > one.ballot && !x.NoBallots && !(one.told != 0 && m.promised == unlearned) ||
			m.wait != 0 && one.told == 0 && !x.NoWait && !(x.WaitsFromAccept && m.accepted != 0) {
			continue
		}
		next := *w
		it, to := &next.operators[o], &next.masters[i]
		to.promised, to.ballot, to.accepted = one.ballot, one.ballot, one.value
		if x.WaitsFromAccept {
			to.wait = w.alive()
		}
		it.acked = it.acked.with(i)
		x.takes(&it.read, &it.acked, i, m)
		e := by(Accepts, o, i, one.value)
		enough := one.cur.members().majority()
		if x.FinishesEarly && one.told != 0 {
			enough = 1
		}
		if x.tellsIfHeld(&next, o, enough) {
			e.Kind = Chooses
			if chosen := &next.chosen[one.value.number()]; x.Choices && *chosen != 0 && *chosen != one.value {
				e.Broken = oneChoice
			} else if x.Choices {
				*chosen = one.value
			}
		}
		visit(&next, e)
	}
}

// tellsIfHeld goes on to telling if enough members hold to the text, and reports that.
func (x *explorer) tellsIfHeld(w *world, o, enough int) bool {
	one := w.operators[o]
	if one.acked.count() < enough {
		return false
	}
	w.over(o)
	w.operators[o] = operator{stage: telling, cur: one.cur, value: one.value}
	return true
}

// rejoins lets a master that forgot come back, once it has waited. It votes at once. In the choice
// it takes part when the first phase was answered by so many of the others that one of them is in
// every majority in which it may have accepted something.
func (x *explorer) rejoins(w *world, o int, visit visitor) {
	one := &w.operators[o]
	members := one.cur.members()
	answers := one.promised | w.unlearned(one.cur)
	if one.told != 0 || answers == 0 || !x.Ahead && answers&w.latest().members() == 0 {
		return
	}
	learned := x.LearnsFromOne || one.promised.count() > members.count()-members.majority() || w.noOtherRemembers(one)
	for i := range w.masters {
		m := &w.masters[i]
		switch id := m.id(i); {
		case !members.has(id):
		case m.state == lost && m.wait == 0:
			x.rejoin(w, o, i, id, learned, visit)
		case m.state == active && m.promised == unlearned && m.told == one.cur && learned:
			next := *w
			next.over(o)
			to := &next.masters[i]
			to.promised, to.ballot, to.accepted = one.ballot, one.found, one.value
			visit(&next, by(Learns, o, i, one.cur))
		}
		for id := range masters {
			if x.Elimination && m.state == stranger && members.has(id) && !one.promised.has(id) {
				x.rejoin(w, o, i, id, learned, visit)
			}
		}
	}
}

// unlearned returns the members that were told a text and take no part in the choice.
func (w *world) unlearned(t text) (members set) {
	for i := range w.masters {
		if m := &w.masters[i]; m.state == active && m.told == t && m.promised == unlearned && t.members().has(m.id(i)) {
			members = members.with(m.id(i))
		}
	}
	return members
}

// noOtherRemembers reports whether every member has told what it remembers of the choice, or
// forgot. What is left out was accepted by nobody who remembers it, so it was not told, or will be.
func (w *world) noOtherRemembers(one *operator) bool {
	for i := range w.masters {
		m := &w.masters[i]
		if id := m.id(i); one.cur.members().has(id) && m.state == active && m.promised != unlearned && !one.promised.has(id) {
			return false
		}
	}
	return true
}

func (x *explorer) rejoin(w *world, o, i, id int, learned bool, visit visitor) {
	one := w.operators[o]
	next := *w
	to := master{state: active, told: one.cur, wait: w.alive(), promised: unlearned}
	to.life, to.before = w.masters[i].life, w.masters[i].before
	switch {
	case x.RejoinsFirst:
		to.told, to.promised = w.known[1], 0
	case x.Unlearned:
		to.promised = 0
	case learned:
		to.promised, to.ballot, to.accepted = one.ballot, one.found, one.value
	}
	e := by(Rejoins, o, i, to.told)
	if id != i {
		to.as, e.Kind = uint8(id)+1, RejoinsAs
	}
	next.masters[i] = to
	next.over(o)
	x.visitCounting(&next, to.told, e, visit)
}
