package driver_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// spares are masters that are no members at first, where an operator changes members.
const spares = 1

// size returns how many masters there are, and how many of them are members; 0 if that changes.
func (p *plan) size() (masters, members int) {
	if p.changes {
		return p.masters + spares, 0
	}
	if p.lists {
		return p.masters, 0
	}
	return p.masters, p.masters
}

// changes adds and removes members, and sets MaxTTL, with the Locker of any client or its own.
func changes(r *run, rng *rand.Rand) {
	a := &actor{run: r, who: "operator", rng: rng}
	for r.goesOn() {
		if rng.IntN(8) == 0 {
			a.changeWithout(a.life())
			continue
		}
		life, ctx, began := a.life(), a.patience(true), r.clock.Now()
		buried := func() {}
		if rng.IntN(4) == 0 {
			life, buried = a.dies()
		}
		what, err := a.change(ctx, life)
		r.note(a.who, "%s: %v", what, err)
		a.inTime("a change ends with its context", what, began, 0, ctx)
		if err != nil {
			a.sound(what, err, ctx, life)
			a.promise("errors of a change", is(err, redlock.ErrNoQuorum, redlock.ErrNotMember, redlock.ErrInvalid, redlock.ErrClosed, redlock.ErrOtherCluster) || ctx.Err() != nil && is(err, ctx.Err()),
				"%s: %v", what, err)
		}
		ctx.cancel()
		buried()
		r.pause(upTo(rng, 50*time.Millisecond))
	}
}

// dies returns the Locker of an operator that dies in the middle of what it does, and a wait for
// its end. Others finish what it has begun.
func (a *actor) dies() (l *life, buried func()) {
	l, over := a.newClient(&a.plan.clients[a.rng.IntN(len(a.plan.clients))]).current(), make(chan struct{})
	time.AfterFunc(upTo(a.rng, 100*time.Millisecond), func() {
		l.close()
		close(over)
	})
	return l, func() { <-over }
}

func (a *actor) change(ctx *limited, life *life) (what string, err error) {
	cluster := admin.Of(life.locker).Cluster()
	before, err := cluster.Members(ctx)
	a.agree(&before)
	if err != nil || len(before.Members) == 0 {
		return "Members", err
	}
	switch a.rng.IntN(4) {
	case 0, 1:
		endpoint := a.endpoints[a.rng.IntN(len(a.endpoints))]
		what, err = "Add "+endpoint, cluster.Add(ctx, endpoint)
		if after, failed := cluster.Members(ctx); err == nil && failed == nil {
			a.agree(&after)
			a.isBack(endpoint, &after)
		}
	case 2:
		one := before.Members[a.rng.IntN(len(before.Members))]
		over, may := a.mayRemove(one.Endpoint, before.Version)
		if !may {
			return "nothing", nil
		}
		id := one.ID
		what, err = "Remove "+id, cluster.Remove(ctx, id)
		over()
		after, failed := cluster.Members(ctx)
		a.agree(&after)
		gone := !slices.ContainsFunc(after.Members, func(m admin.Member) bool { return m.ID == id })
		a.promise("Remove removes", err != nil || failed != nil || gone || a.plan.operators > 1, "%s: nil, and it is a member: %+v", what, after)
	default:
		what, err = "SetMaxTTL", cluster.SetMaxTTL(ctx, a.plan.maxTTL)
	}
	a.reachIf("a change of members", err == nil && what != "SetMaxTTL")
	a.reachIf("a change that its context ended", err != nil && ctx.Err() != nil)
	return what, err
}

// changeWithout makes changes while a member is away. All members know a version before the next
// one is chosen: so that is the one after the version that it was told, at most.
func (a *actor) changeWithout(life *life) {
	if a.plan.forgets || len(a.plan.faults) == 0 || !a.look || !a.stopping.TryLock() {
		return // others rely on it that no master is away
	}
	defer a.stopping.Unlock()
	cluster := admin.Of(life.locker).Cluster()
	before, err := cluster.Members(a.base)
	if err != nil || len(before.Members) == 0 {
		return
	}
	away := before.Members[a.rng.IntN(len(before.Members))]
	m := a.masters[slices.IndexFunc(a.endpoints, func(e string) bool { return strings.HasSuffix(away.Endpoint, e) })]
	a.note(a.who, "changes without %s", away.Endpoint)
	heal := m.breaks("stopped", 0)
	defer heal()
	told := versionOf(m)
	for i := range time.Duration(2) { // each is chosen, if at all, and then waits for the one that is away
		ctx, cancel := context.WithTimeout(a.base, 2*a.plan.maxTTL+2500*time.Millisecond) // each look takes a second
		err = cluster.SetMaxTTL(ctx, a.plan.maxTTL+(i+1)*slightly)
		cancel()
		a.note(a.who, "SetMaxTTL: %v", err)
	}
	after, err := cluster.Members(a.base)
	a.agree(&after)
	still := slices.ContainsFunc(after.Members, func(m admin.Member) bool { return m.ID == away.ID })
	a.promise("a dead member stops all changes but its removal", err != nil || told == 0 || told != versionOf(m) || !still || after.Version <= told+1,
		"%s was told version %d, and is away: %+v", away.Endpoint, told, after)
}

// slightly is by how much changes of MaxTTL change it that are for the sake of a change.
const slightly = time.Millisecond

