package driver_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock"
)

// The acts that lead to what seldom comes by chance. They are for masters that are well.
var seldom = []*act{
	{"a name that one master refuses", 1, minorities},
	{"a writer that gives up", 1, givesUp},
	{"keys that others overwrite", 1, overwrites},
	{"many calls at once", 1, bursts},
	{"a release that is late", 4, releasesLate},
	{"a caller alone with a master", 1, alone},
	{"an adoption with a shorter TTL", 1, adoptsBriefly},
	{"readers with TTLs of their own", 1, readsForLonger},
}

// theirs is what others write where no lock of ours is.
const theirs = "theirs"

// minorities takes a name at which one of at least three masters has what is no lock of ours.
func minorities(a *actor) {
	life := a.life()
	if !a.plan.calm() || !a.look || a.plan.masters < 3 || len(life.client.plan.list) < a.plan.masters {
		return
	}
	time.Sleep(20 * latency) // it may have been opened just now, and needs the votes of all others
	// The votes of a call whose context ends may be one of each, which is ErrTaken.
	name, m := "split-"+a.fresh(), a.masters[a.rng.IntN(a.plan.masters)]
	_, failed := m.do("SET", name, theirs)
	a.promise("what others wrote stays", failed == nil, "%q: SET: %v", name, failed)
	if h := a.acquireBy(life, a.unrenewed(a.mutex(name, false))); h != nil {
		a.unlock(h)
	}
	time.Sleep(5 * latency)
	left, failed := m.do("DEL", name)
	a.promise("what others wrote stays", failed == nil && left == int64(1), "%q: somebody else had it at one master, and nobody has: %v", name, failed)
}

// givesUp has a writer wait behind a reader, and give up, or release the name within its minimum
// hold. Then the next reader is let in.
func givesUp(a *actor) {
	if !a.plan.calm() || !a.look {
		return
	}
	if a.rng.IntN(2) == 0 {
		a.keepsBehind()
		return
	}
	name := a.fresh()
	first := a.acquire(a.unrenewed(a.reader(name, false)))
	if first == nil {
		return
	}
	life := a.life()
	ctx, cancel := context.WithTimeout(a.base, 5*time.Millisecond+upTo(a.rng, 30*time.Millisecond))
	defer cancel()
	if lock, err := life.locker.Lock(ctx, name); err == nil { // somebody has released the first one
		life.got.Add(1)
		_ = lock.Unlock(a.base) //nolint:errcheck // the name is not used again
		return
	}
	time.Sleep(5 * latency)
	if next := a.acquire(a.unrenewed(a.reader(name, false))); next != nil {
		a.unlock(next)
	}
	a.unlock(first)
}

// keepsBehind has a writer get the name of a reader that releases it, and release it itself. No
// master keeps readers out once its minimum hold is over, nor one that refused the writer to the
// end, because others had the name there.
func (a *actor) keepsBehind() {
	name, after := "behind-"+a.fresh(), 5*time.Millisecond+upTo(a.rng, 20*time.Millisecond)
	first := a.acquire(a.unrenewed(a.reader(name, false)))
	if first == nil {
		return
	}
	q := a.unrenewed(a.mutex(name, true))
	q.asked.minHold = 2*after + upTo(a.rng, 50*time.Millisecond)
	q.asked.opts = append(q.asked.opts, redlock.WithMinHold(q.asked.minHold))
	life := a.life()
	refusing := a.masters[life.client.plan.list[0]]
	others := a.plan.masters > 2 && len(life.client.plan.list) == a.plan.masters
	var releasing sync.WaitGroup
	releasing.Go(func() {
		time.Sleep(after)
		if others {
			_, _ = refusing.do("SET", name, theirs) //nolint:errcheck // all are up
		}
		a.fork(0).unlock(first)
	})
	h := a.acquireBy(life, q)
	releasing.Wait()
	if others {
		_, _ = refusing.do("DEL", name) //nolint:errcheck // all are up
	}
	if h == nil {
		return
	}
	a.unlock(h)
	time.Sleep(q.asked.minHold + q.asked.minHold/50 + 10*latency)
	for i, m := range a.masters {
		_, ttl, kept := m.get("redquorum:intent:" + name)
		a.promise("who gives up lets readers in", !kept, "%v: master %d keeps readers out of %q for %v after its minimum hold", h.hold, i, name, ttl)
	}
}

