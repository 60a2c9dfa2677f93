package driver_test

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// adoptsAtMoments has adoptions fail at the moments at which the old holder may go wrong: beside
// its release, and as its TTL ends. Then a set loses one of its names.
func adoptsAtMoments(a *actor) {
	a.ready()
	p := a.plan.clients[0]
	p.drift, p.opts = false, append(p.opts, redlock.WithDrift(0, 0))
	holder := a.newClient(&p).current()
	_ = holder.locker.Ready(a.base) //nolint:errcheck // the masters are well
	time.Sleep(10 * latency)
	for range 30 {
		a.adoptsBesideRelease(holder)
		a.adoptsAtTheEnd(holder)
	}
	a.losesOneOfTwo(holder)
	holder.close()
}

// losesOneOfTwo takes one of two names from a lock with a minimum hold. The other one stays taken.
func (a *actor) losesOneOfTwo(holder *life) {
	names, least, began := []string{a.fresh(), a.fresh()}, a.plan.maxTTL/2, a.clock.Now()
	lock, err := holder.locker.TryLockAll(a.base, names, redlock.WithMinHold(least), redlock.WithoutRenewal())
	a.note("script", "TryLockAll %v: %v", names, err)
	if err != nil {
		return
	}
	holder.got.Add(1)
	for _, m := range a.masters {
		_, _ = m.do("DEL", names[1]) //nolint:errcheck // all are up
	}
	ends := pick(a.rng, lock.Verify, lock.Unlock, func(ctx context.Context) error { return lock.Extend(ctx, a.plan.maxTTL) })
	a.note("script", "it has lost %s: %v", names[1], ends(a.base))
	other := a.clients[2].current()
	next, err := other.locker.TryLock(a.base, names[0], redlock.WithoutRenewal())
	a.promise("minimum hold", err != nil || a.since(began) >= least, "%s was acquired %v after a set with a minimum hold of %v", names[0], a.since(began), least)
	if err == nil {
		other.got.Add(1)
		_ = next.Unlock(a.base) //nolint:errcheck // the name is not used again
	}
}

// adopt goes on with a lock of another client, which is the worse for it. It reports whether it
// could.
func (a *actor) adopt(ctx context.Context, h *handle, opts ...redlock.LockOption) bool {
	h.taken.Store(true)
	heir := a.clients[1].current()
	lock, err := heir.locker.Adopt(ctx, h.lock.Name(), h.hold.Value, append(opts, redlock.WithoutRenewal())...)
	a.note("an heir", "Adopt %s: %v", h.lock.Name(), err)
	if err != nil {
		return false
	}
	heir.got.Add(1)
	_ = lock.Unlock(a.base) //nolint:errcheck // the name is not used again
	return true
}

// adoptsBesideRelease has an adoption end while the lock is released: nobody has it then.
func (a *actor) adoptsBesideRelease(holder *life) {
	name := a.fresh()
	h := a.acquireBy(holder, a.long(pick(a.rng, a.mutex, a.single)(name, false)))
	if h == nil {
		return
	}
	ctx, cancel := context.WithCancel(a.base)
	adopting := make(chan bool, 1)
	go func() { adopting <- a.adopt(ctx, h) }()
	time.Sleep(upTo(a.rng, latency/2))
	time.AfterFunc(upTo(a.rng, 2*latency), cancel)
	h.over()
	_ = h.lock.Unlock(a.base) //nolint:errcheck // it may be lost
	<-adopting
	time.Sleep(10 * latency)
	for i, m := range a.masters {
		value, ttl, found := m.get(h.lock.Name())
		a.promise("a failed call leaves nothing", !found, "%v was released while its adoption ended, and master %d has %q for %v", h.hold, i, value, ttl)
	}
}

// adoptsAtTheEnd has an adoption fail when hardly anything is left of the TTL. Until that is over,
// nobody else can have the lock.
func (a *actor) adoptsAtTheEnd(holder *life) {
	q := a.mutex(a.fresh(), false)
	q.asked.ttl = 20 * latency
	q.asked.opts = append(q.asked.opts, redlock.WithTTL(q.asked.ttl))
	h := a.acquireBy(holder, a.unrenewed(q))
	if h == nil {
		return
	}
	time.Sleep(max(h.lock.Remaining()-latency-upTo(a.rng, 3*latency), 1))
	a.adopt(a.base, h, redlock.WithTTL(100*latency), redlock.WithMinValidity(100*latency-1))
	for h.lock.Remaining() > 0 && h.lock.Err() == nil {
		kept := 0
		for _, m := range a.masters {
			if _, _, found := m.get(h.lock.Name()); found {
				kept++
			}
		}
		a.promise("a majority keeps a lock for its validity", kept > len(a.masters)/2 || h.lock.Remaining() <= 0,
			"%v: %v are left, and only %d masters keep it beside an adoption that failed", h.hold, h.lock.Remaining(), kept)
		time.Sleep(latency / 20)
	}
	a.unlock(h)
}
