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
// answers are judged by what is known of lives when they have come, and not before: one of them
// may tell that the life of another is over.

// Why a version was not chosen.
var (
	errOutrun    = errors.New("another change came first")
	errNoPromise = errors.New("too few members answered")
)

// choose has a version chosen after the present one, and returns it: what was begun if there is
// something, and otherwise own, which may be nil.
func (rc *Reconciler) choose(ctx context.Context, roster, own *record.Roster, reports []core.Report) (*record.Roster, error) {
	b := rc.newBallot(reports)
	given := rc.promises(ctx, roster, b, reports)
	taught := rc.apply(ctx, rc.ms.client().Teach(roster, b, given, reports), nil)
	if slices.ContainsFunc(taught, func(r core.Report) bool { return r.Register.Promised == b.Number }) {
		return nil, errOutrun // they take part under the next ballot
	}
	ch := core.Choice{Of: roster, Ballot: b}
	value, asks := rc.ms.client().Propose(ch, given, own)
	switch {
	case len(given) < roster.Need():
		return nil, errNoPromise
	case value != nil && !rc.accept(ctx, ch, value, asks):
		return nil, errOutrun
	default:
		return value, nil
	}
}

// newBallot returns a ballot that begins now.
func (rc *Reconciler) newBallot(reports []core.Report) core.Ballot {
	return core.NewBallot(reports, rc.ms.LongestTTL(), rc.ms.clock.Now())
}

// promises asks the members for their promise, and returns the reports of those that gave it: what
// they say after that, by which they are then asked to accept. Which answers are promises is
// decided when all have come, by what is known of lives then.
func (rc *Reconciler) promises(ctx context.Context, roster *record.Roster, b core.Ballot, reports []core.Report) (given []core.Report) {
	answers := rc.apply(ctx, rc.ms.client().AskPromises(roster, b, reports), nil)
	return rc.ms.client().Promised(roster, b, answers)
}

// accept asks for a version to be accepted, and reports whether it was chosen.
func (rc *Reconciler) accept(ctx context.Context, ch core.Choice, value *record.Roster, asks []core.Change) bool {
	if rc.ms.clock.Now() >= ch.Ballot.Over {
		return false
	}
	answers := rc.apply(ctx, asks, nil)
	return rc.ms.client().IsChosen(ch, value, answers)
}

// finish completes a change that some members of a version were told, and others were not. Who was
// told promises nothing more for that version, and what it was told was chosen: it stands for an
// acceptance under a ballot above all others. So the others accept it, too, also those that forgot
// what they had accepted, and with those that were told a majority is enough. Nobody is told
// before: if a majority forgot that it chose this version, and has chosen another one since, that
// may count by now.
func (rc *Reconciler) finish(ctx context.Context, before *record.Roster) {
	reports := rc.survey(ctx, nil)
	told, by := core.ToldNext(before, reports)
	if told == nil {
		return
	}
	b := rc.newBallot(reports)
	given := rc.promises(ctx, before, b, reports)
	given = append(given, rc.ms.client().Unlearned(before, b, reports)...)
	ch := core.Choice{Of: before, Ballot: b, Told: told, By: by}
	value, asks := rc.ms.client().Propose(ch, given, nil)
	if value == nil || !rc.accept(ctx, ch, value, asks) {
		return
	}
	rc.ms.mu.Lock()
	if rc.ms.belief.Roster == before {
		rc.ms.adoptLocked(told) // its other members can be found now
	}
	rc.ms.mu.Unlock()
	rc.tellAll(ctx, told)
}

// tellAll tells a chosen version to its members and to those that it has no more, and learns from
// their answers. It looks before it tells, since who accepted has another register than at the
// look before, and after it, for those that somebody else told.
func (rc *Reconciler) tellAll(ctx context.Context, roster *record.Roster) {
	told := rc.apply(ctx, core.TellAll(roster, rc.survey(ctx, nil)), nil)
	reports := append(told, rc.survey(ctx, nil)...)
	if ctx.Err() == nil {
		rc.ms.learn(reports)
	}
}

