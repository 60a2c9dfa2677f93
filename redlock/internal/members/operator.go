package members

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// Standing is what the masters say of the cluster now.
type Standing struct {
	Roster *record.Roster
	Told   map[string]int64 // the number of the version that each member was told
	Next   time.Duration    // until another version can be chosen
	Behind []record.Peer    // members of whom it is not known that they were told the roster
	Open   bool             // a choice was begun, and may be finished
	Ahead  bool             // a member was told later than its clock says that it is: the clock was set back

	reports []core.Report
}

// Standing asks all masters. It fails if no majority tells the same, or ctx ends.
func (ms *Membership) Standing(ctx context.Context) (Standing, error) {
	reports, err := ms.look(ctx)
	if err != nil {
		return Standing{}, err
	}
	return ms.standing(reports)
}

// look asks all masters, and learns what counts. Nothing follows from what they said until ctx
// ended: the others were given no time.
func (ms *Membership) look(ctx context.Context) ([]core.Report, error) {
	reports := ms.survey(ctx, nil)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	ms.learn(reports)
	return reports, nil
}

// NoRosterError means that no majority of members tells the same list.
type NoRosterError struct{ Told, Need int } // how many do, and how many it takes; 0 if no list is known

func (e *NoRosterError) Error() string { return "no majority of the members of a cluster answers" }

func (ms *Membership) standing(reports []core.Report) (Standing, error) {
	ms.mu.Lock()
	roster, conflict, c := ms.keeper.roster, ms.keeper.conflict, ms.clientLocked()
	ms.mu.Unlock()
	if conflict != nil {
		return Standing{}, conflict
	}
	if roster == nil {
		return Standing{}, &NoRosterError{}
	}
	if named := core.NamedIn(reports, roster); named < roster.Need() {
		return Standing{}, &NoRosterError{named, roster.Need()}
	}
	s := Standing{Roster: roster, Told: map[string]int64{}, reports: reports}
	var left []int64 // until each member accepts
	for i := range reports {
		r := &reports[i]
		if t := r.Told(); t != nil && t.Cluster == roster.Cluster && roster.Index(r.Place.Member) >= 0 {
			s.Told[r.Place.Member] = t.Version.Number
		}
		if c.Remembers(r, roster) {
			left = append(left, max(0, min(r.Register.Since+roster.Wait()-r.Now, roster.Wait())))
			s.Open = s.Open || r.Register.Accepted != nil
			s.Ahead = s.Ahead || r.Register.Since > r.Now
		}
	}
	if len(left) < roster.Need() { // the marker of another one is of a life that is over
		return Standing{}, &NoRosterError{len(left), roster.Need()}
	}
	for _, p := range roster.Members {
		if s.Told[p.ID] < roster.Version.Number {
			s.Behind = append(s.Behind, p)
		}
	}
	slices.Sort(left)
	s.Next = time.Duration(left[roster.Need()-1]) * time.Millisecond
	return s, nil
}

// Progress is told what a change waits for. It must be quick.
type Progress func(waits string, left time.Duration)

// Operation is a change of the cluster's list.
type Operation struct {
	Next   func(*Standing) (*record.Roster, error) // returns the next version; nil if nothing is left to do
	Chosen func(before, after *record.Roster)      // is called for each version that was chosen meanwhile
	Tell   Progress
}

