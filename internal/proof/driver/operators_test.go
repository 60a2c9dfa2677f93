package driver_test

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/redlock"
)

// changesOnce makes one change that takes what storms do not: a master that is away for long, a
// MaxTTL that locks exceed, or an operator that dies with a master who was told.
func changesOnce(a *actor) {
	a.ready()
	time.Sleep(a.plan.maxTTL)
	pick(a.rng, a.removesAway, a.lowers, func() { a.diesTelling(); a.lowers() })()
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
