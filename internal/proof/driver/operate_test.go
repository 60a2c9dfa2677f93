package driver_test

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/redlock"
)

// The acts of operators, and of programs that look.
var operating = []*act{
	{"Inspect", 2, inspects},
	{"InspectSemaphore", 1, inspectsPermits},
	{"Stats", 1, counts},
	{"Ready", 1, readies},
	{"ForceUnlock", 2, forces},
	{"ForceUnlock of what was seen", 1, forcesSeen},
	{"Adopt", 3, adopts},
	{"UnlockAll", 1, unlocksAll},
	{"Close", 1, func(a *actor) {
		if a.rng.IntN(3) == 0 {
			a.clients[a.rng.IntN(len(a.clients))].replace()
		}
	}},
	{"Members", 1, members},
}

func inspects(a *actor) {
	life, ctx, name, began := a.life(), a.patience(false), a.name(), a.clock.Now()
	defer ctx.cancel()
	status, err := admin.Of(life.locker).Inspect(ctx, name)
	a.inTime("inspecting in time", "Inspect", began, life.client.plan.nodeTimeout(life.client.plan.ttl), ctx)
	if err != nil {
		a.sound("Inspect", err, ctx, life)
		a.promise("errors of Inspect", is(err, redlock.ErrNoQuorum, redlock.ErrClosed) || a.strange(err) || ctx.Err() != nil && is(err, ctx.Err()), "%s: Inspect: %v", a.who, err)
		return
	}
	_, members := a.plan.size()
	a.promise("what Inspect tells", status.Name == name && !(status.Free && status.Value != "") && len(status.Nodes) >= len(life.client.plan.list) &&
		(members == 0 || status.Quorum == members/2+1), "%s: Inspect %s: %+v", a.who, name, status)
}

func inspectsPermits(a *actor) {
	life, ctx, began := a.life(), a.patience(false), a.clock.Now()
	defer ctx.cancel()
	status, err := admin.Of(life.locker).InspectSemaphore(ctx, "sem2")
	a.inTime("inspecting in time", "InspectSemaphore", began, life.client.plan.nodeTimeout(life.client.plan.ttl), ctx)
	if err != nil {
		a.sound("InspectSemaphore", err, ctx, life)
		a.promise("errors of Inspect", is(err, redlock.ErrNoQuorum, redlock.ErrClosed) || a.strange(err) || ctx.Err() != nil && is(err, ctx.Err()), "%s: InspectSemaphore: %v", a.who, err)
		return
	}
	a.promise("the number that InspectSemaphore tells", status.Permits == 0 || status.Permits == 2 || a.plan.spoiled(), "%s: %d permits of 2", a.who, status.Permits)
}

func counts(a *actor) {
	life := a.life()
	s := life.locker.Stats()
	a.promise("Stats", s.Held >= 0 && s.Waiting >= 0 && len(s.Nodes) >= len(life.client.plan.list) && s.Lost <= s.Acquired &&
		uint64(s.Held)+s.Lost <= s.Acquired, "%s: %+v", a.who, s)
	if s.Version > 0 && !a.plan.unsettled() {
		a.promise("Stats.Quorum", s.Quorum == a.plan.masters/2+1, "%s: quorum of %d, of %d masters", a.who, s.Quorum, a.plan.masters)
	}
	for _, n := range s.Nodes {
		a.reachIf("a release that waits for a master", n.Kept > 0)
		a.reachIf("a release that waits beside a lock that is held", n.Kept > 0 && s.Held > 0)
	}
}

func readies(a *actor) {
	life, ctx, began := a.life(), a.patience(true), a.clock.Now()
	defer ctx.cancel()
	err := life.locker.Ready(ctx)
	a.inTime("Ready until ctx ends", "Ready", began, 0, ctx)
	if err != nil {
		a.sound("Ready", err, ctx, life)
		a.promise("errors of Ready", is(err, redlock.ErrNoQuorum, redlock.ErrClosed) || a.strange(err) || ctx.Err() != nil && is(err, ctx.Err()), "%s: Ready: %v", a.who, err)
	}
}

// forces takes a wild name from whoever holds it. Its holder is told with its next round.
func forces(a *actor) {
	life, ctx, name, began := a.life(), a.patience(false), a.wild(), a.clock.Now()
	defer ctx.cancel()
	held := a.takes(name)
	a.note(a.who, "ForceUnlock %s", name)
	err := admin.Of(life.locker).ForceUnlock(ctx, name)
	a.note(a.who, "ForceUnlock %s: %v", name, err)
	a.inTime("forcing in time", "ForceUnlock", began, 2*life.client.plan.nodeTimeout(life.client.plan.ttl), ctx) // also for the log
	if err != nil {
		a.sound("ForceUnlock", err, ctx, life)
		a.promise("errors of ForceUnlock", is(err, redlock.ErrNoQuorum, redlock.ErrClosed) || a.strange(err) || ctx.Err() != nil && is(err, ctx.Err()), "%s: ForceUnlock: %v", a.who, err)
		return
	}
	for _, h := range held {
		if h.lock.Err() != nil {
			continue
		}
		a.reachIf("a lock that was forced from its holder", true)
		verified := h.lock.Verify(a.base)
		if verified == nil { // an extension that was under way set the key again, and gives it back
			time.Sleep(5 * latency)
			verified = h.lock.Verify(a.base)
		}
		a.promise("a forced holder learns with its next round", verified != nil, "%v was forced, and Verify says that it is held", h.hold)
	}
}

