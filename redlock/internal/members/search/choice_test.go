package search

import (
	"slices"

	proof "github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// operator is every step of an operator.
func (x *explorer) operator(w *world, all []core.Report, o int, visit visitor) {
	one := &w.operators[o]
	switch one.stage {
	case away:
		for _, t := range w.texts() {
			if t.number() < x.Versions {
				x.begins(w, all, o, t, visit)
			}
		}
		return
	case promising:
		x.promises(w, all, o, visit)
		x.meets(w, all, o, visit)
		x.decides(w, o, visit)
		x.rejoins(w, all, o, visit)
	case accepting:
		x.accepts(w, all, o, visit)
	case telling:
		roster := x.roster(one.value)
		for _, change := range core.TellAll(roster, all) {
			e := by(IsTold, o, change.Of.Node, one.value)
			x.tell(w, change, e, visit)
		}
	}
	next := *w
	next.over(o)
	visit(&next, by(Dies, o, proof.Nowhere, 0))
}

// begins takes a ballot that nobody has had. Whoever began earlier may still have a larger one.
func (x *explorer) begins(w *world, all []core.Report, o int, t text, visit visitor) {
	may := x.may(all, t)
	for ballot := 1; ballot <= x.Ballots; ballot++ {
		if w.used[t.number()].has(ballot) {
			continue
		}
		next := *w
		next.used[t.number()] = next.used[t.number()].with(ballot)
		next.operators[o] = operator{stage: promising, cur: t, ballot: uint8(ballot), may: may}
		visit(&next, by(Begins, o, proof.Nowhere, t))
	}
}

// may returns whom a change may concern that begins now, whichever masters answer. Fewer answers
// only forbid more, but for those of masters that accepted something.
func (x *explorer) may(all []core.Report, t text) (may set) {
	others := slices.DeleteFunc(slices.Clone(all), func(r core.Report) bool { return r.Register.Accepted != nil })
	for _, heard := range [][]core.Report{all, others} {
		standing, err := x.client(0).Standing(x.roster(t), heard)
		if err != nil {
			continue
		}
		standing.Next = 0 // whatever time there must be in between
		for i := range masters {
			if !(x.Adds&^t.members() | x.Removes&t.members()).has(i) || t.members() == set(1)<<i {
				continue
			}
			own := x.roster(t.next(t.members() ^ 1<<i))
			if move, propose := standing.NextMove(own, 0); move == core.ChooseAfter && propose == own {
				may = may.with(i)
			}
		}
	}
	return may
}

// choice is what an operator is about.
func (x *explorer) choice(one *operator) core.Choice {
	ch := core.Choice{Of: x.roster(one.cur), Ballot: x.ballot(one), By: one.told.count()}
	if one.told != 0 {
		ch.Told = x.roster(one.value)
	}
	return ch
}

func (x *explorer) ballot(one *operator) core.Ballot {
	return core.Ballot{Number: ballotOf(one.ballot), Over: core.Never}
}

// promises is the first phase: what a master is asked follows from what it says now, because it
// does nothing if it says something else when it is asked.
func (x *explorer) promises(w *world, all []core.Report, o int, visit visitor) {
	one := &w.operators[o]
	c, cur, b := x.client(one.notes), x.roster(one.cur), x.ballot(one)
	for i := range w.masters {
		if one.promised.has(i) || one.told.has(i) {
			continue
		}
		next, said := *w, all[i:i+1]
		if one.told == 0 || len(c.Unlearned(cur, b, said)) == 0 {
			asks := c.AskPromises(cur, b, said)
			if len(asks) == 0 || core.NewBallot(said, maxTTL, 0).Number.Number > int64(one.ballot) || !x.make(&next, &asks[0]) {
				continue
			}
			said = []core.Report{*x.report(&next.masters[i], i)}
			if len(c.Promised(cur, b, said)) == 0 {
				continue
			}
		}
		it := &next.operators[o]
		if one.told == 0 {
			before := core.Report{Register: record.Register{Ballot: ballotOf(one.found), Accepted: x.roster(one.value)}}
			under, found := core.Found([]core.Report{before, said[0]})
			it.found, it.value = uint8(under.Number), textOfRoster(found)
		}
		it.promised, it.same = it.promised.with(i), it.same.with(i)
		x.takes(&it.read, &it.promised, i, &w.masters[i])
		visit(&next, by(Promises, o, i, one.cur))
	}
}

// meets finds a member that was told the next version. That one was chosen.
func (x *explorer) meets(w *world, all []core.Report, o int, visit visitor) {
	one := &w.operators[o]
	for i := range w.masters {
		told, _ := core.ToldNext(x.roster(one.cur), all[i:i+1])
		t := textOfRoster(told)
		if t == 0 || one.told.has(i) || one.told != 0 && one.value != t {
			continue
		}
		next := *w
		it := &next.operators[o]
		it.told, it.promised, it.same = it.told.with(i), it.promised.without(i), it.same.without(i)
		it.found, it.value = 1, t
		visit(&next, by(Meets, o, i, t))
	}
}

// given is the promises that an operator has. What was accepted is at one of them: core asks for
// the largest ballot only.
func (x *explorer) given(one *operator) (given []core.Report) {
	found := one.found
	if one.told != 0 {
		found = 0
	}
	for i := range masters {
		if !one.promised.has(i) {
			continue
		}
		m := master{state: active, told: one.cur, promised: one.ballot, life: one.lives.of(i)}
		if found != 0 {
			m.ballot, m.accepted, found = found, one.value, 0
		}
		given = append(given, *x.report(&m, i))
	}
	return given
}

// decides goes on to the second phase, with what was found, or with a change of its own.
func (x *explorer) decides(w *world, o int, visit visitor) {
	one := &w.operators[o]
	ch, given := x.choice(one), x.given(one)
	propose := func(own text) {
		value, _ := ch.Propose(given, x.roster(own))
		if value == nil {
			return
		}
		t, kind := textOfRoster(value), Finishes
		if t == own {
			kind = Decides
		}
		next := *w
		next.operators[o] = operator{
			stage: accepting, cur: one.cur, ballot: one.ballot, told: one.told, same: one.same, value: t, read: one.read,
		}
		x.tellsIfChosen(&next, o)
		visit(&next, by(kind, o, proof.Nowhere, t))
	}
	propose(0)
	for _, members := range x.changes(one.cur.members(), one.may) {
		propose(one.cur.next(members))
	}
}

// changes is what a membership may become.
func (x *explorer) changes(from, may set) (to []set) {
	for i := range masters {
		if !may.has(i) {
			continue
		}
		if !x.TwoAtOnce {
			to = append(to, from^1<<i)
		}
		for j := range i {
			if x.TwoAtOnce && may.has(j) && from != 1<<i|1<<j {
				to = append(to, from^1<<i^1<<j)
			}
		}
	}
	return to
}

// accepts is the second phase. A master that was asked does nothing if it says something else by
// now than when it promised; if it was told this version meanwhile, its answer says that.
func (x *explorer) accepts(w *world, all []core.Report, o int, visit visitor) {
	one := &w.operators[o]
	c, ch := x.client(one.notes), x.choice(one)
	for i := range w.masters {
		m := &w.masters[i]
		if !one.same.has(i) || one.acked.has(i) || m.state != active {
			continue
		}
		next, e := *w, by(Accepts, o, i, one.value)
		if m.told == one.value {
			e.Kind = Knows
		} else {
			now := all[i]
			if later := c.Unlearned(ch.Of, ch.Ballot, all[i:i+1]); len(later) > 0 && one.told != 0 {
				now = later[0]
			}
			if m.told != one.cur || now.Register.Promised != ch.Ballot.Number || !x.make(&next, x.acceptance(c, ch, one, &now)) {
				continue
			}
		}
		it := &next.operators[o]
		it.acked = it.acked.with(i)
		x.takes(&it.read, &it.acked, i, m)
		if x.tellsIfChosen(&next, o) && e.Kind == Accepts {
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

// acceptance returns what a master is asked, by what it said when it promised.
func (x *explorer) acceptance(c *core.Client, ch core.Choice, one *operator, r *core.Report) *core.Change {
	proposed := core.Report{Node: proof.Nowhere, Register: record.Register{Ballot: ch.Ballot.Number, Accepted: x.roster(one.value)}}
	ch.By = len(ch.Of.Members) // it has its majority
	_, asks := ch.Propose([]core.Report{proposed, *r}, nil)
	return &asks[1]
}

// tellsIfChosen goes on to telling if enough members hold to the version, and reports that.
func (x *explorer) tellsIfChosen(w *world, o int) bool {
	one := &w.operators[o]
	var answers []core.Report
	for i := range masters {
		if one.acked.has(i) {
			m := master{state: active, told: one.cur, promised: one.ballot, ballot: one.ballot, accepted: one.value, life: one.lives.of(i)}
			answers = append(answers, *x.report(&m, i))
		}
	}
	if !x.client(one.notes).IsChosen(x.choice(one), x.roster(one.value), answers) {
		return false
	}
	to := operator{stage: telling, cur: one.cur, value: one.value}
	w.over(o)
	w.operators[o] = to
	return true
}

// rejoins lets a master that forgot come back, once it has waited, and lets one learn that came
// back unlearned.
func (x *explorer) rejoins(w *world, all []core.Report, o int, visit visitor) {
	one := &w.operators[o]
	c, care := x.client(x.told(w)), x.care(all, one.cur)
	if one.told != 0 || !x.Ahead && x.isCutOff(w, all, one) {
		return
	}
	given := x.given(one)
	step := func(asks []core.Change, kind proof.Kind) {
		for _, change := range asks {
			next := *w
			next.over(o)
			i := change.Of.Node
			x.make(&next, &change)
			e := by(kind, o, i, one.cur)
			if kind == Rejoins && next.masters[i].as != 0 {
				e.Kind = RejoinsAs
			}
			x.visitCounting(&next, e, visit)
		}
	}
	for _, r := range c.Todo(care).Rejoins {
		step(c.LetRejoin(r, x.ballot(one), given), Rejoins)
	}
	step(c.Teach(care.Roster, x.ballot(one), given, all), Learns)
}

// isCutOff reports whether somebody can go on with a version only who hears no member of the newest
// one: of those that could choose after it, all were removed, and others who remember more lead to
// that. This is outside of the promise.
func (x *explorer) isCutOff(w *world, all []core.Report, one *operator) bool {
	c, cur := x.client(x.told(w)), x.roster(one.cur)
	remember, choose := one.promised, one.promised
	for i := range all {
		if c.Remembers(&all[i], cur) {
			remember = remember.with(i)
			if !all[i].Register.Unlearned {
				choose = choose.with(i)
			}
		}
	}
	newest := w.latest().members()
	if choose == 0 || choose&newest != 0 {
		return false
	}
	for i := range masters {
		heard := slices.DeleteFunc(slices.Clone(all), func(r core.Report) bool { return r.Node != i && !remember.has(r.Node) })
		if newest.has(i) && !remember.has(i) && w.masters[i].state == active && c.LookAfter(cur, heard) == cur {
			return false
		}
	}
	return true
}

func by(kind proof.Kind, o, at int, t text) proof.Event {
	return proof.Event{Kind: kind, Client: proof.Nobody, Node: at, Number: t.number(), Note: "operator " + string(rune('1'+o))}
}
