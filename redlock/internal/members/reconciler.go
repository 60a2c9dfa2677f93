package members

import (
	"context"
	"slices"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/trouble"
	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Reconciler looks after the cluster: it finds out which masters are its members, and does what
// any client may do for it. It forms a new one, tells masters that are behind, lets those rejoin
// that forgot, and finishes changes that were begun. It runs while something is left to do, which
// a marker shows that does not name the roster that we count by.
//
// It has nothing of its own: a pass keeps nothing for the next one, and what it learns it writes
// into the state, under mu. Its requests are made while mu is free. One pass runs at most, on a
// goroutine that pace.running stands for; but operators go through the same steps on goroutines of
// their own, and so do other processes. They need not know of one another: each step is a
// compare-and-set at each master, so whoever is outrun changes nothing, and looks again.
type Reconciler struct {
	ms *Membership
}

// belief is by what votes count, and what a pass of the reconciler noted about it. Reports change
// it (learn), and an operator who forms a cluster anew. It is guarded by mu.
type belief struct {
	core.Belief
	byList  bool           // no roster can be known, as most masters forbid to read theirs: the list is the cluster
	newer   clock.Instant  // since when a master was told more than a quorum; 0 if none is
	missing []string       // the list's masters without which no cluster can be formed
	settled record.Version // of the roster, once all of its members were told it (settleLocked)

	unproven *record.Roster // the newest that a master was told, if it may count (core.Client.Unproven)
}

// pace is when the reconciler runs. It is guarded by mu.
type pace struct {
	running bool
	stop    func()        // ends its run; nil before the first
	pause   clock.Backoff // between its runs
	count   int           // of runs since a marker said something new
	retryAt clock.Instant // when to run again; never if nothing is left to do
}

// finishAfter is how long a proposer has for telling the members before others finish its change.
const finishAfter = 100 * time.Millisecond

// reconcileLocked starts the reconciler if there is something to do. Whoever changes what is known
// calls it, so no change is overlooked: one that comes while a pass is under way sets stirred, or
// is found by the look at the end of the pass. Passes that found nothing new come ever more
// rarely, and at once again when a marker says something new.
func (ms *Membership) reconcileLocked() {
	k := &ms.runs
	if k.running || ms.stopped || ms.clock.Now() < k.retryAt && !ms.stirred && ms.endingLocked().Empty() {
		return
	}
	if !ms.unsettledLocked() {
		k.retryAt = never
		return
	}
	if ms.stirred {
		k.pause, k.count = clock.Backoff{Shortest: rereadMin, Longest: rereadMax}, 0
	}
	k.count++
	k.running, k.retryAt, ms.stirred = true, never, false
	ctx, stop := context.WithCancel(context.Background())
	k.stop = stop
	ms.work.Go(func() {
		defer stop()
		ms.reconciler.reconcile(ctx)
	})
}

// undecided reports whether the reconciler will know more in a moment: another client may be
// forming the cluster, or telling its members.
func (p *pace) undecided() bool { return p.running || p.retryAt != never && p.count < quickReads }

// unsettledLocked reports whether the marker of a master that is not down names another version
// than the roster, so that somebody has something to learn, or a member has no node, or a node
// that is no member's may be closed, or masters of two clusters have kept us from granting
// anything.
func (st *state) unsettledLocked() bool {
	k := &st.belief
	if st.mode == Off {
		return false
	}
	nodes, c := st.Nodes(), st.clientLocked()
	for i := range st.members {
		n := &st.members[i]
		switch {
		case nodes[i].State() == pipeline.Down || n.duplicate >= 0 || n.phase == phaseUnseen || n.phase == phaseProofless || n.forbids || st.isNonMemberLocked(i, c):
			continue
		case k.Roster != nil && n.place.MayBeOf(k.Roster) && st.lives.Doubt(n.marker, n.place) && c.IndexOf(i, k.Roster) >= 0:
			return true
		case n.marker.State != record.MarkerActive:
			continue
		case !n.read && n.place.IsTold(): // it may have come back with a part of its keys
			return true
		}
		if k.Roster == nil || n.place.Cluster != k.Roster.Cluster || n.place.Version != k.Roster.Version || n.place.Joined != 0 ||
			n.place.Lives != st.lives.Of(k.Roster, n.place.Member) {
			return true
		}
	}
	peers, free := st.missingLocked(k.Roster)
	return k.Conflict != nil || st.settlesLocked() || len(free) > 0 || st.dial != nil && len(peers) > 0 || !st.endingLocked().Empty()
}

// reconcile is the reconciler's goroutine. It ends when ctx does: what it had begun, others finish
// or set back, as they do when a process dies.
//
// It is one pass: look at all masters, do what is to be done by that look, and end. Whether
// another pass is due is decided from the markers as they are then, so a pass may leave things
// undone.
func (rc *Reconciler) reconcile(ctx context.Context) {
	reports := rc.survey(ctx, rc.ms.learn)
	if ctx.Err() != nil {
		return
	}
	rc.ms.mu.Lock()
	// All have answered by now, or will not: only now may a conflict be over.
	rc.ms.believeLocked((*core.Client).Concede, reports)
	roster, idle := rc.ms.belief.Roster, rc.ms.belief.byList || rc.ms.belief.Conflict != nil
	c := rc.ms.clientLocked()
	of := c.LookAfter(roster, reports)
	rc.ms.belief.unproven = c.Unproven(roster, reports)
	rc.ms.mu.Unlock()
	if !rc.ms.looks {
		reports = rc.letTornWait(reports, roster)
	}
	if !idle {
		rc.dialMissing()
	}
	switch {
	case idle, rc.ms.looks && roster != nil:
	case rc.ms.looks:
		rc.formable(reports, nil) // notes what is missing
	case of == nil:
		rc.form(ctx, reports, roster)
	default:
		rc.tend(ctx, of, reports)
	}
	rc.freePositions()
	rc.ms.mu.Lock()
	k := &rc.ms.runs
	k.running = false
	if rc.ms.unsettledLocked() {
		k.retryAt = rc.ms.clock.Now().Add(k.pause.Next())
	}
	rc.ms.endLocked(false)
}

// survey asks all masters what they know of their cluster: each server once, by the first of its
// names, and none whose marker cannot be read. It passes on what they have said so far
// with each answer: a master that does not answer holds up nobody who can go on without it.
func (rc *Reconciler) survey(ctx context.Context, soFar func([]core.Report)) []core.Report {
	rc.ms.mu.Lock()
	var asks []*inquiry
	for i := range rc.ms.members {
		if n := &rc.ms.members[i]; n.duplicate < 0 && n.phase != phaseUnseen && n.phase != phaseProofless {
			asks = append(asks, &inquiry{node: i, request: wire.Members("", "", wire.Entry{})})
		}
	}
	rc.ms.mu.Unlock()
	return rc.ask(ctx, asks, soFar)
}

// inquiry is a request about a master's place in the cluster, or for a change of it. The goroutine
// that asks owns it until it is sent, and again when it has come back through done; between, it is
// the node's.
type inquiry struct {
	membership *Membership
	node       int
	request    pipeline.Request
	asked      clock.Instant
	connection uint64 // of the node, when it was asked
	done       chan<- *inquiry
	report     core.Report
	err        error
}

func (q *inquiry) asks() *Membership { return q.membership }

// Complete takes the answer. It implements pipeline.Sink.
func (q *inquiry) Complete(_ int, reply any, err error) {
	if q.err = err; err == nil {
		text, held, now, _ := wire.ReadMembers(reply)
		q.report = core.ReadReport(q.node, text, held, now)
		q.report.Asked = q.asked
		q.membership.heard(q.node, text, now)
	}
	q.done <- q
}

// ask sends requests, and returns the answers when all have come or failed. SoFar, if not nil, is
// called with each. A master that does not answer holds up nothing for longer than what the others
// said is acted on (core.Fresh). When ctx ends, those that have not answered are as if they
// had not answered in time.
func (rc *Reconciler) ask(ctx context.Context, asks []*inquiry, soFar func([]core.Report)) (reports []core.Report) {
	done := make(chan *inquiry, len(asks))
	now := rc.ms.clock.Now()
	until := now.Add(askTimeout)
	nodes := rc.ms.Nodes()
	for _, q := range asks {
		q.membership, q.asked, q.done = rc.ms, now, done
		q.request.Deadline, q.request.Sink = until, q
		rc.ms.mu.Lock()
		q.connection = rc.ms.members[q.node].identity.Connection // an answer on an earlier one is not of this server
		rc.ms.mu.Unlock()
		rc.ms.do(nodes[q.node], &q.request)
	}
	ended := ctx.Done()
	for left := len(asks); left > 0; left-- {
		var q *inquiry
		select {
		case q = <-done:
		case <-ended:
			ended = nil
			for _, q := range asks {
				nodes[q.node].Withdraw(func(of pipeline.Sink) bool { return of == q })
			}
			q = <-done // now all have ended, or do in a moment
		}
		rc.ms.mu.Lock()
		if n, forbidden := &rc.ms.members[q.node], isForbidden(q.err); forbidden || q.err == nil {
			n.forbids, n.unread = forbidden, nil
			n.read, n.torn = n.identity.Connection == q.connection, q.err == nil && q.report.IsTorn()
		} else if ctx.Err() == nil {
			n.unread = q.err
		}
		rc.ms.mu.Unlock()
		if q.err != nil {
			continue
		}
		reports = append(reports, q.report)
		if soFar != nil {
			soFar(reports)
		}
	}
	if ctx.Err() != nil {
		return reports
	}
	rc.ms.mu.Lock()
	rc.ms.belief.byList = rc.ms.cluster == "" && rc.ms.belief.Roster == nil && rc.ms.members.forbidden(rc.ms.listed) >= quorum.Need(rc.ms.listed)
	rc.ms.mu.Unlock()
	slices.SortFunc(reports, func(a, b core.Report) int { return a.Node - b.Node })
	return reports
}

// isForbidden reports whether a server refused a script something that its user may not do, or that
// it does not know.
func isForbidden(err error) bool {
	kind := trouble.Of(err)
	return kind == trouble.Right || kind == trouble.Unknown
}

// forbidden counts the masters of the list whose register the user may not use. One of them
// does not decide that the list is the cluster: the others may tell what the cluster is.
func (t table) forbidden(listed int) (n int) {
	for i := range listed {
		if t[i].forbids {
			n++
		}
	}
	return n
}

// apply makes changes, each unless its master says something else by now, and returns what the
// masters say then, whether a change was made or not. One that does not answer may have made it:
// the next look tells. SoFar is that of ask.
func (rc *Reconciler) apply(ctx context.Context, changes []core.Change, soFar func([]core.Report)) []core.Report {
	asks := make([]*inquiry, len(changes))
	for i := range changes {
		c := &changes[i]
		asks[i] = &inquiry{node: c.Of.Node, request: wire.Members(c.Of.Text, c.Of.Held, c.Entry())}
	}
	return rc.ask(ctx, asks, soFar)
}

// heard takes what a marker says, on the goroutine that reads the node's answers. One by which its
// server waits may be new although the server is the same; any other is as one that was read
// behind a vote. Lives are met first, whatever becomes of the marker: they are the only news in it
// that takes votes away from others.
func (ms *Membership) heard(i int, text string, now int64) {
	ms.mu.Lock()
	n := &ms.members[i]
	m := record.ParseMarker(text)
	ms.lives.Meet(m, m.Place())
	waits := m.Waits() && text != n.text && n.asking == nil && n.server.Fits(m)
	if waits && !ms.stopped && n.duplicate < 0 && n.phase != phaseUnseen && n.phase != phaseProofless {
		ms.endLocked(ms.readLocked(i, text, now))
		return
	}
	ms.mu.Unlock()
	ms.reconsider(i, text)
}

// learn finds the newest version that counts: a majority of its members name it. The reports may
// be some of all (ask calls it with each answer), and may come from the reconciler and an
// operator at once: a version that counted once is right to count by, however old the report, and
// none is taken back for an older one.
func (ms *Membership) learn(reports []core.Report) {
	ms.mu.Lock()
	ms.believeLocked((*core.Client).Learn, reports)
	ms.settleLocked(reports)
	ms.endLocked(false)
}

// believeLocked takes what the reports make of what we believe. Nothing else writes a belief, but
// FormAnyway.
func (st *state) believeLocked(step func(*core.Client, core.Belief, []core.Report) core.Belief, reports []core.Report) {
	k := &st.belief
	b := step(st.clientLocked(), k.Belief, reports)
	if b.Roster != k.Roster {
		st.adoptLocked(b.Roster)
	}
	k.Belief = b
}

// adoptLocked makes votes count by a roster from now on. A master that was no member is judged
// anew: it may be one of this roster.
func (st *state) adoptLocked(r *record.Roster) {
	k := &st.belief
	another := k.Roster != nil && k.Roster.Cluster != r.Cluster
	k.Roster, k.Conflict, k.newer, k.unproven = r, nil, 0, nil
	st.stirred = true
	for i := range st.members {
		n := &st.members[i]
		if n.nonMember, n.position.ends = "", never; another {
			n.position.of = "" // from that one, nobody was removed
		}
	}
}

// tend does what there is to do for a version, and notes for which masters there is nothing: those
// that were found to be no members. One that was found to be a member is judged anew.
func (rc *Reconciler) tend(ctx context.Context, roster *record.Roster, reports []core.Report) {
	ms := rc.ms
	ms.mu.Lock()
	c := ms.clientLocked()
	todo := c.Todo(core.CareFor(roster, ms.belief.Roster == roster, reports))
	for _, r := range todo.Left {
		n := &ms.members[r.Node]
		n.nonMember, n.index = r.Text, c.IndexOf(r.Node, roster)
	}
	for _, r := range todo.Members {
		ms.members[r.Node].nonMember = ""
	}
	tasks := todo.Tasks(ms.finishesLocked(todo.Ahead != nil))
	ms.mu.Unlock()
	for _, task := range tasks {
		rc.run(ctx, task)
	}
}

// isNonMemberLocked reports whether there is nothing to do for a master, as was found by what it
// says and by the member that it is without that. So a master that is no member keeps no
// reconciler running, until it says something else. The latter changes when it turns out to answer
// at another endpoint, too.
func (st *state) isNonMemberLocked(i int, c *core.Client) bool {
	n, roster := &st.members[i], st.belief.Roster
	return n.nonMember == n.text && (n.text == "" || roster == nil || n.index == c.IndexOf(i, roster))
}

// finishesLocked reports whether a change that is under way was left to its proposer for long
// enough, and notes when it was first seen: not at all any more, once it is complete, or nobody
// knows of it. To finish it earlier would be safe, and only take the promises from a proposer that
// is still there.
func (st *state) finishesLocked(ahead bool) bool {
	k, now := &st.belief, st.clock.Now()
	if !ahead {
		k.newer = 0
		return false
	}
	if k.newer == 0 {
		k.newer = now
	}
	return now >= k.newer.Add(finishAfter)
}

// settleLocked finds out whether all members were told the roster. It is never unset for a
// version: who was told one knows it, or has forgotten and waits for as long as its locks last.
func (st *state) settleLocked(reports []core.Report) {
	k := &st.belief
	if r := k.Roster; r != nil && k.settled != r.Version && st.clientLocked().AllKnow(r, reports, st.clock.Now()) {
		k.settled = r.Version
	}
}

// settlesLocked reports whether the members should be asked, because each seems to have been told
// the roster by now, and a longer MaxTTL waits for that.
func (st *state) settlesLocked() bool {
	r := st.belief.Roster
	if r == nil || st.belief.settled == r.Version || r.MaxTTL <= r.Earlier {
		return false
	}
	nodes := st.Nodes()
	for _, p := range r.Members {
		told := false
		for i := range st.members {
			at := st.members[i].place
			told = told || at.Cluster == r.Cluster && at.Member == p.ID && at.Version == r.Version && nodes[i].State() != pipeline.Down
		}
		if !told {
			return false
		}
	}
	return true
}