// versionOf returns the number of the version that a master was told; 0 for none.
func versionOf(m master) int64 {
	marker, _, _ := m.get(memoryKey)
	return versionIn(marker)
}

// removal is what became of a master that is in the lists of clients.
type removal struct {
	calls   int   // that remove it now
	gone    bool  // it may be no member, or become none: by a change that was begun
	version int64 // that counted then
}

// mayRemove reports whether a master may be removed, and notes that it is, until over is called.
// Most masters of the list that all clients have must stay members, whatever operators do at once,
// and whatever becomes of changes that nobody finished: a list that lacks more leads a client that
// begins to none of them (docs/operations.md). So what was begun counts as done, until the master
// was added again.
func (r *run) mayRemove(endpoint string, version int64) (over func(), may bool) {
	at := slices.IndexFunc(r.endpoints, func(e string) bool { return strings.HasSuffix(endpoint, e) })
	if at >= r.plan.masters { // no list has it
		return func() {}, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := 0
	for i, other := range r.removals {
		if i != at && other.gone {
			gone++
		}
	}
	if gone >= (r.plan.masters-1)/2 {
		return nil, false
	}
	one := &r.removals[at]
	*one = removal{one.calls + 1, true, max(one.version, version)}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		one.calls--
	}, true
}

// isBack notes that a master is a member by a version that follows all that may lack it.
func (r *run) isBack(endpoint string, after *admin.Membership) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := &r.removals[slices.Index(r.endpoints, endpoint)]
	has := slices.ContainsFunc(after.Members, func(m admin.Member) bool { return strings.HasSuffix(m.Endpoint, endpoint) })
	if has && one.calls == 0 && after.Version > one.version+1 {
		one.gone = false
	}
}

// agree looks whether all who were told a version of a list were told the same.
func (r *run) agree(m *admin.Membership) {
	if m.Version == 0 {
		return // an error
	}
	ids := make([]string, len(m.Members))
	for i := range m.Members {
		ids[i] = m.Members[i].ID
	}
	slices.Sort(ids)
	version, told := fmt.Sprint(m.Version, " of ", m.Cluster), fmt.Sprint(m.MaxTTL, ids)
	r.mu.Lock()
	before := cmp.Or(r.versions[version], told)
	r.versions[version] = before
	r.mu.Unlock()
	r.promise("one list for each version", before == told || r.known.hasTwo(m.Cluster, m.Version), "version %s: %s, and %s", version, before, told)
}

// changeable changes members in calm times, which must succeed.
func (r *run) changeable() {
	if !r.plan.changes {
		return
	}
	ctx, cancel := context.WithTimeout(r.base, hangs)
	defer cancel()
	waits, l := "", r.clients[0].current()
	if r.known.wentBack() { // who knew the newer list changes nothing
		l = r.newClient(&r.plan.clients[0]).current()
		defer l.close()
	}
	cluster := admin.Of(l.locker).Cluster().Progress(func(why string, _ time.Duration) { waits = why })
	err := cluster.SetMaxTTL(ctx, r.plan.maxTTL)
	r.promise("a change in calm times", err == nil || r.outlived(err), "SetMaxTTL: %v; it waits: %s", err, waits)
	r.logs(ctx, cluster)
	time.Sleep(2 * time.Second)
	versions := make(map[int64]bool)
	for _, c := range r.clients {
		m, err := admin.Of(c.current().locker).Cluster().Members(ctx)
		up := c.current().voting(len(m.Members))
		r.agree(&m)
		if r.outlived(err) {
			continue
		}
		r.promise("all agree about the members", err == nil || ctx.Err() != nil, "Members by %s: %v", c.plan.who, err)
		versions[m.Version] = true
		r.promise("masters that are well vote again", up >= len(m.Members) || ctx.Err() != nil || r.stuck(), "%s has %d masters that vote, and these are members: %+v", c.plan.who, up, m.Members)
	}
	r.promise("all agree about the members", len(versions) == 1 || ctx.Err() != nil, "versions: %v", versions)
}

// voting counts the masters that vote, once so many do. A Locker that was idle may be about to take
// over a change that it has just seen.
func (l *life) voting(enough int) (up int) {
	for range 10 {
		up = 0
		for _, n := range l.locker.Stats().Nodes {
			if n.Barred == nil && n.State == pool.Up {
				up++
			}
		}
		if up >= enough {
			break
		}
		time.Sleep(10 * latency)
	}
	return up
}

// logs changes MaxTTL and back, and looks whether the log has it.
func (r *run) logs(ctx context.Context, cluster *admin.Cluster) {
	if cluster.SetMaxTTL(ctx, 2*r.plan.maxTTL) != nil {
		return // as before
	}
	time.Sleep(r.clients[0].plan.nodeTimeout(r.plan.maxTTL))
	entries, err := admin.Of(r.clients[0].current().locker).Log(ctx)
	told := slices.ContainsFunc(entries, func(e admin.Entry) bool { return e.Kind == "max-ttl" })
	r.promise("the log tells of changes", told || err != nil, "MaxTTL was changed, and the log has: %+v", entries)
	err = cluster.SetMaxTTL(ctx, r.plan.maxTTL)
	r.promise("a change in calm times", err == nil, "SetMaxTTL: %v", err)
}
