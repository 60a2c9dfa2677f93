package driver_test

import "time"

// heldBack has what a client sent to one master arrive behind the release of that lock, on a
// connection that the client has given up meanwhile.
func heldBack(a *actor) {
	a.ready()
	name, m := "back-"+a.fresh(), a.masters[a.rng.IntN(len(a.masters))]
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