// forcesSeen takes a name from whom it saw, while that one releases it and the next one gets it:
// the next one keeps it.
func forcesSeen(a *actor) {
	name := "re" + a.fresh()
	seen := a.acquire(a.unrenewed(a.mutex(name, false)))
	if seen == nil {
		return
	}
	seen.taken.Store(true)
	operator, forced, after := admin.Of(a.life().locker), make(chan error, 1), upTo(a.rng, 2*latency)
	go func() {
		time.Sleep(after)
		forced <- operator.ForceUnlock(a.base, name, seen.hold.Value)
	}()
	a.unlock(seen)
	next := a.acquire(a.unrenewed(a.mutex(name, false)))
	err := <-forced
	a.promise("errors of ForceUnlock", err == nil || a.strange(err) || is(err, admin.ErrChanged, redlock.ErrNoQuorum, redlock.ErrClosed), "%s: ForceUnlock: %v", a.who, err)
	if next == nil {
		return
	}
	err = next.lock.Verify(a.base)
	a.promise("who was not seen keeps its lock", !is(err, redlock.ErrLost) || !a.plan.steady() || !a.look || next.lock.Remaining() < 0,
		"%v: Verify: %v, and %v was to lose it", next.hold, err, seen.hold)
	a.unlock(next)
}

// takes notes that the locks of a name are being taken, and returns those that are held.
func (a *actor) takes(name string) []*handle {
	held := slices.DeleteFunc(a.held(), func(h *handle) bool { return !slices.Contains(h.hold.Names, name) })
	for _, h := range held {
		h.taken.Store(true)
	}
	return held
}

// adopts goes on with a lock that somebody has, or had.
func adopts(a *actor) {
	a.mu.Lock()
	var lent *handle
	for i := len(a.handles) - 1; i >= max(0, len(a.handles)-40) && lent == nil; i-- {
		if a.handles[i].wild() {
			lent = a.handles[i]
		}
	}
	a.mu.Unlock()
	if lent == nil {
		return
	}
	lent.taken.Store(true)
	q := &request{call: "Adopt", names: lent.hold.Names, rounds: 1}
	q.do = func(ctx context.Context, l *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error) {
		return l.Adopt(ctx, lent.hold.Names[0], lent.hold.Value, opts...)
	}
	life := a.life()
	a.asks(q, life)
	ctx, began := a.patience(false), a.clock.Now()
	defer ctx.cancel()
	a.note(a.who, "Adopt %v", q.names)
	lock, err := q.do(ctx, life.locker, q.asked.opts...)
	a.note(a.who, "Adopt %v: %v", q.names, err)
	ttl := cmp.Or(q.asked.ttl, life.client.plan.ttl)
	a.inTime("adopting in time", "Adopt", began, time.Duration(q.rounds)*life.client.plan.nodeTimeout(ttl), ctx)
	if err != nil {
		a.sound("Adopt", err, ctx, life)
		a.reachIf("an adoption that failed", lent.lock.Err() == nil)
		a.promise("errors of Adopt", is(err, redlock.ErrLost, redlock.ErrNoQuorum, redlock.ErrNoValidity, redlock.ErrClosed) || a.strange(err) || ctx.Err() != nil && is(err, ctx.Err()),
			"%s: Adopt: %v", a.who, err)
		return
	}
	life.got.Add(1)
	h := a.got(q, lock, began, ttl, life)
	if lent.lock.Err() == nil {
		a.reachIf("a lock that was adopted from its holder", true)
		verified := lent.lock.Verify(a.base)
		a.promise("an old holder learns of the adoption with its next round", verified != nil, "%v was adopted, and Verify says that it is held", lent.hold)
	}
	a.use(h)
}

// unlocksAll releases all locks of a client. Done tells their holders.
func unlocksAll(a *actor) {
	if a.rng.IntN(3) > 0 {
		return
	}
	life, ctx, began := a.life(), a.patience(false), a.clock.Now()
	defer ctx.cancel()
	a.note(a.who, "UnlockAll of %s", life.client.plan.who)
	life.unlocked.Store(true)
	var mine []*handle
	for _, h := range a.held() {
		if h.life == life {
			mine = append(mine, h)
		}
	}
	err := life.locker.UnlockAll(ctx)
	a.inTime("unlocking in time", "UnlockAll", began, life.client.plan.nodeTimeout(a.plan.maxTTL), nil)
	a.promise("errors of UnlockAll", err == nil || is(err, redlock.ErrLost, redlock.ErrNoQuorum, redlock.ErrClosed), "%s: UnlockAll: %v", a.who, err)
	for _, h := range mine {
		a.promise("UnlockAll releases all", h.lock.Err() != nil || is(err, redlock.ErrClosed), "%v: it is held after UnlockAll", h.hold)
		if err == nil && is(h.lock.Err(), redlock.ErrReleased) {
			a.released(h)
		}
	}
}

func members(a *actor) {
	life, ctx, began := a.life(), a.patience(true), a.clock.Now()
	defer ctx.cancel()
	m, err := admin.Of(life.locker).Cluster().Members(ctx)
	a.agree(&m)
	a.inTime("Members until ctx ends", "Members", began, 0, ctx)
	if err != nil {
		a.sound("Members", err, ctx, life)
		a.promise("errors of Members", is(err, redlock.ErrNoQuorum, redlock.ErrClosed) || a.strange(err) || ctx.Err() != nil && is(err, ctx.Err()), "%s: Members: %v", a.who, err)
		return
	}
	_, members := a.plan.size()
	a.promise("what Members tells", (members == 0 || len(m.Members) == members) && (m.MaxTTL == a.plan.maxTTL || a.plan.changes && m.MaxTTL <= a.plan.maxTTL+2*slightly || a.plan.lists) && m.Version > 0, "%s: %+v", a.who, m)
}
