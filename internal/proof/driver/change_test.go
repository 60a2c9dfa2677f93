package driver_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/redlock"
)

const operator = "an operator changes members"

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

// changes adds and removes members, and sets MaxTTL, with the Locker of any client.
func changes(r *run, rng *rand.Rand) {
	a := &actor{run: r, who: "operator", rng: rng}
	for r.goesOn() {
		life, ctx, began := a.life(), a.patience(true), r.clock.Now()
		what, err := a.change(ctx, life)
		r.note(a.who, "%s: %v", what, err)
		a.inTime("a change ends with its context", what, began, 0, ctx)
		if err != nil {
			a.sound(what, err, ctx, life)
			a.promise("errors of a change", is(err, redlock.ErrNoQuorum, redlock.ErrNotMember, redlock.ErrInvalid, redlock.ErrClosed, redlock.ErrOtherCluster) || ctx.Err() != nil && is(err, ctx.Err()),
				"%s: %v", what, err)
		}
		ctx.cancel()
		r.pause(upTo(rng, 50*time.Millisecond))
	}
}

func (a *actor) change(ctx *limited, life *life) (what string, err error) {
	cluster := admin.Of(life.locker).Cluster()
	before, err := cluster.Members(ctx)
	if err != nil || len(before.Members) == 0 {
		return "Members", err
	}
	switch a.rng.IntN(4) {
	case 0, 1:
		endpoint := a.endpoints[a.rng.IntN(len(a.endpoints))]
		what, err = "Add "+endpoint, cluster.Add(ctx, endpoint)
	case 2:
		one := before.Members[a.rng.IntN(len(before.Members))]
		listed := slices.DeleteFunc(slices.Clone(before.Members), func(m admin.Member) bool {
			return m.ID == one.ID || strings.HasSuffix(m.Endpoint, a.endpoints[len(a.endpoints)-1])
		})
		if len(listed) <= (len(before.Members)-1)/2 { // a list that lacks most members leads to none of them
			return "nothing", nil
		}
		id := one.ID
		what, err = "Remove "+id, cluster.Remove(ctx, id)
		after, failed := cluster.Members(ctx)
		gone := !slices.ContainsFunc(after.Members, func(m admin.Member) bool { return m.ID == id })
		a.promise("Remove removes", err != nil || failed != nil || gone || a.plan.count(operator) > 1, "%s: nil, and it is a member: %+v", what, after)
	default:
		what, err = "SetMaxTTL", cluster.SetMaxTTL(ctx, a.plan.maxTTL)
	}
	if after, failed := cluster.Members(ctx); err == nil && failed == nil && len(after.Members) != len(before.Members) {
		a.changed.Add(1)
	}
	a.reachIf("a change of members", err == nil && what != "SetMaxTTL")
	a.reachIf("a change that its context ended", err != nil && ctx.Err() != nil)
	return what, err
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
	r.logs(ctx)
	time.Sleep(2 * time.Second)
	versions := make(map[int64]bool)
	for _, c := range r.clients {
		m, err := admin.Of(c.current().locker).Cluster().Members(ctx)
		if r.outlived(err) {
			continue
		}
		r.promise("all agree about the members", err == nil || ctx.Err() != nil, "Members by %s: %v", c.plan.who, err)
		versions[m.Version] = true
	}
	r.promise("all agree about the members", len(versions) == 1 || ctx.Err() != nil, "versions: %v", versions)
}

// logs looks whether the log has what one operator changed, where nothing kept it from writing.
func (r *run) logs(ctx context.Context) {
	entries, err := admin.Of(r.clients[0].current().locker).Log(ctx)
	told := int64(0)
	for _, e := range entries {
		if e.Kind == "added" || e.Kind == "removed" {
			told++
		}
	}
	r.promise("the log tells of changes", err != nil || told >= r.changed.Load() || len(r.plan.faults) > 0 || r.plan.count(operator) > 1,
		"%d changes, and the log has %d: %+v", r.changed.Load(), told, entries)
}
