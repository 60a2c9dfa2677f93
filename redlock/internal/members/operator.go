package members

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Standing is what the masters say of the cluster now.
type Standing = core.Standing

// NoRosterError means that no majority of members tells the same list.
type NoRosterError = core.NoRosterError

// Standing asks all masters. It fails if no majority tells the same, or ctx ends.
func (rc *Reconciler) Standing(ctx context.Context) (Standing, error) {
	reports, err := rc.look(ctx)
	if err != nil {
		return Standing{}, err
	}
	return rc.standing(reports)
}

// look asks all masters, and learns what counts. Nothing follows from what they said until ctx
// ended: the others were given no time.
func (rc *Reconciler) look(ctx context.Context) ([]core.Report, error) {
	reports := rc.survey(ctx, nil)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	rc.ms.learn(reports)
	return reports, nil
}

// standing returns what the reports say of the version by which votes count now: learn may have
// found a newer one in them. An operator is told of a conflict, and changes neither cluster.
func (rc *Reconciler) standing(reports []core.Report) (Standing, error) {
	rc.ms.mu.Lock()
	defer rc.ms.mu.Unlock()
	if k := &rc.ms.belief; k.Conflict != nil {
		return Standing{}, k.Conflict
	}
	return rc.ms.clientLocked().Standing(rc.ms.belief.Roster, reports)
}

// Progress is told what a change waits for. It must be quick.
type Progress func(waits string, left time.Duration)

// Operation is a change of the cluster's list. Its functions are called on the goroutine of
// Change, one at a time, while no mutex is held. Next is asked anew at each turn, and must come to
// the same change from any standing: somebody else may have made a part of it.
type Operation struct {
	Next   func(*Standing) (*record.Roster, error) // returns the next version; nil if nothing is left to do
	Chosen func(before, after *record.Roster)      // is called for each version that was chosen meanwhile
	Tell   Progress
}

// Change makes a change of the cluster's list, and returns when all members know it, or ctx ends.
// What was begun before is finished first.
//
// Each turn begins with a look at the masters and keeps nothing of the turn before. So it does not
// matter who made a step: this call, an operator elsewhere, or a reconciler. If ctx ends in
// between, what was begun stays, and others finish it or find that it was not chosen.
func (rc *Reconciler) Change(ctx context.Context, o Operation) error {
	pause := clock.Backoff{Shortest: 10 * time.Millisecond, Longest: time.Second}
	waits, left := "", time.Duration(0)
	for {
		reports, err := rc.look(ctx)
		if err != nil {
			return endedWhile(err, waits)
		}
		left = 0
		s, err := rc.standing(reports)
		switch {
		case errors.As(err, new(*NoRosterError)):
			waits = err.Error()
		case err != nil:
			return err
		default:
			var done bool
			if waits, left, done, err = rc.advance(ctx, &s, o); done || err != nil {
				return err
			}
		}
		if waits != "" {
			o.Tell(waits, left)
		}
		// A long wait is looked at every second: somebody else may finish the change.
		if left = min(left, time.Second); left == 0 {
			left = pause.Next()
		}
		if !clock.Sleep(ctx, rc.ms.clock, left) {
			return endedWhile(ctx.Err(), waits)
		}
	}
}

// endedWhile says what was waited for when a context ended.
func endedWhile(err error, waits string) error {
	if waits == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, waits)
}

// advance makes the next step of a change. It returns what it waits for, and how long that takes
// at least. A step that fails is no error: the next look shows what became of it, and somebody
// else may have made it. Only what Next refuses, or a context that ended, ends a change.
func (rc *Reconciler) advance(ctx context.Context, s *Standing, o Operation) (waits string, left time.Duration, done bool, err error) {
	own, err := o.Next(s)
	if err != nil {
		return "", 0, false, err
	}
	move, propose := s.NextMove(own, rc.ms.clock.Now())
	switch move {
	case core.TellThem:
		for _, p := range s.Behind {
			waits = fmt.Sprintf("member %s (%s) does not know the change yet%s", p.ID, p.Endpoint, rc.whyDown(p))
		}
		rc.run(ctx, core.ToTell(s.Roster))
		return waits, 0, len(s.Behind) == 0, nil
	case core.TellBefore:
		rc.run(ctx, core.ToTell(s.Roster))
		p, _ := s.Awaited(own)
		return fmt.Sprintf("member %s (%s) must know the last change first; only it can be removed now%s", p.ID, p.Endpoint, rc.whyDown(p)), 0, false, nil
	case core.LookAgain:
		return "", 0, false, nil
	case core.AwaitLocks:
		return "locks that may have begun before the last change", s.Next, false, nil
	case core.ChooseAfter:
	}
	if chosen := rc.run(ctx, core.ToChoose(s.Roster, propose, s.Reports)); chosen != nil {
		o.Chosen(s.Roster, chosen)
	}
	return "", 0, false, nil // look again
}

// whyDown returns why there is no connection to a member, behind a colon; nothing if there is one.
func (rc *Reconciler) whyDown(p record.Peer) string {
	if at, known := rc.ms.NodeOf(p.ID, p.Endpoint); known {
		if err := rc.ms.Nodes()[at].Stats().Err; err != nil {
			return ": " + err.Error()
		}
	}
	return ""
}

