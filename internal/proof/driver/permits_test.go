package driver_test

import (
	"slices"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// numbersMeet has one master lose a permit, and clients with another number ask for one while its
// holder extends it. They get a slot where nobody remembers the number, before the others refuse
// it. When they have given that back, the permit is healed, with its number.
func numbersMeet(a *actor) {
	a.ready()
	name := a.fresh()
	h := a.acquireBy(a.clients[0].current(), a.long(a.single(name, false)))
	if h == nil {
		return
	}
	asking := a.clients[1].current()
	wrong, err := asking.locker.Semaphore(name, 5)
	a.promise("Semaphore takes what is valid", err == nil, "Semaphore: %v", err)
	order := a.rng.Perm(len(a.masters))
	for range 20 {
		_, _ = a.masters[order[0]].do("DEL", name+"#1", "redquorum:permits:"+name) //nolint:errcheck // it is up
		asked := make(chan error, 1)
		go func() {
			time.Sleep(upTo(a.rng, 4*latency))
			lock, err := wrong.TryAcquire(a.base, redlock.WithoutRenewal())
			if err == nil {
				asking.got.Add(1)
				_ = lock.Unlock(a.base) //nolint:errcheck // that it was granted is wrong enough
			}
			asked <- err
		}()
		a.extendsWell(h)
		err := <-asked
		a.promise("another number of permits is refused", is(err, redlock.ErrInvalid, redlock.ErrTaken), "TryAcquire of 5 beside %v: %v", h.hold, err)
		time.Sleep(5 * latency)
		a.extendsWell(h)
		time.Sleep(5 * latency)
	}
	var numbers []string
	for _, m := range a.masters {
		number, _, _ := m.get("redquorum:permits:" + name)
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	a.promise("nodes keep the number of permits while one is held", len(slices.Compact(numbers)) == 1, "%v: the masters keep the numbers %v", h.hold, numbers)
	a.unlock(h)
}

// extendsWell extends a lock of which a majority of the masters has what they granted.
func (a *actor) extendsWell(h *handle) {
	err := h.lock.Extend(a.base, h.ttl)
	a.promise("Extend in calm times", err == nil, "%v: Extend: %v", h.hold, err)
}