// overwrites has others write into the keys beside a lock, at every master: into the counter of
// its tokens before it is acquired, and into the number of permits while one is held.
func overwrites(a *actor) {
	if len(a.plan.faults) > 0 || a.plan.unsettled() || a.plan.sleeps || !a.look {
		return
	}
	name := a.fresh()
	everywhere := func(command, key string, args ...any) {
		for _, m := range a.masters {
			_, _ = m.do(command, append([]any{key}, args...)...) //nolint:errcheck // all are up
		}
	}
	switch a.rng.IntN(3) {
	case 0:
		names, life := []string{name, a.fresh()}, a.life()
		for _, one := range names {
			everywhere("ZADD", one, 1, theirs)
		}
		lock, err := life.locker.TryLockAny(a.base, names)
		a.promise("ErrTaken means that somebody has it", lock == nil && !is(err, redlock.ErrTaken), "TryLockAny of what is no lock: %v, %v", lock, err)
		for _, one := range names {
			everywhere("DEL", one)
		}
		return
	case 1:
		everywhere("ZADD", "redquorum:fence:"+name, 1, theirs)
		if h := a.acquire(a.fenced(a.unrenewed(a.mutex(name, false)))); h != nil {
			a.unlock(h)
		}
		return
	}
	h := a.acquire(a.unrenewed(a.permitOf(name, 1+a.rng.IntN(3), false)))
	if h == nil {
		return
	}
	everywhere("SET", "redquorum:permits:"+name, pick(a.rng, "", "text", "-1"))
	before := h.lock.Remaining()
	err := h.lock.Extend(a.base, h.ttl)
	a.promise("nobody loses a lock by what others write beside it", !is(err, redlock.ErrLost) || before < h.ttl/4, "%v: Extend: %v", h.hold, err)
	a.unlock(h)
}

// bursts has one Locker acquire and release many names at one moment. The contexts of some calls
// end at that moment, too: those leave nothing, whatever they were sent together with.
func bursts(a *actor) {
	life := a.life()
	var all []*handle
	for range 2 + a.rng.IntN(6) {
		if h := a.acquireBy(life, a.unrenewed(a.mutex(a.fresh(), false))); h != nil {
			all = append(all, h)
		}
	}
	ctx, cancel := context.WithCancel(a.base)
	var bursting sync.WaitGroup
	for i := range len(all) + 2 {
		if i < len(all) {
			bursting.Go(func() { a.fork(i).unlock(all[i]) })
		}
		bursting.Go(func() { a.fork(i).cutOff(ctx, life) })
	}
	for range a.rng.IntN(4) {
		runtime.Gosched()
	}
	cancel()
	bursting.Wait()
}

// cutOff acquires a name with a context that ends meanwhile.
func (a *actor) cutOff(ctx context.Context, life *life) {
	q := a.unrenewed(a.mutex(a.fresh(), false))
	lock, err := life.locker.TryLock(ctx, q.names[0], q.asked.opts...)
	if err == nil {
		life.got.Add(1)
		_ = lock.Unlock(ctx) //nolint:errcheck // the name is not used again
	}
	a.leaves(q, life)
}

// fork returns an actor for a goroutine of this one's.
func (a *actor) fork(i int) *actor {
	return &actor{run: a.run, who: a.who, rng: a.plan.rng(a.who, uint64(i))}
}

