package members

import (
	"context"
	"slices"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// keeper looks after the cluster: it finds out which masters are its members, and does what any
// client may do for it. It forms a new one, tells masters that are behind, lets those rejoin that
// forgot, and finishes changes that were begun. It runs while something is left to do, which a
// marker shows that does not name the roster that we count by.
type keeper struct {
	roster   *Roster // by which votes count; nil while none is known
	conflict error   // why none is: masters of two clusters
	rival    string  // why none is yet: another cluster may count as well, or be meant
	few      string  // or, of this cluster: no more masters of the list are known to be its than do not answer
	byList   bool    // no roster can be known, as most masters forbid to read theirs: the list is the cluster
	running  bool
	stop     func()        // ends its run; nil before the first
	pause    clock.Backoff // between its runs
	runs     int           // since a marker said something new
	retryAt  clock.Instant // when to run again; never if nothing is left to do
	newer    clock.Instant // since when a master was told more than a quorum; 0 if none is
	missing  []string      // the list's masters without which no cluster can be formed
	short    *Roster       // the newest that a master was told, if it does not count
	settled  Version       // of the roster, once all of its members were told it (settleLocked)
}

// finishAfter is how long a proposer has for telling the members before others finish its change.
const finishAfter = 100 * time.Millisecond

// keepLocked starts the keeper if there is something to do.
func (ms *Membership) keepLocked() {
	k := &ms.keeper
	if k.running || ms.stopped || ms.clock.Now() < k.retryAt && !ms.stirred && ms.endingLocked().Empty() {
		return
	}
	if !ms.unsettledLocked() {
		k.retryAt = never
		return
	}
	if ms.stirred {
		k.pause, k.runs = clock.Backoff{Shortest: rereadMin, Longest: rereadMax}, 0
	}
	k.runs++
	k.running, k.retryAt, ms.stirred = true, never, false
	ctx, stop := context.WithCancel(context.Background())
	k.stop = stop
	ms.work.Go(func() {
		defer stop()
		ms.keep(ctx)
	})
}

// undecided reports whether the keeper will know more in a moment: another client may be forming
// the cluster, or telling its members.
func (k *keeper) undecided() bool { return k.running || k.retryAt != never && k.runs < quickReads }

// unsettledLocked reports whether the marker of a master that is not down names another version
// than the roster, so that somebody has something to learn, or a member has no node, or a node that
// is no member's may be closed, or masters of two clusters have kept us from granting anything.
func (ms *Membership) unsettledLocked() bool {
	k := &ms.keeper
	if ms.mode == Off {
		return false
	}
	nodes := ms.Nodes()
	for i := range ms.members {
		n := &ms.members[i]
		switch {
		case nodes[i].State() == pipeline.Down || n.duplicate >= 0 || n.phase == phaseUnseen || n.phase == phaseProofless || n.forbids || ms.isStrangeLocked(i):
			continue
		case k.roster != nil && n.place.mayBeOf(k.roster) && ms.lives.doubt(n.marker, n.place) && ms.seatOfLocked(i, k.roster) >= 0:
			return true
		case n.marker.state != markerActive:
			continue
		case !n.read && n.place.isTold(): // it may have come back with a part of its keys
			return true
		}
		if k.roster == nil || n.place.cluster != k.roster.Cluster || n.place.version != k.roster.Version || n.place.joined != 0 ||
			n.place.lives != ms.lives.of(k.roster, n.place.member) {
			return true
		}
	}
	peers, vacant := ms.missingLocked()
	return k.conflict != nil || ms.settlesLocked() || len(vacant) > 0 || ms.dial != nil && len(peers) > 0 || !ms.endingLocked().Empty()
}

// keep is the keeper's goroutine. It ends when ctx does: what it had begun, others finish or set
// back, as they do when a process dies.
func (ms *Membership) keep(ctx context.Context) {
	reports := ms.survey(ctx, ms.learn)
	if ctx.Err() != nil {
		return
	}
	ms.mu.Lock()
	k := &ms.keeper
	ms.concedeLocked(reports)
	roster, idle := k.roster, k.byList || k.conflict != nil
	remembered := ms.newestTold(reports, roster, true)
	k.short = ms.newestTold(reports, roster, false)
	ms.mu.Unlock()
	if !ms.looks {
		reports = ms.letTornWait(reports, roster)
	}
	switch {
	case idle:
	case ms.looks && roster != nil:
		ms.dialMissing()
	case ms.looks:
		ms.formable(reports, nil) // says what is missing
	case remembered == nil:
		ms.form(ctx, reports, roster)
	case roster == nil || remembered.Version.Above(roster.Version) && !ms.remembered(roster, reports):
		ms.tend(ctx, remembered, reports) // it does not count: too many of its members forgot, or are away
	default:
		ms.tend(ctx, roster, reports)
	}
	ms.vacate()
	ms.mu.Lock()
	k.running = false
	if ms.unsettledLocked() {
		k.retryAt = ms.clock.Now().Add(k.pause.Next())
	}
	ms.endLocked(false)
}

// remembered reports whether a member remembers that it was told a version.
func (ms *Membership) remembered(roster *Roster, reports []report) bool {
	return slices.ContainsFunc(reports, func(r report) bool { return ms.isMember(&r, roster) })
}

// newestTold returns the newest version that a master was told and remembers, or a member of it: of
// our cluster, if we have one. What only those remember that were removed is nobody's list any
// more.
func (ms *Membership) newestTold(reports []report, ours *Roster, member bool) (newest *Roster) {
	for i := range reports {
		t := reports[i].told()
		switch {
		case t == nil || ours == nil && reports[i].node >= ms.listed: // an operator is about to add the latter
		case member && t.Index(reports[i].place.member) < 0 || ms.cluster != "" && t.Cluster != ms.cluster || ours != nil && t.Cluster != ours.Cluster:
		case newest == nil || t.Version.Number > newest.Version.Number:
			newest = t
		}
	}
	return newest
}

// survey asks all masters what they know of their cluster. It passes on what they have said so far
// with each answer: a master that does not answer holds up nobody who can go on without it.
func (ms *Membership) survey(ctx context.Context, soFar func([]report)) []report {
	ms.mu.Lock()
	var asks []*inquiry
	for i := range ms.members {
		if n := &ms.members[i]; n.duplicate < 0 && n.phase != phaseUnseen && n.phase != phaseProofless {
			asks = append(asks, &inquiry{node: i, request: wire.Members("", "", wire.Entry{})})
		}
	}
	ms.mu.Unlock()
	return ms.ask(ctx, asks, soFar)
}

// inquiry is a request about a master's place in the cluster, or for a change of it.
type inquiry struct {
	membership *Membership
	node       int
	request    pipeline.Request
	asked      clock.Instant
	connection uint64 // of the node, when it was asked
	done       chan<- *inquiry
	report     report
	err        error
}

func (q *inquiry) asks() *Membership { return q.membership }

// Complete takes the answer. It implements pipeline.Sink.
func (q *inquiry) Complete(_ int, reply any, err error) {
	if q.err = err; err == nil {
		text, held, now, _ := wire.ReadMembers(reply)
		q.report = readReport(q.node, text, held, now)
		q.report.asked = q.asked
		q.membership.heard(q.node, text, now)
	}
	q.done <- q
}

// ask sends requests, and returns the answers when all have come or failed. SoFar, if not nil, is
// called with each. A master that does not answer holds up nothing for longer than what the others
// said is acted on (leastQuarantine). When ctx ends, those that have not answered are as if they
// had not answered in time.
func (ms *Membership) ask(ctx context.Context, asks []*inquiry, soFar func([]report)) (reports []report) {
	done := make(chan *inquiry, len(asks))
	now := ms.clock.Now()
	until := now.Add(askTimeout)
	nodes := ms.Nodes()
	for _, q := range asks {
		q.membership, q.asked, q.done = ms, now, done
		q.request.Deadline, q.request.Sink = until, q
		ms.mu.Lock()
		q.connection = ms.members[q.node].identity.Connection // an answer on an earlier one is not of this server
		ms.mu.Unlock()
		ms.do(nodes[q.node], &q.request)
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
		ms.mu.Lock()
		if n, forbidden := &ms.members[q.node], wire.IsForbidden(q.err); forbidden || q.err == nil {
			n.forbids, n.unread = forbidden, nil
			n.read, n.torn = n.identity.Connection == q.connection, q.err == nil && q.report.isTorn()
		} else if ctx.Err() == nil {
			n.unread = q.err
		}
		ms.mu.Unlock()
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
	ms.mu.Lock()
	ms.keeper.byList = ms.cluster == "" && ms.keeper.roster == nil && ms.forbiddenLocked() >= quorum.Need(ms.listed)
	ms.mu.Unlock()
	slices.SortFunc(reports, func(a, b report) int { return a.node - b.node })
	return reports
}

// forbiddenLocked counts the masters of the list whose register the user may not use. One of them
// does not decide that the list is the cluster: the others may tell what the cluster is.
func (ms *Membership) forbiddenLocked() (n int) {
	for i := range ms.listed {
		if ms.members[i].forbids {
			n++
		}
	}
	return n
}

// swap makes a change at the master of a report, if it has not changed since. It reports whether it
// was made, and what the master says now.
func (ms *Membership) swap(ctx context.Context, r report, c change) (now report, made bool) {
	after := ms.ask(ctx, []*inquiry{ms.swapping(r, c)}, nil)
	if len(after) == 0 {
		return r, false
	}
	return after[0], after[0].text == c.marker.text() && (c.register == nil || sameRest(after[0].held, c.register.rest()))
}

func (ms *Membership) swapping(r report, c change) *inquiry {
	return &inquiry{node: r.node, request: wire.Members(r.text, r.held, c.entry())}
}

// sameRest reports whether a register has this behind its first line.
func sameRest(held, rest string) bool {
	return len(held) > len(rest) && held[len(held)-len(rest)-1:] == "\n"+rest
}

// heard takes what a marker says. One by which its server waits may be new although the server is
// the same; any other is as one that was read behind a vote.
func (ms *Membership) heard(i int, text string, now int64) {
	ms.mu.Lock()
	n := &ms.members[i]
	m := parseMarker(text)
	ms.lives.meet(m, m.place())
	waits := m.waits() && text != n.text && n.asking == nil && n.server.fits(m)
	if waits && !ms.stopped && n.duplicate < 0 && n.phase != phaseUnseen && n.phase != phaseProofless {
		ms.endLocked(ms.readLocked(i, text, now))
		return
	}
	ms.mu.Unlock()
	ms.reconsider(i, text)
}

// learn finds the newest version that counts: a majority of its members name it.
func (ms *Membership) learn(reports []report) {
	ms.mu.Lock()
	ms.learnLocked(reports)
	ms.settleLocked(reports)
	ms.endLocked(false)
}

func (ms *Membership) learnLocked(reports []report) {
	k := &ms.keeper
	counted := countedIn(reports)
	if ms.cluster != "" {
		counted = slices.DeleteFunc(counted, func(r *Roster) bool { return r.Cluster != ms.cluster })
	}
	known := k.roster
	if known != nil {
		for _, r := range counted {
			if r.Cluster == known.Cluster && r.Version.Number >= known.Version.Number && r.Version != known.Version {
				ms.adoptLocked(r)
			}
		}
		// Told by a majority of the version that we know, the next one was chosen. Its quorum may
		// need a new member, which is not known to us before.
		if next, by := toldNext(known, reports); k.roster == known && next != nil && by >= known.Need() {
			ms.adoptLocked(next)
		}
	}
	// A master that an operator is about to add does not say which cluster is meant.
	reports = slices.DeleteFunc(slices.Clone(reports), func(r report) bool {
		return r.node >= ms.listed && ms.members[r.node].position.of == ""
	})
	counted = slices.DeleteFunc(counted, func(r *Roster) bool { return namedIn(reports, r) < r.Need() })
	all := slices.Clone(counted)
	counted = slices.DeleteFunc(counted, func(r *Roster) bool { return isSmall(r, all) || ms.isAstrayLocked(r, all, reports) })
	if known != nil && slices.ContainsFunc(reports, func(r report) bool { return r.place.cluster == known.Cluster && r.told() != nil }) {
		ms.contestLocked(reports, counted)
		return // a member of ours remembers
	}
	// At first entry, a cluster counts only if its members here outnumber the masters of which
	// nothing is known: otherwise a client that reaches only a master that somebody has made a
	// cluster of its own would take that for the cluster.
	unheard := ms.unheardLocked(reports, known)
	k.few = ""
	counted = slices.DeleteFunc(counted, func(r *Roster) bool {
		few := namedIn(reports, r) <= unheard
		if few {
			k.few = r.Cluster
		}
		return few
	})
	k.rival = ""
	switch {
	case len(counted) > 1:
		k.conflict = conflictOf(counted[0].Cluster, counted[1].Cluster)
	case len(counted) == 1 && (known == nil || counted[0].Cluster != known.Cluster):
		if ms.cluster == "" {
			k.rival = ms.rivalOfLocked(counted[0], reports, unheard)
		}
		switch {
		case k.rival == "":
			ms.adoptLocked(counted[0])
		case unheard == 0:
			k.conflict = conflictOf(counted[0].Cluster, k.rival)
		}
	}
}

// rivalOfLocked returns another cluster that may count for a client with the same list, or that
// may be the one that is meant by it, as far as is known; empty if there is none.
//
// Then two such clients never enter two clusters, whichever masters answer them first. Each hears
// of more members of its own than it has not heard of. So who hears of no fewer members than the
// other does cannot have escaped the other altogether; and who has heard of a member of the other's
// cluster, and not of the rest of those by which that counts, lacks them among the unheard.
//
// Nor does a list with few members of the cluster that is meant, and with a server that somebody
// has used alone, count by that server: a cluster needs more masters in it than another one has,
// also with all that are unheard.
//
// A cluster of one master is no rival of a larger one. Who enters it has heard of nobody else's
// master, and has heard of all: but who enters the larger one has heard of a majority of that.
func (ms *Membership) rivalOfLocked(r *Roster, reports []report, unheard int) string {
	own := namedIn(reports, r)
	for i := range reports {
		one := &reports[i]
		if one.place.cluster == r.Cluster || !one.isOf(one.place.cluster) {
			continue
		}
		least, t := own, one.told()
		if t != nil {
			least = min(own, t.Need())
		}
		other := []*Roster{r}
		if (t == nil || !isSmall(t, other) && !ms.isAstrayLocked(t, other, reports)) && masters(reports, one.place.cluster)+unheard >= least {
			return one.place.cluster
		}
	}
	return ""
}

// isOf reports whether the master is one of a cluster, or was before it forgot.
func (r *report) isOf(cluster string) bool {
	return cluster != "" && r.place.cluster == cluster && r.place.member != "" && (r.told() != nil || r.marker.state == markerLost)
}

// masters counts those that are of a cluster, whatever version they were told.
func masters(reports []report, cluster string) (n int) {
	var ids []string
	for i := range reports {
		if r := &reports[i]; r.isOf(cluster) && !slices.Contains(ids, r.place.member) {
			ids = append(ids, r.place.member)
		}
	}
	return len(ids)
}

// contestLocked finds out whether the list also has the majority of another cluster than ours. With
// the same list, another client may count by that one: so neither may grant anything.
func (ms *Membership) contestLocked(reports []report, counted []*Roster) {
	k := &ms.keeper
	listed := slices.DeleteFunc(slices.Clone(reports), func(r report) bool { return r.node >= ms.listed })
	if ms.unheardLocked(reports, nil) == 0 {
		k.conflict = nil
	}
	for _, r := range counted {
		if ms.cluster == "" && r.Cluster != k.roster.Cluster && namedIn(listed, r) >= r.Need() && namedIn(listed, k.roster) >= k.roster.Need() {
			k.conflict = conflictOf(k.roster.Cluster, r.Cluster)
		}
	}
}

// concedeLocked ends a conflict when those of the other cluster do not answer: who begins now with
// this list enters our cluster, or none. While masters are being asked, they may yet answer.
func (ms *Membership) concedeLocked(reports []report) {
	k := &ms.keeper
	if k.conflict == nil || k.roster == nil {
		return
	}
	listed := slices.DeleteFunc(slices.Clone(reports), func(r report) bool { return r.node >= ms.listed })
	unheard, own := ms.unheardLocked(listed, nil), namedIn(listed, k.roster)
	if own >= k.roster.Need() && own > unheard && ms.rivalOfLocked(k.roster, listed, unheard) == "" {
		k.conflict = nil
	}
}

// isSmall reports whether a cluster is a single master, beside a larger one.
func isSmall(r *Roster, among []*Roster) bool {
	return len(r.Members) == 1 && slices.ContainsFunc(among, func(other *Roster) bool { return len(other.Members) > 1 })
}

// isAstrayLocked reports whether a cluster is a single master that is a member of another one, by
// its endpoint or by the one at which it answers us: somebody has used it alone after it forgot,
// perhaps by another name.
func (ms *Membership) isAstrayLocked(r *Roster, among []*Roster, reports []report) bool {
	return len(r.Members) == 1 && slices.ContainsFunc(among, func(other *Roster) bool {
		return other != r && slices.ContainsFunc(other.Members, func(p Peer) bool {
			return p.Endpoint == r.Members[0].Endpoint || slices.ContainsFunc(reports, func(one report) bool {
				t := one.told()
				return t != nil && t.Cluster == r.Cluster && (ms.isAtLocked(one.node, p) || ms.members[one.node].position.of == p.ID)
			})
		})
	})
}

// namedIn counts the masters that name a version.
func namedIn(reports []report, t *Roster) (n int) {
	var ids []string
	for i := range reports {
		r := &reports[i]
		if told := r.told(); told != nil && told.Cluster == t.Cluster && told.Version == t.Version && t.Index(r.place.member) >= 0 && !slices.Contains(ids, r.place.member) {
			ids = append(ids, r.place.member)
		}
	}
	return len(ids)
}

// countedIn returns the newest version of each cluster that counts.
func countedIn(reports []report) (counted []*Roster) {
	for i := range reports {
		t := reports[i].told()
		if t == nil || namedIn(reports, t) < t.Need() {
			continue
		}
		at := slices.IndexFunc(counted, func(r *Roster) bool { return r.Cluster == t.Cluster })
		switch {
		case at < 0:
			counted = append(counted, t)
		case t.Version.Number > counted[at].Version.Number:
			counted[at] = t
		}
	}
	return counted
}

// unheardLocked counts the members of a roster of which nothing is known; without one, the masters
// of the list.
func (ms *Membership) unheardLocked(reports []report, roster *Roster) (n int) {
	if roster != nil {
		for _, p := range roster.Members {
			if !slices.ContainsFunc(reports, func(r report) bool { return ms.members[r.node].position.of == p.ID }) {
				n++
			}
		}
		return n
	}
	for i := range ms.listed {
		if m := &ms.members[i]; m.duplicate < 0 && !m.vacant() && !slices.ContainsFunc(reports, func(r report) bool { return r.node == i }) {
			n++
		}
	}
	return n
}

// adoptLocked makes votes count by a roster from now on.
func (ms *Membership) adoptLocked(r *Roster) {
	k := &ms.keeper
	another := k.roster != nil && k.roster.Cluster != r.Cluster
	k.roster, k.conflict, k.newer = r, nil, 0
	ms.stirred = true
	for i := range ms.members {
		n := &ms.members[i]
		if n.stranger, n.position.ends = "", never; another {
			n.position.of = "" // from that one, nobody was removed
		}
	}
}

// tend does for each master what it needs. While the roster does not count, who was told the one
// before is not told it without a look at whether a majority of them has accepted it (finish).
func (ms *Membership) tend(ctx context.Context, roster *Roster, reports []report) {
	ahead, counts := false, namedIn(reports, roster) >= roster.Need()
	var before *Roster
	for i := range reports {
		r := &reports[i]
		p := r.place
		switch ours := p.cluster == roster.Cluster; {
		case p.mayBeOf(roster) && ms.isDoubted(r):
			ms.letWaitAnew(r, roster, reports)
		case ours && p.version == roster.Version && p.joined == 0:
			ms.show(ctx, r, roster)
		case ours && p.joined != 0 && roster.Index(p.member) >= 0 && (r.marker.state == markerActive || p.version == (Version{})):
			ms.tell(ctx, *r, roster, counts)
		case r.marker.state != markerActive: // it waits, or is not for us
		case ours && p.version.Number > roster.Version.Number:
			ahead = true
		case ours && !counts && p.version == roster.Before && r.told() != nil:
			before = r.told()
		case ours && p.version != (Version{}):
			ms.tell(ctx, *r, roster, counts)
		default:
			ms.bringHome(ctx, r, roster, reports)
		}
	}
	ms.dialMissing()
	if before != nil {
		ms.finish(ctx, before)
	}
	if ahead && ms.finishes() {
		ms.finish(ctx, roster)
	}
	if !ahead {
		ms.mu.Lock()
		ms.keeper.newer = 0
		ms.mu.Unlock()
	}
}

// finishes reports whether a change that is under way was left to who began it for long enough.
func (ms *Membership) finishes() bool {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	k, now := &ms.keeper, ms.clock.Now()
	if k.newer == 0 {
		k.newer = now
	}
	return now >= k.newer.Add(finishAfter)
}
