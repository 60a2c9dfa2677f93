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
		if a.unlisted(endpoint) {
			if !a.stopping.TryLock() { // two at once may leave members that no list leads to
				return "nothing", nil
			}
			defer a.stopping.Unlock()
			before, err = cluster.Members(ctx)
			if err != nil || !a.reachable(append(before.Members, admin.Member{Endpoint: endpoint})) {
				return "Members", err
			}
		}
		what, err = "Add "+endpoint, cluster.Add(ctx, endpoint)
	case 2:
		if !a.stopping.TryLock() {
			return "nothing", nil
		}
		defer a.stopping.Unlock()
		if before, err = cluster.Members(ctx); err != nil || len(before.Members) == 0 {
			return "Members", err
		}
		one := before.Members[a.rng.IntN(len(before.Members))]
		if !a.reachable(slices.DeleteFunc(slices.Clone(before.Members), func(m admin.Member) bool { return m.ID == one.ID })) {
			return "nothing", nil
		}
		id := one.ID
		what, err = "Remove "+id, cluster.Remove(ctx, id)
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

// unlisted reports whether no client has a master in its list.
func (r *run) unlisted(endpoint string) bool {
	return strings.HasSuffix(endpoint, r.endpoints[len(r.endpoints)-1])
}

// reachable reports whether clients that begin with their lists find such members: most of them are
// listed, and one that forgets is not all that knows of the cluster.
func (r *run) reachable(members []admin.Member) bool {
	listed := 0
	for i := range members {
		if !r.unlisted(members[i].Endpoint) {
			listed++
		}
	}
	return listed > len(members)/2 && (len(members) > 1 || !r.plan.forgets)
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
	r.promise("one list for each version", before == told, "version %s: %s, and %s", version, before, told)
}

// changeable changes members in calm times, which must succeed.
func (r *run) changeable() {
	if !r.plan.changes {
		return
	}
	ctx, cancel := context.WithTimeout(r.base, hangs)
	defer cancel()
	waits := ""
	cluster := admin.Of(r.clients[0].current().locker).Cluster().Progress(func(why string, _ time.Duration) { waits = why })
	err := cluster.SetMaxTTL(ctx, r.plan.maxTTL)
	r.promise("a change in calm times", err == nil || r.outlived(err), "SetMaxTTL: %v; it waits: %s", err, waits)
	r.logs(ctx, cluster)
	time.Sleep(2 * time.Second)
	versions := make(map[int64]bool)
	for _, c := range r.clients {
		m, err := admin.Of(c.current().locker).Cluster().Members(ctx)
		r.agree(&m)
		if r.outlived(err) {
			continue
		}
		r.promise("all agree about the members", err == nil || ctx.Err() != nil, "Members by %s: %v", c.plan.who, err)
		versions[m.Version] = true
	}
	r.promise("all agree about the members", len(versions) == 1 || ctx.Err() != nil, "versions: %v", versions)
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
