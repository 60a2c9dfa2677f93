package members

import (
	"context"
	"errors"
	"slices"

	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

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
	if len(given) < roster.Need() {
		return nil, errNoPromise
	}
	value := core.Proposal(given, own)
	if value == nil {
		return nil, nil
	}
	if ms.accept(ctx, roster, b, value, given, roster.Wait()) < roster.Need() {
		return nil, errOutrun
	}
	return value, nil
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

// accept asks those that promised to accept a version, and returns how many now hold to it.
func (ms *Membership) accept(ctx context.Context, roster *record.Roster, b core.Ballot, value *record.Roster, given []core.Report, wait int64) (holding int) {
	if ms.clock.Now() >= b.Over {
		return 0
	}
	answers := ms.apply(ctx, core.AskAcceptance(b, value, given, wait), nil)
	return ms.client().Holding(roster, b, value, answers)
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

// tellAll tells a chosen version to its members and to those that it has no more.
func (ms *Membership) tellAll(ctx context.Context, roster *record.Roster) {
	told := ms.apply(ctx, core.TellAll(roster, ms.survey(ctx, nil)), nil)
	reports := append(told, ms.survey(ctx, nil)...)
	if ctx.Err() == nil {
		ms.learn(reports)
	}
}
