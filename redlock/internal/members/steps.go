package members

import (
	"context"
	"errors"
	"slices"

	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// The steps of this file are those of the reconciler and of operators. Each has three parts: a
// decision of package core by a look at the masters, the changes that follow from it, and a
// decision by what the masters said to these. The mutex is free while masters are asked. Three
// things keep that right, whatever happens meanwhile:
//
// A master makes a change only if it says what the look has (core.Change). A look is acted on for
// half a quarantine at most, so no master that has forgotten since is back (core.Fresh). And the
// answers are judged by what is known of lives when they have come, and not before: one of them may
// tell that the life of another is over.

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
	taught := ms.apply(ctx, ms.client().Teach(roster, b, given, reports), nil)
	if slices.ContainsFunc(taught, func(r core.Report) bool { return r.Register.Promised == b.Number }) {
		return nil, errOutrun // they take part under the next ballot
	}
	ch := core.Choice{Of: roster, Ballot: b}
	value, asks := ms.client().Propose(ch, given, own)
	switch {
	case len(given) < roster.Need():
		return nil, errNoPromise
	case value != nil && !ms.accept(ctx, ch, value, asks):
		return nil, errOutrun
	default:
		return value, nil
	}
}

// newBallot returns a ballot that begins now.
func (ms *Membership) newBallot(reports []core.Report) core.Ballot {
	return core.NewBallot(reports, ms.LongestTTL(), ms.clock.Now())
}

// promises asks the members for their promise, and returns the reports of those that gave it.
func (ms *Membership) promises(ctx context.Context, roster *record.Roster, b core.Ballot, reports []core.Report) (given []core.Report) {
	answers := ms.apply(ctx, ms.client().AskPromises(roster, b, reports), nil)
	return ms.client().Promised(roster, b, answers)
}

// accept asks for a version to be accepted, and reports whether it was chosen.
func (ms *Membership) accept(ctx context.Context, ch core.Choice, value *record.Roster, asks []core.Change) bool {
	if ms.clock.Now() >= ch.Ballot.Over {
		return false
	}
	answers := ms.apply(ctx, asks, nil)
	return ms.client().IsChosen(ch, value, answers)
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
	given = append(given, ms.client().Unlearned(before, b, reports)...)
	ch := core.Choice{Of: before, Ballot: b, Told: told, By: by}
	value, asks := ms.client().Propose(ch, given, nil)
	if value == nil || !ms.accept(ctx, ch, value, asks) {
		return
	}
	ms.mu.Lock()
	if ms.reconciler.roster == before {
		ms.adoptLocked(told) // its other members can be found now
	}
	ms.mu.Unlock()
	ms.tellAll(ctx, told)
}

// tellAll tells a chosen version to its members and to those that it has no more.
func (ms *Membership) tellAll(ctx context.Context, roster *record.Roster) {
	told := ms.apply(ctx, core.TellAll(roster, ms.survey(ctx, nil)), nil)
	reports := append(told, ms.survey(ctx, nil)...)
	if ctx.Err() == nil {
		ms.learn(reports)
	}
}

// form has masters form a cluster, if all of them can: those of the list, or of a roster that none
// of its members remembers.
func (ms *Membership) form(ctx context.Context, reports []core.Report, roster *record.Roster) {
	began := ms.clock.Now()
	f := ms.formable(reports, roster)
	if !f.May {
		ms.apply(ctx, ms.client().SetBack(f.Of), nil)
		return
	}
	maxTTL := ms.maxTTL
	if roster != nil {
		maxTTL = roster.MaxTTL
	}
	roster = record.NewCluster(maxTTL, ms.endpointsOf(f.Of))
	joined := ms.join(ctx, f.Of[:1], roster)
	if len(joined) == 1 {
		joined = append(joined, ms.join(ctx, f.Of[1:], roster)...)
	}
	asks, all := core.TellFirst(joined, ms.clock.Now() <= began.Add(core.Joining(maxTTL)), roster)
	soFar := ms.learn
	if !all {
		soFar = nil
	}
	ms.apply(ctx, asks, soFar)
}

// formable returns what the masters would form, and notes what is missing.
func (ms *Membership) formable(reports []core.Report, roster *record.Roster) core.Formation {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	f := ms.clientLocked().Formable(reports, roster)
	ms.reconciler.missing = f.Missing
	return f
}

// endpointsOf returns the endpoints of masters with the names that their certificates must have.
func (ms *Membership) endpointsOf(reports []core.Report) (endpoints []string) {
	for i := range reports {
		endpoints = append(endpoints, ms.Nodes()[reports[i].Node].Listed())
	}
	return endpoints
}

// join has masters join a cluster, and returns the reports of those that did.
func (ms *Membership) join(ctx context.Context, reports []core.Report, roster *record.Roster) []core.Report {
	return core.Joined(ms.apply(ctx, ms.client().AskToJoin(reports, roster), nil), roster)
}

// letWait has a master wait that may have forgotten locks.
func (ms *Membership) letWait(r *core.Report, change wire.Swap) {
	request := wire.Memory(r.Text, change)
	request.Deadline, request.Sink = ms.clock.Now().Add(askTimeout), ignored{ms}
	ms.do(ms.Nodes()[r.Node], &request)
}

// ignored is for a request whose answer nobody needs: the next look at the marker shows it.
type ignored struct{ membership *Membership }

func (i ignored) asks() *Membership { return i.membership }

// Complete takes the answer. It implements pipeline.Sink.
func (ignored) Complete(int, any, error) {}

// letTornWait has the masters wait that have lost a part of their keys, and returns the reports of
// the others.
func (ms *Membership) letTornWait(reports []core.Report, roster *record.Roster) []core.Report {
	c, longest := ms.client(), ms.LongestTTL()
	if roster == nil {
		roster = c.Newest(reports, nil, true)
	}
	return slices.DeleteFunc(reports, func(r core.Report) bool {
		torn := r.IsTorn()
		if torn {
			ms.letWait(&r, c.LetTornWait(&r, roster, longest))
		}
		return torn
	})
}

// rejoin has a master vote again that forgot and has waited.
func (ms *Membership) rejoin(ctx context.Context, r *core.Report, roster *record.Roster, id string, reports []core.Report) {
	b := ms.newBallot(reports)
	given := ms.promises(ctx, roster, b, reports)
	asks := ms.client().LetRejoin(r, roster, id, b, given, reports)
	// Nobody rejoins later by what the others said now: they may have been told more since.
	if now := ms.clock.Now(); now < b.Over && now < core.FirstAsked(reports).Add(core.Fresh(roster.MaxTTL)) {
		ms.apply(ctx, asks, nil)
	}
}
