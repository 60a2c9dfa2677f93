package driver_test

import "time"

// comesBehind has things come to one master behind the release of a lock, or be late for it.
func comesBehind(a *actor) {
	a.ready()
	m := a.masters[a.rng.IntN(len(a.masters))]
	a.healsLate(m)
	a.missesHealed(m)
	a.heldBack(m)
}

// healsLate has a master say to an extension that it lacks the lock, when that has been released
// since. It is not asked to set the key again.
func (a *actor) healsLate(m master) {
	name := "late-" + a.fresh()
	h := a.lasting(a.clients[0].current(), name)
	if h == nil {
		return
	}
	time.Sleep(5 * latency)
	_, _ = m.do("DEL", name)         //nolint:errcheck // it is up
	heal := m.breaks("slow", 10)     // 30 ms at most
	_ = h.lock.Extend(a.base, h.ttl) //nolint:errcheck // the others extend it
	a.unlock(h)
	time.Sleep(200 * time.Millisecond)
	heal()
	value, ttl, found := m.get(name)
	a.promise("nothing arrives behind a release", !found, "%v is released, and a master that lacked it has %q for %v", h.hold, value, ttl)
}

// missesHealed has a master refuse a lock, and set its key when it is asked for its vote later. It
// is away when the lock is released, and gets that when it is back.
func (a *actor) missesHealed(m master) {
	name := "healed-" + a.fresh()
	_, _ = m.do("SET", name, theirs) //nolint:errcheck // it is up
	h := a.lasting(a.clients[0].current(), name)
	_, _ = m.do("DEL", name) //nolint:errcheck // it is up
	if h == nil {
		return
	}
	time.Sleep(5 * latency)
	_ = h.lock.Extend(a.base, h.ttl) //nolint:errcheck // the others extend it
	time.Sleep(5 * latency)
	heal := m.breaks("killed", 0)
	time.Sleep(upTo(a.rng, 100*time.Millisecond))
	a.unlock(h)
	heal()
	time.Sleep(time.Second)
	value, ttl, found := m.get(name)
	a.promise("a master that is back gets the release", !found, "%v is released, and a master that was away has %q for %v", h.hold, value, ttl)
}

// heldBack has what a client sent to a master arrive behind the release of that lock, on a
// connection that the client has given up meanwhile.
func (a *actor) heldBack(m master) {
	name := "back-" + a.fresh()
	heal := m.breaks("slow", 5000) // 15 s at most
	h := a.lasting(a.clients[0].current(), name)
	heal()
	if h == nil {
		return
	}
	time.Sleep(3*time.Second + upTo(a.rng, 2*time.Second)) // it gives the connection up
	a.unlock(h)
	time.Sleep(15 * time.Second)
	value, ttl, found := m.get(name)
	a.promise("nothing arrives behind a release", !found, "%q is released, and a master has %q for %v", name, value, ttl)
}
