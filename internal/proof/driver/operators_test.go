package driver_test

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock"
)

// changesOnce makes one change that takes what storms do not: a master that is away for long, a
// MaxTTL that locks exceed, an operator that dies with a master who was told, or a removal in the
// middle of a call.
func changesOnce(a *actor) {
	a.ready()
	time.Sleep(a.plan.maxTTL)
	if a.plan.rng("a removal", 9).IntN(3) == 0 {
		a.removesWithin()
		return
	}
	pick(a.rng, a.removesAway, a.lowers, func() { a.diesTelling(); a.lowers() })()
}

// removesWithin removes a master that refuses, in the middle of a call for which another one is
// silent. The others have answered: they decide once the client knows the list.
func (a *actor) removesWithin() {
	cluster, all := admin.Of(a.clients[1].current().locker).Cluster(), a.rng.Perm(len(a.masters))
	err := cluster.Add(a.base, a.endpoints[a.plan.masters])
	a.promise("a change in calm times", err == nil, "Add: %v", err)
	time.Sleep(2 * a.plan.maxTTL)
	p := a.plan.clients[0]
	p.list, p.waits = all, a.plan.maxTTL*3/4
	p.opts = append(p.opts, redlock.WithNodeTimeout(p.waits))
	client, n := a.apart(&p)
	holder := client.current()
	defer holder.close()
	h, free := a.acquireBy(holder, a.long(a.mutex(a.fresh(), false))), a.fresh()
	if h == nil {
		return
	}
	n.loses(a.endpoints[all[0]])
	for _, name := range []string{h.lock.Name(), free} {
		_, _ = a.masters[all[1]].do("SET", name, theirs, "PX", a.plan.maxTTL.Milliseconds()) //nolint:errcheck // it is up
	}
	ended := make(chan clock.Instant, 1)
	call := pick(a.rng, func() error { return h.lock.Extend(a.base, a.plan.maxTTL) }, func() error { return h.lock.Unlock(a.base) }, func() error {
		return a.takesFree(holder, free)
	})
	go func() {
		a.note("script", "the call: %v", call())
		ended <- a.clock.Now()
	}()
	err = cluster.Remove(a.base, memberOf(a.masters[all[1]]))
	a.promise("a change in calm times", err == nil, "Remove: %v", err)
	go func() { a.note("script", "it hears of the change: %v", a.takesFree(holder, a.fresh())) }()
	for holder.locker.Stats().Members == len(all) && len(ended) == 0 {
		time.Sleep(latency)
	}
	knows, over := a.clock.Now(), <-ended
	a.promise("a call ends once a quorum has answered", over <= knows.Add(20*latency), "it took %v longer", over.Sub(knows))
	n.loses("")
	if h.lock.Err() == nil {
		for _, i := range all[2:] {
			_, _ = a.masters[i].do("DEL", h.lock.Name()) //nolint:errcheck // it is up
		}
		a.unlock(h)
		err = h.lock.Unlock(a.base)
		a.promise("Unlock tells of a loss", is(err, redlock.ErrLost), "%v: two of three masters had lost it: %v", h.hold, err)
	}
	time.Sleep(10 * time.Second)
}

// removesAway removes a master that is away. It is told when it is back.
func (a *actor) removesAway() {
	cluster, m := admin.Of(a.clients[0].current().locker).Cluster(), a.masters[a.rng.IntN(a.plan.masters)]
	heal := m.breaks("mute", 0)
	time.Sleep(upTo(a.rng, 2*a.plan.maxTTL))
	err := cluster.Remove(a.base, memberOf(m))
	after, _ := cluster.Members(a.base) //nolint:errcheck // of version 0 then
	time.Sleep(a.plan.maxTTL/2 + upTo(a.rng, 4*a.plan.maxTTL))
	heal()
	time.Sleep(10 * time.Second)
	a.promise("a removed master is told", err != nil || versionOf(m) >= after.Version, "it was removed by version %d, and was told %d", after.Version, versionOf(m))
}

// takesFree acquires a name, and releases it.
func (a *actor) takesFree(l *life, name string) error {
	lock, err := l.locker.TryLock(a.base, name, redlock.WithoutRenewal())
	if err != nil {
		return err
	}
	l.got.Add(1)
	return lock.Unlock(a.base)
}

// lowers lowers MaxTTL below the TTL of a lock that is renewed.
func (a *actor) lowers() {
	p := a.plan.clients[0]
	p.opts = append(p.opts, redlock.WithMaxTTL(a.plan.maxTTL), redlock.WithTTL(a.plan.maxTTL))
	holder := a.newClient(&p).current()
	defer holder.close()
	_ = holder.locker.Ready(a.base) //nolint:errcheck // the masters are well
	q := a.mutex(a.fresh(), false)
	q.fixed, q.asked.ttl, q.asked.opts = true, a.plan.maxTTL, []redlock.LockOption{redlock.WithTTL(a.plan.maxTTL)}
	h := a.acquireBy(holder, q)
	if h == nil {
		return
	}
	cluster, lower := admin.Of(a.clients[1].current().locker).Cluster(), a.plan.maxTTL/4
	for _, one := range []time.Duration{a.plan.maxTTL / 2, lower} {
		err := cluster.SetMaxTTL(a.base, one)
		a.promise("a change in calm times", err == nil, "SetMaxTTL: %v", err)
	}
	time.Sleep(a.plan.maxTTL)
	left := h.lock.Remaining()
	a.promise("a lower MaxTTL is in force for renewals", left <= lower, "%v: %v are left, and MaxTTL is %v", h.hold, left, lower)
	a.unlock(h)
}

// diesTelling has an operator die when one master was told its change. The others are told without
// it, also while one more is away.
func (a *actor) diesTelling() {
	c := a.cutting()
	c.at = whenOneIs
	l := a.newClient(&a.plan.clients[0]).current()
	ctx, cancel := context.WithTimeout(a.base, 4*time.Second)
	defer cancel()
	err := admin.Of(l.locker).Cluster().SetMaxTTL(ctx, a.plan.maxTTL+slightly)
	a.note("script", "the change: %v, %d was told", err, c.knows)
	l.close()
	c.mu.Lock()
	knows := c.knows
	c.mu.Unlock()
	if knows < 0 {
		return
	}
	away := (knows + 1 + a.rng.IntN(a.plan.masters-1)) % a.plan.masters
	c.heals(away)
	time.Sleep(10*time.Second + 2*a.plan.maxTTL)
	for i, m := range a.masters[:a.plan.masters] {
		told := versionOf(m) >= versionOf(a.masters[knows])
		a.promise("a change that was begun is finished", told || i == away, "master %d was told version %d, and %d version %d", knows, versionOf(a.masters[knows]), i, versionOf(m))
	}
	c.heals(-1)
	time.Sleep(time.Second)
}
