package members

import (
	"context"
	"errors"
	"slices"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// The next version is chosen by the members of the present one, with promise and accept (Lamport,
// "Paxos Made Simple", 2001). What a majority accepted is chosen; then all are told.

// ballot is an attempt to have a version chosen. Nothing is sent under it when it is over, and no
// master accepts anything under it later than life after it promised.
type ballot struct {
	number record.Version
	over   clock.Instant
	life   int64 // milliseconds
}

// newBallot returns a ballot above all that were promised. It lasts half a quarantine at most, so
// that a master that forgets what it promised is not back before it is over.
func (ms *Membership) newBallot(reports []core.Report) ballot {
	var highest int64
	life := fresh(ms.LongestTTL())
	for i := range reports {
		highest = max(highest, reports[i].Register.Promised.Number, reports[i].Register.Ballot.Number)
		if t := reports[i].Told(); t != nil {
			life = min(life, fresh(t.MaxTTL))
		}
	}
	return ballot{record.Version{Number: highest + 1, Name: record.NewName()}, ms.clock.Now().Add(life), life.Milliseconds()}
}

// promises asks the members for their promise, and returns the reports of those that gave it. A
// master promises if it was told this version and nothing newer, has learned what it forgot, and
// has promised nothing larger.
func (ms *Membership) promises(ctx context.Context, roster *record.Roster, b ballot, reports []core.Report) (given []core.Report) {
	var asks []*inquiry
	c := ms.client()
	for _, r := range reports {
		if !c.Remembers(&r, roster) || r.Register.Unlearned || !b.number.Above(r.Register.Promised) {
			continue
		}
		next := r.Register
		next.Promised, next.Until = b.number, r.Now+b.life
		asks = append(asks, ms.swapping(r, change{marker: r.Marker, register: &next, told: r.Register.Since > r.Now}))
	}
	answers := ms.ask(ctx, asks, nil)
	c = ms.client()
	for _, r := range answers {
		if c.Remembers(&r, roster) && r.Register.Promised == b.number {
			given = append(given, r)
		}
	}
	return given
}

// found returns what was accepted under the largest ballot; nil if nothing was.
func found(given []core.Report) (under record.Version, accepted *record.Roster) {
	for i := range given {
		if g := &given[i].Register; g.Accepted != nil && (accepted == nil || g.Ballot.Above(under)) {
			under, accepted = g.Ballot, g.Accepted
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
func (ms *Membership) choose(ctx context.Context, roster, own *record.Roster, reports []core.Report) (*record.Roster, error) {
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
	if ms.accept(ctx, roster, b, value, given, roster.Wait()) < roster.Need() {
		return nil, errOutrun
	}
	return value, nil
}

// accept asks those that promised to accept a version, each so many milliseconds after it was told
// the present one. It returns how many now hold to it: they accepted it, or were told it meanwhile.
func (ms *Membership) accept(ctx context.Context, roster *record.Roster, b ballot, value *record.Roster, given []core.Report, wait int64) (holding int) {
	var asks []*inquiry
	for _, r := range given {
		next := r.Register
		next.Ballot, next.Accepted = b.number, value
		asks = append(asks, ms.swapping(r, change{marker: r.Marker, register: &next, due: r.Register.Since + wait, latest: r.Register.Until}))
	}
	if ms.clock.Now() >= b.over {
		return 0
	}
	answers := ms.ask(ctx, asks, nil)
	c := ms.client()
	for _, r := range answers {
		t := r.Told()
		if c.Remembers(&r, roster) && r.Register.Ballot == b.number && r.Register.Accepted != nil || t != nil && t.Version == value.Version {
			holding++
		}
	}
	return holding
}

// learns reports whether a master that forgot learns what it may have accepted. So many others have
// told what they accepted that one of them is in every majority in which it may have been; or every
// member that remembers anything has.
func (ms *Membership) learns(roster *record.Roster, given, reports []core.Report) bool {
	if len(given) > len(roster.Members)-roster.Need() {
		return true
	}
	for _, p := range roster.Members {
		forgot := slices.ContainsFunc(reports, func(r core.Report) bool {
			id, ours := r.Place.Member, r.Place.Cluster == roster.Cluster
			if !ours && r.Place.Cluster == "" {
				id, ours = p.ID, ms.nodeOf(&r).Endpoint() == p.Endpoint
			}
			return ours && id == p.ID && (r.Told() == nil || r.Register.Unlearned)
		})
		told := slices.ContainsFunc(given, func(r core.Report) bool { return r.Place.Member == p.ID })
		if !forgot && !told {
			return false
		}
	}
	return true
}

// teach lets members take part in the choice that forgot, and rejoined when too few others were
// there to tell what they had accepted.
func (ms *Membership) teach(ctx context.Context, roster *record.Roster, b ballot, given, reports []core.Report) (taught bool) {
	if !ms.learns(roster, given, reports) {
		return false
	}
	var asks []*inquiry
	c := ms.client()
	for _, r := range reports {
		if c.Remembers(&r, roster) && r.Register.Unlearned {
			next := record.Register{Since: r.Register.Since, Told: roster, Promised: b.number, Until: r.Now + b.life}
			next.Ballot, next.Accepted = found(given)
			asks = append(asks, ms.swapping(r, change{marker: r.Marker, register: &next}))
		}
	}
	return slices.ContainsFunc(ms.ask(ctx, asks, nil), func(r core.Report) bool { return r.Register.Promised == b.number })
}

// finish completes a change that some members of a version were told, and others were not. Who was
// told promises nothing more for that version, and what it was told was chosen: it stands for an
// acceptance under a ballot above all others. So the others accept it, too, also those that forgot
// what they had accepted, and with those that were told a majority is enough. Nobody is told
// before: if a majority forgot that it chose this version, and has chosen another one since, that
// may count by now.
func (ms *Membership) finish(ctx context.Context, before *record.Roster) {
	reports := ms.survey(ctx, nil)
	told, by := core.ToldNext(before, reports)
	if told == nil {
		return
	}
	b := ms.newBallot(reports)
	given := ms.promises(ctx, before, b, reports)
	c := ms.client()
	for _, r := range reports {
		if r.Register.Unlearned && c.Remembers(&r, before) {
			r.Register.Unlearned, r.Register.Promised, r.Register.Until = false, b.number, r.Now+b.life
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

// tellAll tells a chosen version to its members and to those that it has no more. A candidate that
// it does not have stays one: to be told would end that.
func (ms *Membership) tellAll(ctx context.Context, roster *record.Roster) {
	var asks []*inquiry
	for _, r := range ms.survey(ctx, nil) {
		p := r.Place
		if was := p.Version != (record.Version{}) || p.Joined != 0 && roster.Index(p.Member) >= 0; was && p.Cluster == roster.Cluster && p.Version.Number < roster.Version.Number {
			if a := r.Register.Accepted; a == nil || a.Version.Number != roster.Version.Number || a.Version == roster.Version {
				asks = append(asks, ms.telling(r, roster, 0))
			}
		}
	}
	reports := append(ms.ask(ctx, asks, nil), ms.survey(ctx, nil)...)
	if ctx.Err() == nil {
		ms.learn(reports)
	}
}
