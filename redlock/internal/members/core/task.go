package core

import (
	"slices"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// Task is what a client does in several steps, each by what masters answered to the one before. It
// returns the next step, by what is known at the time now. The first is called without answers.
//
// Who carries a task out asks the masters, and waits in between. So three things must keep a step
// right, whatever happens meanwhile. A master makes a change only if it says what the look has
// (Change). A look is acted on for half a quarantine at most, so no master that has forgotten since
// is back (Fresh). And answers are judged by a Client as it is when they have come: one of them may
// tell that the life of another is over.
//
// A task may end between two steps, as when a process dies. Others finish what was begun, or find
// that nothing came of it.
type Task func(c *Client, now clock.Instant, answers []Report) Step

// Step is what masters are asked, and what follows from that. What counts is learned from each of
// their answers (Learn). The zero Step ends a task.
type Step struct {
	Look   bool           // all masters are asked what they know
	Asks   []Change       // otherwise, masters are asked for these
	Waits  []Waiting      // these masters must wait; the next look shows whether they do
	Chosen *record.Roster // a majority chose this in the task, and it is told to all
	Then   Task           // follows when all have answered, or will not; nil if nothing does
}

// Tasks returns the tasks of what there is to do for a version, in their order: a master that
// rejoins comes before all changes, because that takes promises of members as they were when they
// were asked, and a vote comes of it. Finishes says whether the change after the version, if it is
// under way, was left to its proposer for long enough.
func (t *Todo) Tasks(finishes bool) (tasks []Task) {
	tasks = []Task{Step{Waits: t.Waits}.task}
	for _, r := range t.Rejoins {
		tasks = append(tasks, r.task)
	}
	tasks = append(tasks, Step{Asks: t.Changes}.task)
	if t.Finish != nil {
		tasks = append(tasks, ToFinish(t.Finish))
	}
	if t.Ahead != nil && finishes {
		tasks = append(tasks, ToFinish(t.Ahead))
	}
	return tasks
}

// task is the task that begins with a step.
func (s Step) task(*Client, clock.Instant, []Report) Step { return s }

// task has a master vote again that forgot and has waited.
func (r Rejoining) task(c *Client, now clock.Instant, _ []Report) Step {
	b := NewBallot(r.Reports, c.Longest, now)
	return Step{Asks: c.AskPromises(r.Roster, b, r.Reports), Then: func(c *Client, now clock.Instant, answers []Report) Step {
		// Nobody rejoins later by what the others said now: they may have been told more since.
		if now >= b.Over || now >= FirstAsked(r.Reports).Add(Fresh(r.Roster.MaxTTL)) {
			return Step{}
		}
		return Step{Asks: c.LetRejoin(r, b, c.Promised(r.Roster, b, answers))}
	}}
}

// ToTell returns the task of telling a chosen version to its members and to those that it has no
// more. It looks before it tells, since who accepted has another register than at the look before,
// and after it, for those that somebody else told.
func ToTell(roster *record.Roster) Task {
	last := Step{Look: true}
	return Step{Look: true, Then: func(_ *Client, _ clock.Instant, reports []Report) Step {
		return Step{Asks: TellAll(roster, reports), Then: last.task}
	}}.task
}

// proposer is a choice that is under way. Each step has a copy of it, and returns what the next one
// is called with.
//
//	finish ──▶ begin ──▶ promised ──▶ propose ──▶ accepted ──▶ ToTell
type proposer struct {
	Choice
	own     *record.Roster // a change of our own; nil for none
	reports []Report       // the look that it begins with
	given   []Report       // the promises
	value   *record.Roster // what is proposed
}

// ToChoose returns the task of having a version chosen after the present one: what was begun if
// there is something, and otherwise own, which may be nil.
func ToChoose(roster, own *record.Roster, reports []Report) Task {
	return proposer{Choice: Choice{Of: roster}, own: own, reports: reports}.begin
}

// ToFinish returns the task of completing a change that some members of a version were told, and
// others were not. Who was told promises nothing more for that version, and what it was told was
// chosen: it stands for an acceptance under a ballot above all others. So the others accept it,
// too, also those that forgot what they had accepted, and with those that were told a majority is
// enough. Nobody is told before: if a majority forgot that it chose this version, and has chosen
// another one since, that may count by now.
func ToFinish(before *record.Roster) Task {
	return Step{Look: true, Then: proposer{Choice: Choice{Of: before}}.finish}.task
}

func (p proposer) finish(c *Client, now clock.Instant, reports []Report) Step {
	p.reports = reports
	if p.Told, p.By = ToldNext(p.Of, reports); p.Told == nil {
		return Step{}
	}
	return p.begin(c, now, nil)
}

func (p proposer) begin(c *Client, now clock.Instant, _ []Report) Step {
	p.Ballot = NewBallot(p.reports, c.Longest, now)
	return Step{Asks: c.AskPromises(p.Of, p.Ballot, p.reports), Then: p.promised}
}

func (p proposer) promised(c *Client, now clock.Instant, answers []Report) Step {
	p.given = c.Promised(p.Of, p.Ballot, answers)
	if p.Told == nil {
		return Step{Asks: c.Teach(p.Of, p.Ballot, p.given, p.reports), Then: p.propose}
	}
	p.given = append(p.given, c.Unlearned(p.Of, p.Ballot, p.reports)...)
	return p.propose(c, now, nil)
}

func (p proposer) propose(c *Client, now clock.Instant, taught []Report) Step {
	if slices.ContainsFunc(taught, func(r Report) bool { return r.Register.Promised == p.Ballot.Number }) {
		return Step{} // they take part under the next ballot
	}
	var asks []Change
	if p.value, asks = p.Propose(p.given, p.own); p.value == nil || now >= p.Ballot.Over {
		return Step{}
	}
	return Step{Asks: asks, Then: p.accepted}
}

func (p proposer) accepted(c *Client, now clock.Instant, answers []Report) Step {
	if !c.IsChosen(p.Choice, p.value, answers) {
		return Step{}
	}
	next := ToTell(p.value)(c, now, nil)
	next.Chosen = p.value
	return next
}
