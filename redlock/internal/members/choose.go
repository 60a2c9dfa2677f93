package members

import (
	"context"
	"errors"
	"slices"

	"github.com/redquorum/redquorum/clock"
)

// The next version is chosen by the members of the present one, with promise and accept (Lamport,
// "Paxos Made Simple", 2001). What a majority accepted is chosen; then all are told.

// ballot is an attempt to have a version chosen. Nothing is sent under it when it is over, and no
// master accepts anything under it later than life after it promised.
type ballot struct {
	number Version
	over   clock.Instant
	life   int64 // milliseconds
}

// newBallot returns a ballot above all that were promised. It lasts half a quarantine at most, so
// that a master that forgets what it promised is not back before it is over.
func (ms *Membership) newBallot(reports []report) ballot {
	var highest int64
	life := fresh(ms.LongestTTL())
	for i := range reports {
		highest = max(highest, reports[i].register.promised.Number, reports[i].register.ballot.Number)
		if t := reports[i].told(); t != nil {
			life = min(life, fresh(t.MaxTTL))
		}
	}
	return ballot{Version{highest + 1, newName()}, ms.clock.Now().Add(life), life.Milliseconds()}
}

// promises asks the members for their promise, and returns the reports of those that gave it. A
// master promises if it was told this version and nothing newer, has learned what it forgot, and
// has promised nothing larger.
func (ms *Membership) promises(ctx context.Context, roster *Roster, b ballot, reports []report) (given []report) {
	var asks []*inquiry
	for _, r := range reports {
		if !ms.isMember(&r, roster) || r.register.unlearned || !b.number.Above(r.register.promised) {
			continue
		}
		next := r.register
		next.promised, next.until = b.number, r.now+b.life
		asks = append(asks, ms.swapping(r, change{marker: r.marker, register: &next, told: r.register.since > r.now}))
	}
	for _, r := range ms.ask(ctx, asks, nil) {
		if ms.isMember(&r, roster) && r.register.promised == b.number {
			given = append(given, r)
		}
	}
	return given
}

// isMember reports whether a master remembers that it was told this version as a member.
func (ms *Membership) isMember(r *report, roster *Roster) bool {
	t := r.told()
	return t != nil && t.Cluster == roster.Cluster && t.Version == roster.Version && roster.Index(r.place.member) >= 0 && !ms.isOver(r)
}

// found returns what was accepted under the largest ballot; nil if nothing was.
func found(given []report) (under Version, accepted *Roster) {
	for i := range given {
		if g := &given[i].register; g.accepted != nil && (accepted == nil || g.ballot.Above(under)) {
			under, accepted = g.ballot, g.accepted
		}
	}
	return under, accepted
}

// Why a version was not chosen.
var (
	errOutrun    = errors.New("another change came first")
	errNoPromise = errors.New("too few members answered")
)

// choose has a version chosen after the present one, and returns it: what was begun if there is
// something, and otherwise own, which may be nil.
func (ms *Membership) choose(ctx context.Context, roster, own *Roster, reports []report) (*Roster, error) {
	b := ms.newBallot(reports)
	given := ms.promises(ctx, roster, b, reports)
	if ms.teach(ctx, roster, b, given, reports) {
		return nil, errOutrun // they take part under the next ballot
	}
	if len(given) < roster.Need() {
		return nil, errNoPromise
	}
	_, value := found(given)
	if value == nil {
		value = own
	}
	if value == nil {
		return nil, nil
	}
	if ms.accept(ctx, roster, b, value, given, roster.wait()) < roster.Need() {
		return nil, errOutrun
	}
	return value, nil
}

// accept asks those that promised to accept a version, each so many milliseconds after it was told
// the present one. It returns how many now hold to it: they accepted it, or were told it meanwhile.
func (ms *Membership) accept(ctx context.Context, roster *Roster, b ballot, value *Roster, given []report, wait int64) (holding int) {
	var asks []*inquiry
	for _, r := range given {
		next := r.register
		next.ballot, next.accepted = b.number, value
		asks = append(asks, ms.swapping(r, change{marker: r.marker, register: &next, due: r.register.since + wait, latest: r.register.until}))
	}
	if ms.clock.Now() >= b.over {
		return 0
	}
	for _, r := range ms.ask(ctx, asks, nil) {
		t := r.told()
		if ms.isMember(&r, roster) && r.register.ballot == b.number && r.register.accepted != nil || t != nil && t.Version == value.Version {
			holding++
		}
	}
	return holding
}