// Prepare makes a master a candidate: a member once it is told a version that has it. It returns
// the ID that it has, or will have. The master must be new, or have been removed from this
// cluster. The first look at it is that of s, which takes no time from what follows it.
//
// To be a candidate grants nothing: the master votes once it is told a version that has it. So one
// that nobody goes on with may stay a candidate, and the next call finds it as that.
func (rc *Reconciler) Prepare(ctx context.Context, s *Standing, node int, tell Progress) (id string, err error) {
	pause := clock.Backoff{Shortest: rereadMin, Longest: 100 * time.Millisecond}
	reports, roster := s.Reports, s.Roster
	for {
		rc.ms.mu.Lock()
		at := node
		if of := rc.ms.members[node].duplicate; of >= 0 {
			at = of // another name of that server
		}
		rc.ms.mu.Unlock()
		why := rc.ms.Why(at)
		if stats := rc.ms.Nodes()[at].Stats(); why == nil {
			why = stats.Err
		}
		for _, r := range reports {
			if r.Node != at {
				continue
			}
			id, ready, err := rc.prepare(ctx, &r, roster)
			if ready || err != nil {
				return id, err
			}
		}
		if why != nil && !errors.Is(why, ErrNotMember) && ctx.Err() == nil { // it is to become one
			tell(fmt.Sprintf("%s cannot be added yet: %v", rc.ms.Nodes()[node].Endpoint(), why), 0)
		}
		if clock.Sleep(ctx, rc.ms.clock, pause.Next()) {
			reports, err = rc.look(ctx) // somebody else may have added it
		}
		switch {
		case err == nil && ctx.Err() == nil:
		case why != nil:
			return "", fmt.Errorf("%w: %w", ctx.Err(), why)
		default:
			return "", ctx.Err()
		}
		rc.ms.mu.Lock()
		roster = rc.ms.belief.Roster
		rc.ms.mu.Unlock()
	}
}

// prepare makes the candidate of what a master said, if it may be one. It is ready when its marker
// says so: if it says anything else by now, the next look tells why.
func (rc *Reconciler) prepare(ctx context.Context, r *core.Report, roster *record.Roster) (id string, ready bool, err error) {
	id, may := core.CandidacyOf(r, roster)
	switch may {
	case core.IsCandidate:
		return id, true, nil
	case core.NotYet:
		return "", false, nil
	case core.OfAnother:
		return "", false, fmt.Errorf("%w: %s, not %s", ErrOtherCluster, r.Place.Cluster, roster.Cluster)
	case core.MayBe:
	}
	asks := core.AskToBe(r, roster, id)
	now := rc.apply(ctx, []core.Change{asks}, nil)
	return id, len(now) == 1 && now[0].Text == asks.Marker.Text(), nil
}

// FormAnyway makes a cluster of all masters of the list that are there and remember, whatever they
// belong to, unless a quorum votes: an operator knows that what they belong to is gone.
//
// It is outside of what the protocol promises, and so does the least: each master joins and is
// told by a compare-and-set like that of any cluster that is formed, and votes count by the new
// one only if all of them were told it. If not, the next call begins again, with what they belong
// to by then.
func (rc *Reconciler) FormAnyway(ctx context.Context) {
	if rc.ms.View().Enough {
		return
	}
	var there []core.Report
	for _, r := range rc.survey(ctx, rc.ms.learn) {
		rc.ms.mu.Lock()
		is := r.Node < rc.ms.listed && rc.ms.members[r.Node].duplicate < 0
		rc.ms.mu.Unlock()
		if is && r.Marker.State == record.MarkerActive {
			there = append(there, r)
		}
	}
	if len(there) == 0 || rc.ms.View().Enough || ctx.Err() != nil {
		return
	}
	roster := record.NewCluster(rc.ms.maxTTL, rc.endpointsOf(there))
	var asks []core.Change
	joined := rc.apply(ctx, rc.ms.client().AskToJoin(there, roster), nil)
	for _, r := range core.Joined(joined, roster) {
		asks = append(asks, core.Telling(&r, roster, 0))
	}
	told := rc.apply(ctx, asks, nil)
	rc.ms.mu.Lock()
	if ctx.Err() == nil {
		rc.ms.cluster = "" // that cluster is gone
	}
	if len(told) == len(there) {
		rc.ms.adoptLocked(roster)
	}
	rc.ms.endLocked(false)
}

// Initialize makes new nodes active if fresh is set, and lost ones if lost is set, unless another
// request to them is under way. It reports whether the outcome for a node is still open, and
// returns a channel that is closed at the next change.
//
// An operator vouches for the memory of these masters, so they are trusted whatever we know of it:
// under the incarnation that they have now (pardoned), and no later one. A second read is given
// up for that, as it would make the same of them, later.
func (ms *Membership) Initialize(fresh, lost bool) (undecided bool, changed <-chan struct{}) {
	ms.mu.Lock()
	for i := range ms.members {
		n := &ms.members[i]
		mine := n.phase == phaseQuarantined && n.duplicate < 0 && n.server.Is(n.marker) && n.err == nil &&
			ms.Nodes()[i].State() != pipeline.Down && n.pardoned != n.marker.Incarnation &&
			(fresh && n.marker.State == record.MarkerNew || lost && n.marker.State == record.MarkerLost)
		if mine && (n.asking == nil || n.asking.secondRead != nil) {
			ms.secondRead, n.pardoned = nil, n.marker.Incarnation
			m := n.marker
			if n.server.Named() {
				m.RunID = n.server.RunID
			}
			ms.sendLocked(i, &wire.Swap{Begin: record.WordActive, Rest: m.Rest()}, nil)
		}
		undecided = undecided || n.phase == phaseQuarantined && n.asking != nil || ms.undecidedLocked(i, ms.View())
	}
	changed = ms.changedLocked()
	outbox := ms.outbox
	ms.outbox = nil
	ms.mu.Unlock()
	ms.send(outbox)
	return undecided, changed
}