// Change makes a change of the cluster's list, and returns when all members know it, or ctx ends.
// What was begun before is finished first.
func (ms *Membership) Change(ctx context.Context, o Operation) error {
	pause := clock.Backoff{Shortest: 10 * time.Millisecond, Longest: time.Second}
	waits, left := "", time.Duration(0)
	for {
		reports, err := ms.look(ctx)
		if err != nil {
			return endedWhile(err, waits)
		}
		left = 0
		s, err := ms.standing(reports)
		switch {
		case errors.As(err, new(*NoRosterError)):
			waits = err.Error()
		case err != nil:
			return err
		default:
			var done bool
			if waits, left, done, err = ms.advance(ctx, &s, o); done || err != nil {
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
		if !clock.Sleep(ctx, ms.clock, left) {
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

// advance makes the next step of a change. It returns what it waits for, and how long that takes at
// least.
func (ms *Membership) advance(ctx context.Context, s *Standing, o Operation) (waits string, left time.Duration, done bool, err error) {
	own, err := o.Next(s)
	if err != nil {
		return "", 0, false, err
	}
	if own == nil && !s.Open {
		for _, p := range s.Behind {
			waits = fmt.Sprintf("member %s (%s) does not know the change yet%s", p.ID, p.Endpoint, ms.whyDown(p))
		}
		ms.tellAll(ctx, s.Roster)
		return waits, 0, len(s.Behind) == 0, nil
	}
	if own != nil && !s.Open {
		for _, p := range s.Behind {
			if own.Index(p.ID) >= 0 { // only the removal of one that is behind may begin
				ms.tellAll(ctx, s.Roster)
				return fmt.Sprintf("member %s (%s) must know the last change first; only it can be removed now%s", p.ID, p.Endpoint, ms.whyDown(p)), 0, false, nil
			}
		}
	}
	if own != nil && !s.Open && ms.clock.Now() > core.FirstAsked(s.reports).Add(core.Fresh(s.Roster.MaxTTL)) {
		return "", 0, false, nil // who told it may have forgotten it since
	}
	if s.Next > 0 && !s.Ahead { // with a promise, who is ahead begins to wait anew
		return "locks that may have begun before the last change", s.Next, false, nil
	}
	chosen, err := ms.choose(ctx, s.Roster, own, s.reports)
	if err == nil && chosen != nil {
		ms.tellAll(ctx, chosen)
		o.Chosen(s.Roster, chosen)
	}
	return "", 0, false, nil // look again
}

// whyDown returns why there is no connection to a member, behind a colon; nothing if there is one.
func (ms *Membership) whyDown(p record.Peer) string {
	if at, known := ms.NodeOf(p.ID, p.Endpoint); known {
		if err := ms.Nodes()[at].Stats().Err; err != nil {
			return ": " + err.Error()
		}
	}
	return ""
}

// Prepare makes a master a candidate: a member once it is told a version that has it. It returns
// the ID that it has, or will have. The master must be new, or have been removed from this cluster.
// The first look at it is that of s, which takes no time from what follows it.
func (ms *Membership) Prepare(ctx context.Context, s *Standing, node int, tell Progress) (id string, err error) {
	pause := clock.Backoff{Shortest: rereadMin, Longest: 100 * time.Millisecond}
	reports, roster := s.reports, s.Roster
	for {
		ms.mu.Lock()
		at := node
		if of := ms.members[node].duplicate; of >= 0 {
			at = of // another name of that server
		}
		ms.mu.Unlock()
		why := ms.Why(at)
		if stats := ms.Nodes()[at].Stats(); why == nil {
			why = stats.Err
		}
		for _, r := range reports {
			if r.Node != at {
				continue
			}
			id, ready, err := ms.prepare(ctx, &r, roster)
			if ready || err != nil {
				return id, err
			}
		}
		if why != nil && ctx.Err() == nil {
			tell(fmt.Sprintf("%s cannot be added yet: %v", ms.Nodes()[node].Endpoint(), why), 0)
		}
		if clock.Sleep(ctx, ms.clock, pause.Next()) {
			reports, err = ms.look(ctx) // somebody else may have added it
		}
		switch {
		case err == nil && ctx.Err() == nil:
		case why != nil:
			return "", fmt.Errorf("%w: %w", ctx.Err(), why)
		default:
			return "", ctx.Err()
		}
		ms.mu.Lock()
		roster = ms.keeper.roster
		ms.mu.Unlock()
	}
}

func (ms *Membership) prepare(ctx context.Context, r *core.Report, roster *record.Roster) (id string, ready bool, err error) {
	p := r.Place
	switch {
	case p.Cluster == roster.Cluster && roster.Index(p.Member) >= 0:
		return p.Member, true, nil // it is a member, or will be again when it has waited
	case p.Cluster == roster.Cluster && p.Joined != 0:
		return p.Member, true, nil // an operator before us has prepared it
	case p.Cluster == roster.Cluster && p.Version.Number > roster.Version.Number:
		return "", false, nil // it may be a member of that one
	case p.Cluster != roster.Cluster && p.Cluster != "" && !p.IsCandidate(): // also if it forgot: that one awaits it
		return "", false, fmt.Errorf("%w: %s, not %s", ErrOtherCluster, p.Cluster, roster.Cluster)
	case r.Marker.State == record.MarkerLater || r.Marker.State == record.MarkerUnreadable || r.Marker.State == record.MarkerAbsent:
		return "", false, nil // the next look may say more
	}
	if id = p.Member; p.Cluster != roster.Cluster { // otherwise a version that was begun may have it
		id = roster.NewID()
	}
	joins := core.Change{Of: *r, Marker: r.Marker.At(record.Place{Cluster: roster.Cluster, Member: id, Joined: r.Now, Life: p.Life})}
	now := ms.apply(ctx, []core.Change{joins}, nil)
	return id, len(now) == 1 && now[0].Text == joins.Marker.Text(), nil
}
