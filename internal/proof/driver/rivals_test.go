package driver_test

import (
	"strings"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// twoClusters has two clusters: one of three masters, and one of others.
func twoClusters(p *plan) {
	p.lists, p.rival = true, true
	breaking(p)
}

// beginsWithTwo has clients begin with lists that have masters of two clusters, one of which may be
// a server that somebody has used alone, while some of these masters do not answer.
func beginsWithTwo(a *actor) {
	time.Sleep(time.Second)
	for range 6 {
		p := a.plan.clients[0]
		of, rest := a.rng.Perm(first), a.plan.masters-first
		silent := -1
		if p.list = []int{of[0], first}; rest > 1 { // a majority of each
			p.list = append(of[:2], first, first+1)
			silent = p.list[a.rng.IntN(len(p.list))]
		}
		heal := func() {}
		if silent >= 0 {
			heal = a.masters[silent].breaks("mute", 0)
		}
		a.rng.Shuffle(len(p.list), func(i, j int) { p.list[i], p.list[j] = p.list[j], p.list[i] })
		a.getsNothing("masters of two clusters in one list grant nothing", a.newClient(&p).current(), silent)
		heal()
	}
	if a.plan.masters > first+1 {
		a.withoutClients(func() {
			a.standsForItsCluster()
			a.goesOnBeside()
		})
	}
}

// ofTwo returns a client that lists these members of the first cluster, and two of the other one.
func (a *actor) ofTwo(members ...int) *life {
	p := a.plan.clients[0]
	p.list = append(members, first, first+1)
	return a.newClient(&p).current()
}

// standsForItsCluster has a member forget, wait for as long as it must, and rejoin by nobody. A
// client that begins, and does not hear another one, cannot tell which cluster is meant.
func (a *actor) standsForItsCluster() {
	of, p := a.rng.Perm(first), a.plan.clients[0]
	p.list = of
	sees := a.newClient(&p).current()
	_ = sees.locker.Ready(a.base) //nolint:errcheck // all are well
	a.masters[of[0]].breaks("is flushed", 0)
	for range 20 {
		if marker, _, _ := a.masters[of[0]].get(memoryKey); strings.Contains(marker, " cluster=") {
			break // it says what it was
		}
		a.acquireBy(sees, a.unrenewed(a.mutex(a.fresh(), false)))
		time.Sleep(100 * time.Millisecond)
	}
	sees.close()
	time.Sleep(5 * time.Second)
	heal := a.masters[of[1]].breaks("mute", 0)
	a.getsNothing("masters of two clusters in one list grant nothing", a.ofTwo(of[:2]...), of[1])
	heal()
}

// goesOnBeside has another cluster begin in the list of a client, and a member forget that the list
// has. One that begins may enter the other cluster, so this one gets nothing.
func (a *actor) goesOnBeside() {
	of := a.rng.Perm(first)
	for _, m := range a.masters[first:] {
		m.breaks("is flushed", 0)
	}
	l := a.ofTwo(of[:2]...)
	_ = l.locker.Ready(a.base) //nolint:errcheck // all are well
	a.foundOf(a.endpoints[first:])
	time.Sleep(2 * time.Second)
	a.masters[of[0]].breaks("is flushed", 0)
	a.getsNothing("masters of two clusters in one list grant nothing", l, -1)
}

// getsNothing has a client that begins try to lock.
func (a *actor) getsNothing(promise string, l *life, silent int) {
	for range 4 {
		time.Sleep(upTo(a.rng, 400*latency))
		lock, err := l.locker.TryLock(a.base, a.fresh(), redlock.WithoutRenewal())
		a.promise(promise, err != nil, "list %v of 0 to 2 and others, and %d is silent: it has a lock", l.client.plan.list, silent)
		if err == nil {
			l.got.Add(1)
			_ = lock.Unlock(a.base) //nolint:errcheck // it is what matters that it was granted
		}
	}
	l.close()
}
