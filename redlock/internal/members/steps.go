package members

import (
	"cmp"
	"context"
	"slices"

	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// run carries out a task of package core, for the reconciler or an operator, and returns the
// version that it had chosen, if any. The mutex is free while masters are asked.
func (rc *Reconciler) run(ctx context.Context, task core.Task) (chosen *record.Roster) {
	var answers []core.Report
	for task != nil {
		s := task(rc.ms.client(), rc.ms.clock.Now(), answers)
		for _, w := range s.Waits {
			rc.letWait(w.Of, w.Swap)
		}
		if s.Look {
			answers = rc.survey(ctx, rc.ms.learn)
		} else {
			answers = rc.apply(ctx, s.Asks, rc.ms.learn)
		}
		chosen, task = cmp.Or(s.Chosen, chosen), s.Then
	}
	return chosen
}

// form has masters form a cluster, if all of them can: those of the list, or of a roster that none
// of its members remembers.
func (rc *Reconciler) form(ctx context.Context, reports []core.Report, roster *record.Roster) {
	f := rc.formable(reports, roster)
	if !f.May {
		rc.apply(ctx, rc.ms.client().SetBack(f.Of), nil)
		return
	}
	maxTTL := rc.ms.maxTTL
	if roster != nil {
		maxTTL = roster.MaxTTL
	}
	rc.run(ctx, core.ToForm(f.Of, record.NewCluster(maxTTL, rc.endpointsOf(f.Of))))
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
	c := rc.ms.client()
	if roster == nil {
		roster = c.Newest(reports, nil, true)
	}
	return slices.DeleteFunc(reports, func(r core.Report) bool {
		torn := r.IsTorn()
		if torn {
			rc.letWait(&r, c.LetTornWait(&r, roster))
		}
		return torn
	})
}
