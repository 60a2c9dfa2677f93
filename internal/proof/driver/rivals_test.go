package driver_test

import (
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