// form has masters form a cluster, if all of them can: those of the list, or of a roster that none
// of its members remembers.
func (rc *Reconciler) form(ctx context.Context, reports []core.Report, roster *record.Roster) {
	began := rc.ms.clock.Now()
	f := rc.formable(reports, roster)
	if !f.May {
		rc.apply(ctx, rc.ms.client().SetBack(f.Of), nil)
		return
	}
	maxTTL := rc.ms.maxTTL
	if roster != nil {
		maxTTL = roster.MaxTTL
	}
	roster = record.NewCluster(maxTTL, rc.endpointsOf(f.Of))
	joined := rc.join(ctx, f.Of[:1], roster)
	if len(joined) == 1 {
		joined = append(joined, rc.join(ctx, f.Of[1:], roster)...)
	}
	asks, all := core.TellFirst(joined, rc.ms.clock.Now() <= began.Add(core.Joining(maxTTL)), roster)
	soFar := rc.ms.learn
	if !all {
		soFar = nil
	}
	rc.apply(ctx, asks, soFar)
}

// formable returns what the masters would form, and notes what is missing, for those who ask why
// nobody votes (awayLocked).
func (rc *Reconciler) formable(reports []core.Report, roster *record.Roster) core.Formation {
	rc.ms.mu.Lock()
	defer rc.ms.mu.Unlock()
	f := rc.ms.clientLocked().Formable(reports, roster)
	rc.ms.belief.missing = f.Missing
	return f
}

// endpointsOf returns the endpoints of masters with the names that their certificates must have:
// both go into the roster, by which other clients dial them.
func (rc *Reconciler) endpointsOf(reports []core.Report) (endpoints []string) {
	for i := range reports {
		endpoints = append(endpoints, rc.ms.Nodes()[reports[i].Node].Listed())
	}
	return endpoints
}

// join has masters join a cluster, and returns the reports of those that did.
func (rc *Reconciler) join(ctx context.Context, reports []core.Report, roster *record.Roster) []core.Report {
	return core.Joined(rc.apply(ctx, rc.ms.client().AskToJoin(reports, roster), nil), roster)
}

// letWait has a master wait that may have forgotten locks. Nobody waits for the answer: if the
// marker was another one by then, the next look finds what is to be done.
func (rc *Reconciler) letWait(r *core.Report, change wire.Swap) {
	request := wire.Memory(r.Text, change)
	request.Deadline, request.Sink = rc.ms.clock.Now().Add(askTimeout), ignored{rc.ms}
	rc.ms.do(rc.ms.Nodes()[r.Node], &request)
}

// ignored is for a request whose answer nobody needs: the next look at the marker shows it.
type ignored struct{ membership *Membership }

func (i ignored) asks() *Membership { return i.membership }

// Complete takes the answer. It implements pipeline.Sink.
func (ignored) Complete(int, any, error) {}

// letTornWait has the masters wait that have lost a part of their keys, and returns the reports of
// the others: nothing follows from what a torn one says. It is done before all else of a pass,
// with or without a cluster, since such a marker vouches for nothing. It keeps the order of the
// reports, which it takes over.
func (rc *Reconciler) letTornWait(reports []core.Report, roster *record.Roster) []core.Report {
	c, longest := rc.ms.client(), rc.ms.LongestTTL()
	if roster == nil {
		roster = c.Newest(reports, nil, true)
	}
	return slices.DeleteFunc(reports, func(r core.Report) bool {
		torn := r.IsTorn()
		if torn {
			rc.letWait(&r, c.LetTornWait(&r, roster, longest))
		}
		return torn
	})
}

// rejoin has a master vote again that forgot and has waited.
func (rc *Reconciler) rejoin(ctx context.Context, r core.Rejoining) {
	b := rc.newBallot(r.Reports)
	given := rc.promises(ctx, r.Roster, b, r.Reports)
	asks := rc.ms.client().LetRejoin(r, b, given)
	// Nobody rejoins later by what the others said now: they may have been told more since.
	if now := rc.ms.clock.Now(); now < b.Over && now < core.FirstAsked(r.Reports).Add(core.Fresh(r.Roster.MaxTTL)) {
		rc.apply(ctx, asks, nil)
	}
}