// releasesLate has a release within the minimum hold reach one master late. The name is free there
// no later for it.
func releasesLate(a *actor) {
	if len(a.plan.faults) != 1 || a.plan.faults[0].what != byActs || a.plan.sleeps || !a.look || !a.stopping.TryLock() {
		return
	}
	defer a.stopping.Unlock()
	q := a.unrenewed(a.mutex(a.fresh(), false))
	q.asked.ttl, q.asked.minHold = a.plan.maxTTL/4, a.plan.maxTTL/2
	q.asked.opts = append(q.asked.opts, redlock.WithTTL(q.asked.ttl), redlock.WithMinHold(q.asked.minHold))
	h := a.acquire(q)
	if h == nil {
		return
	}
	m := a.masters[a.plan.faults[0].master]
	ends := func() (end clock.Instant, kept bool) {
		value, left, _ := m.get(h.lock.Name())
		return a.clock.Now().Add(left), value == h.hold.Value
	}
	before, granted := ends() // a SET that arrived late counts from then
	a.note("master", "stopped by %s", a.who)
	heal := m.breaks("stopped", 0)
	a.unlock(h)
	time.Sleep(upTo(a.rng, a.plan.maxTTL/8))
	heal()
	time.Sleep(5 * latency)
	after, kept := ends()
	a.promise("a minimum hold ends in time", !granted || !kept || after <= before.Add(2*latency), "%v: a master keeps it for %v longer", h.hold, after.Sub(before))
}

// alone has a Locker whose calls have the connection to the only master for themselves. They read
// their replies themselves, and wait no longer for that when the master is mute.
func alone(a *actor) {
	if a.plan.masters > 1 || len(a.plan.faults) == 0 || a.plan.sleeps || !a.look || !a.stopping.TryLock() {
		return
	}
	defer a.stopping.Unlock()
	p := a.plan.clients[a.rng.IntN(len(a.plan.clients))]
	if a.clock.Now()%2 == 0 { // not drawn: its node timeout is longer than most TTLs
		p.waits = 700 * time.Millisecond
		p.opts = append(slices.Clone(p.opts), redlock.WithNodeTimeout(p.waits))
	}
	l := a.newClient(&p).current()
	defer l.close()
	for range 4 {
		if h := a.acquireBy(l, a.unrenewed(a.mutex(a.fresh(), false))); h != nil {
			a.unlock(h)
		}
	}
	heal := a.masters[0].breaks("mute replies", 0)
	healing := time.AfterFunc(4*l.client.plan.nodeTimeout(a.plan.maxTTL), heal)
	a.acquireBy(l, a.unrenewed(a.mutex(a.fresh(), false)))
	if healing.Stop() {
		heal()
	}
}

// adoptsBriefly has a lock adopted with a TTL that ends before the old holder stops believing that
// it has it. The masters keep it for as long.
func adoptsBriefly(a *actor) {
	if !a.plan.calm() || !a.look {
		return
	}
	name := "wild-" + a.fresh()
	h := a.lasting(a.life(), name)
	if h == nil {
		return
	}
	h.taken.Store(true)
	life := a.life()
	lock, err := life.locker.Adopt(a.base, name, h.hold.Value, redlock.WithTTL(a.plan.maxTTL/8), redlock.WithoutRenewal())
	if err != nil {
		return
	}
	life.got.Add(1)
	left, kept := h.lock.Remaining(), 0
	for _, m := range a.masters {
		if value, ttl, _ := m.get(name); value == lock.Value() && ttl+time.Millisecond > left {
			kept++
		}
	}
	a.promise("an adoption ends no lock before its holder knows", kept > a.plan.masters/2 || lock.Err() != nil, "%v: it was adopted, %v are left, and only %d masters keep it that long", h.hold, left, kept)
	_ = lock.Unlock(a.base) //nolint:errcheck // the name is not used again
}

// readsForLonger has a reader be extended for less than another one still has. That one has the
// name until its validity ends.
func readsForLonger(a *actor) {
	if !a.plan.calm() || !a.look {
		return
	}
	name := a.fresh()
	first, second := a.acquire(a.unrenewed(a.reader(name, false))), a.acquire(a.unrenewed(a.reader(name, false)))
	if first != nil && second != nil {
		_ = second.lock.Extend(a.base, first.ttl/8) //nolint:errcheck // somebody may have released it
		a.looks(first)
	}
	for _, h := range []*handle{first, second} {
		if h != nil {
			a.unlock(h)
		}
	}
}