// learns reports whether a master that forgot learns what it may have accepted. So many others have
// told what they accepted that one of them is in every majority in which it may have been; or every
// member that remembers anything has.
func (ms *Membership) learns(roster *Roster, given, reports []report) bool {
	if len(given) > len(roster.Members)-roster.Need() {
		return true
	}
	for _, p := range roster.Members {
		forgot := slices.ContainsFunc(reports, func(r report) bool {
			id, ours := r.place.member, r.place.cluster == roster.Cluster
			if !ours && r.place.cluster == "" {
				id, ours = p.ID, ms.nodeOf(&r).Endpoint() == p.Endpoint
			}
			return ours && id == p.ID && (r.told() == nil || r.register.unlearned)
		})
		told := slices.ContainsFunc(given, func(r report) bool { return r.place.member == p.ID })
		if !forgot && !told {
			return false
		}
	}
	return true
}

// teach lets members take part in the choice that forgot, and rejoined when too few others were
// there to tell what they had accepted.
func (ms *Membership) teach(ctx context.Context, roster *Roster, b ballot, given, reports []report) (taught bool) {
	if !ms.learns(roster, given, reports) {
		return false
	}
	var asks []*inquiry
	for _, r := range reports {
		if ms.isMember(&r, roster) && r.register.unlearned {
			next := register{since: r.register.since, told: roster, promised: b.number, until: r.now + b.life}
			next.ballot, next.accepted = found(given)
			asks = append(asks, ms.swapping(r, change{marker: r.marker, register: &next}))
		}
	}
	return slices.ContainsFunc(ms.ask(ctx, asks, nil), func(r report) bool { return r.register.promised == b.number })
}

// finish completes a change that some members of a version were told, and others were not. Who was
// told promises nothing more for that version, and what it was told was chosen: it stands for an
// acceptance under a ballot above all others. So the others accept it, too, also those that forgot
// what they had accepted, and with those that were told a majority is enough. Nobody is told
// before: if a majority forgot that it chose this version, and has chosen another one since, that
// may count by now.
func (ms *Membership) finish(ctx context.Context, before *Roster) {
	reports := ms.survey(ctx, nil)
	told, by := toldNext(before, reports)
	if told == nil {
		return
	}
	b := ms.newBallot(reports)
	given := ms.promises(ctx, before, b, reports)
	for _, r := range reports {
		if r.register.unlearned && ms.isMember(&r, before) {
			r.register.unlearned, r.register.promised, r.register.until = false, b.number, r.now+b.life
			given = append(given, r)
		}
	}
	if by+len(given) < before.Need() || by+ms.accept(ctx, before, b, told, given, 0) < before.Need() {
		return
	}
	ms.mu.Lock()
	if ms.keeper.roster == before {
		ms.adoptLocked(told) // its other members can be found now
	}
	ms.mu.Unlock()
	ms.tellAll(ctx, told)
}

// toldNext returns the version after a roster that some of its members were told, and how many; nil
// if none was, or they were told different ones.
func toldNext(roster *Roster, reports []report) (next *Roster, by int) {
	var ids []string
	for i := range reports {
		r := &reports[i]
		t := r.told()
		if t == nil || t.Cluster != roster.Cluster || t.Before != roster.Version || roster.Index(r.place.member) < 0 {
			continue
		}
		if next != nil && next.Version != t.Version {
			return nil, 0
		}
		if next = t; !slices.Contains(ids, r.place.member) {
			ids = append(ids, r.place.member)
		}
	}
	return next, len(ids)
}

// tellAll tells a chosen version to its members and to those that it has no more. A candidate that
// it does not have stays one: to be told would end that.
func (ms *Membership) tellAll(ctx context.Context, roster *Roster) {
	var asks []*inquiry
	for _, r := range ms.survey(ctx, nil) {
		p := r.place
		if was := p.version != (Version{}) || p.joined != 0 && roster.Index(p.member) >= 0; was && p.cluster == roster.Cluster && p.version.Number < roster.Version.Number {
			if a := r.register.accepted; a == nil || a.Version.Number != roster.Version.Number || a.Version == roster.Version {
				asks = append(asks, ms.telling(r, roster, 0))
			}
		}
	}
	reports := append(ms.ask(ctx, asks, nil), ms.survey(ctx, nil)...)
	if ctx.Err() == nil {
		ms.learn(reports)
	}
}
