package driver_test

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// The scenes in which single masters fail, forget a part, or say what others may not know.

// keepsTooLong has a holder die, and the key of its lock lose its end at the master that the next
// one asks. That one gets the lock of the others.
func keepsTooLong(a *actor) {
	a.ready()
	name := "stays-" + a.fresh()
	h := a.lasting(a.clients[0].current(), name)
	if h == nil {
		return
	}
	a.unlock(h)
	time.Sleep(5 * latency)
	for _, m := range a.masters {
		_, _ = m.do("SET", name, h.hold.Value, "PX", h.ttl.Milliseconds()) //nolint:errcheck // it is up
	}
	dies := a.clock.Now().Add(h.ttl)
	life, got := a.clients[1].current(), make(chan *redlock.Lock, 1)
	go func() {
		lock, _ := life.locker.Lock(a.base, name, redlock.WithoutRenewal()) //nolint:errcheck // it waits until it has the lock
		got <- lock
	}()
	time.Sleep(upTo(a.rng, h.ttl))
	for _, m := range a.masters {
		if len(m.members("redquorum:wait:"+name)) > 0 {
			_, _ = m.do("PEXPIRE", name, time.Hour.Milliseconds()) //nolint:errcheck // it is up
			defer m.do("DEL", name)                                //nolint:errcheck // as above
		}
	}
	select {
	case lock := <-got:
		life.got.Add(1)
		_ = lock.Unlock(a.base) //nolint:errcheck // the name is not used again
	case <-time.After(dies.Sub(a.clock.Now()) + 8*time.Second): // it still waits, until the history ends
	}
	a.promise("no wait depends on one master", a.clock.Now() < dies.Add(8*time.Second), "%q ended everywhere but at one master, and nobody gets it", name)
}

// tears has a master lose the list of members, and a lock that a bare majority has, but not its
// marker. Once a client has looked at it, it has no vote for what others hold.
func tears(a *actor) {
	a.ready()
	order, name := a.rng.Perm(a.plan.masters), "torn-"+a.fresh()
	torn, other := a.masters[order[0]], a.masters[order[1]]
	heal := other.breaks("mute", 0)
	h := a.lasting(a.clients[0].current(), name)
	heal()
	if h == nil {
		return
	}
	for _, key := range []string{membersKey, name} {
		_, _ = torn.do("DEL", key) //nolint:errcheck // it is up
	}
	torn.breaks("disconnects", 0)()
	time.Sleep(a.plan.maxTTL / 8)
	for h.lock.Err() == nil {
		life := a.newClient(&a.plan.clients[0]).current()
		a.acquireBy(life, a.unrenewed(a.mutex(name, false)))
		time.Sleep(upTo(a.rng, 100*time.Millisecond))
		life.close()
	}
}

// writesLater has a later version of the library mark a master: this one must not act by what it
// does not know.
func writesLater(a *actor) {
	a.ready()
	order := a.rng.Perm(a.plan.masters)
	marked, away := a.masters[order[0]], a.masters[order[1]]
	marker, _, _ := marked.get(memoryKey)
	later := marker + " later=1 needs=2"
	_, _ = marked.do("SET", memoryKey, later) //nolint:errcheck // it is up
	heal := away.breaks("stopped", 0)
	comes := a.newClient(&a.plan.clients[1]).current()
	defer comes.close()
	for _, life := range []*life{a.clients[0].current(), comes} {
		if a.rng.IntN(2) == 0 {
			marked.breaks("disconnects", 0)()
		}
		lock, err := life.locker.TryLock(a.base, a.fresh(), redlock.WithoutRenewal())
		a.promise("a master that a later version marked has no vote", is(err, redlock.ErrNoQuorum), "TryLock: %v, %v", lock, err)
		if err == nil {
			life.got.Add(1)
		}
	}
	heal()
	time.Sleep(upTo(a.rng, 2*a.plan.maxTTL))
	now, _, _ := marked.get(memoryKey)
	a.promise("a master that a later version marked has no vote", now == later, "its marker was %q, and is %q", later, now)
	_, _ = marked.do("SET", memoryKey, strings.TrimSuffix(later, " later=1 needs=2")) //nolint:errcheck // it is up
	time.Sleep(2 * time.Second)
}

// looksFurther has a master marked by those that may not use INFO, and then met by one that may. It
// goes by what they wrote, once what they cannot have seen is over.
func looksFurther(a *actor) {
	a.ready()
	m := a.masters[a.rng.IntN(len(a.masters))]
	may := m.breaks("forbids INFO", 0)
	m.breaks("is flushed", 0)()
	m.breaks("disconnects", 0)()
	a.acquireBy(a.clients[0].current(), a.unrenewed(a.mutex(a.fresh(), false)))
	wait := max(a.plan.maxTTL, 4*time.Second)
	time.Sleep(wait + 3*time.Second)
	memory := func() string { // the name of what it remembers, behind "active"
		marker, _, _ := m.get(memoryKey)
		return strings.Join(strings.Fields(marker + " - -")[:2], " ")
	}
	before := memory()
	may()
	life := a.newClient(&a.plan.clients[0]).current()
	defer life.close()
	_ = life.locker.Ready(a.base) //nolint:errcheck // the others are well
	time.Sleep(wait + upTo(a.rng, 2*time.Second))
	a.promise("who may use INFO counts what others marked", before == memory(), "its marker was %q, and is %q", before, memory())
}

// isUsedAlone has somebody use a master alone that forgot. It comes back to its cluster.
func isUsedAlone(a *actor) {
	a.ready()
	i := a.rng.IntN(len(a.masters))
	p := a.plan.clients[0]
	p.list = []int{i}
	heal := a.masters[i].breaks("restarts empty", 0)
	time.Sleep(upTo(a.rng, time.Second))
	heal()
	alone := a.newClient(&p).current()
	if lock, err := alone.locker.TryLock(a.base, a.fresh(), redlock.WithoutRenewal()); err == nil {
		alone.got.Add(1)
		_ = lock.Unlock(a.base) //nolint:errcheck // the name is not used again
	}
	alone.close()
	a.acquireBy(a.clients[0].current(), a.unrenewed(a.mutex(a.fresh(), false)))
	time.Sleep(4 * max(a.plan.maxTTL, 4*time.Second))
}

// namesItsCluster lists a new master alone, and the cluster that it belongs to: it is none of it.
func namesItsCluster(a *actor) {
	p := a.plan.clients[0]
	p.list = []int{a.plan.masters} // the spare one
	p.opts = append(p.opts[:len(p.opts):len(p.opts)], redlock.WithCluster(a.cluster))
	life := a.newClient(&p).current()
	defer life.close()
	lock, err := life.locker.TryLock(a.base, a.fresh(), redlock.WithoutRenewal())
	a.promise("masters that lost everything are not taken for a new cluster", is(err, redlock.ErrNoQuorum), "TryLock: %v, %v", lock, err)
	time.Sleep(upTo(a.rng, 4*time.Second))
	marker, _, _ := a.masters[a.plan.masters].get(memoryKey)
	a.promise("masters that lost everything are not taken for a new cluster", !strings.Contains(marker, " cluster="), "the master of %v has %q", p.list, marker)
}

// raises has an operator raise MaxTTL, and a member go away when the others accept that. Longer
// locks wait for it.
func raises(a *actor) {
	a.ready()
	time.Sleep(a.plan.maxTTL) // before the first change
	longer, away := 2*a.plan.maxTTL, a.rng.IntN(a.plan.masters)
	var goes sync.Once
	heal := func() {}
	a.run.mu.Lock()
	a.heard = func(i int, key, before, now string) {
		if i != away && key == membersKey && acceptedIn(now) != acceptedIn(before) {
			goes.Do(func() { heal = a.masters[away].breaks("mute", 0) })
		}
	}
	a.run.mu.Unlock()
	p := a.plan.clients[0]
	p.opts = append(p.opts[:len(p.opts):len(p.opts)], redlock.WithMaxTTL(time.Hour))
	before := a.newClient(&p).current()
	_ = before.locker.Ready(a.base) //nolint:errcheck // all are well
	ctx, cancel := context.WithTimeout(a.base, 4*time.Second)
	err := admin.Of(a.clients[1].current().locker).Cluster().SetMaxTTL(ctx, longer)
	cancel()
	for _, life := range []*life{before, a.newClient(&p).current()} {
		lock, failed := life.locker.TryLock(a.base, a.fresh(), redlock.WithTTL(longer), redlock.WithoutRenewal())
		a.promise("a longer MaxTTL is in force when all know it", failed != nil || versionOf(a.masters[away]) > 1, "SetMaxTTL: %v, master %d does not know it, and there is a lock of %v", err, away, longer)
		if failed == nil {
			life.got.Add(1)
			_ = lock.Unlock(a.base) //nolint:errcheck // the name is not used again
		}
		life.close()
	}
	heal()
}

// passesAround has waiters pass the vote around that a holder lacks. It gets it, and needs it when
// another master is away for long.
func passesAround(a *actor) {
	for i := range a.masters { // the waiters may ask any of them
		a.lacks(a.masters[i], a.masters[(i+1)%len(a.masters)])
	}
}

func (a *actor) lacks(lacking, deaf master) {
	order, name, ttl := a.rng.Perm(a.plan.masters), "lacks-"+a.fresh(), a.plan.maxTTL
	p := clientPlan{who: "waiter", list: order, ttl: ttl, drift: true, waits: ttl / 2, opts: []redlock.Option{redlock.WithMaxTTL(ttl), redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl / 2)}}
	var waiters []*life
	for range 4 {
		waiters = append(waiters, a.newClient(&p).current())
		_ = waiters[len(waiters)-1].locker.Ready(a.base) //nolint:errcheck // all masters are well
	}
	renewing := p
	renewing.who, renewing.renewal, renewing.waits, renewing.opts = "holder", true, 0, p.opts[:2]
	holder := a.newClient(&renewing).current()
	defer holder.close()
	a.ready()
	_, _ = lacking.do("SET", name, theirs) //nolint:errcheck // it is up
	q := a.mutex(name, false)
	q.fixed = true
	h := a.acquireBy(holder, q)
	time.Sleep(ttl / 4)
	heal := deaf.breaks("mute replies", 0)
	defer heal()
	_, _ = lacking.do("DEL", name) //nolint:errcheck // it is up
	ctx, cancel := context.WithTimeout(a.base, 2*ttl)
	defer cancel()
	var waiting sync.WaitGroup
	for i, life := range waiters { // the first has the vote for the moment
		ask := life.locker.Lock
		if i == 0 {
			ask = life.locker.TryLock
		}
		waiting.Go(func() {
			defer life.close()
			if lock, err := ask(ctx, name); err == nil { // the holder has lost it
				life.got.Add(1)
				_ = lock.Unlock(a.base) //nolint:errcheck // the name is not used again
			}
		})
		time.Sleep(20 * time.Millisecond)
	}
	waiting.Wait()
	time.Sleep(ttl)
	if h != nil {
		a.promise("a lock that is renewed lasts", h.lock.Err() == nil, "%v: %v", h.hold, h.lock.Err())
		a.unlock(h)
	}
}

// addsAnother has an operator add a master that is a cluster of its own, by a list of one that has
// forgotten what it belongs to. It does not lock by the master that it adds.
func addsAnother(a *actor) {
	a.ready()
	spare, i := a.plan.masters, a.rng.IntN(a.plan.masters)
	p := a.plan.clients[0]
	p.list = []int{spare}
	alone := a.newClient(&p).current()
	_ = alone.locker.Ready(a.base) //nolint:errcheck // it is well
	time.Sleep(2 * time.Second)    // it is a cluster then
	alone.close()
	a.masters[i].breaks("is flushed", 0)()
	a.acquireBy(a.clients[1].current(), a.unrenewed(a.mutex(a.fresh(), false))) // its cluster knows of it
	time.Sleep(20 * latency)
	few := a.plan.clients[0]
	few.list = []int{i}
	operator := a.newClient(&few).current()
	defer operator.close()
	ctx, cancel := context.WithTimeout(a.base, 3*time.Second) // it waits for longer
	defer cancel()
	var adding sync.WaitGroup
	adding.Go(func() {
		err := admin.Of(operator.locker).Cluster().Add(ctx, a.endpoints[spare])
		a.promise("a list without a majority of the members leads to nothing", err != nil && !is(err, redlock.ErrInvalid), "its master waits, and Add: %v", err)
	})
	for ctx.Err() == nil {
		_, err := operator.locker.TryLock(ctx, a.fresh(), redlock.WithoutRenewal())
		a.promise("a list without a majority of the members leads to nothing", err != nil, "its master waits, and it has a lock by the one that it adds")
		time.Sleep(upTo(a.rng, 500*time.Millisecond))
	}
	adding.Wait()
}

// announces has a master announce a reply that is too long. The connection ends then.
func announces(a *actor) {
	a.ready()
	for _, c := range a.clients { // one alone reads its replies itself
		for range 3 {
			if h := a.acquireBy(c.current(), a.unrenewed(a.mutex(a.fresh(), false))); h != nil {
				a.unlock(h)
			}
		}
	}
	for _, m := range a.masters {
		m.breaks("announces a long reply", a.rng.IntN(len(endless)))()
	}
	time.Sleep(100 * time.Millisecond)
	for _, c := range a.clients {
		for _, n := range c.current().locker.Stats().Nodes {
			a.promise("a reply that is too long is not waited for", n.State != pool.Connecting, "%s: %+v", c.plan.who, n)
		}
		lock, err := c.current().locker.TryLock(a.base, a.fresh())
		a.promise("a reply that is too long is not waited for", err == nil, "%s: TryLock: %v", c.plan.who, err)
		if err == nil {
			c.current().got.Add(1)
			_ = lock.Unlock(a.base) //nolint:errcheck // the name is not used again
		}
	}
}

// forbidsItsList has a member forbid to read the list of members. Who lists it beside a master that
// is none has no majority, and does not count by its own list for that.
func forbidsItsList(a *actor) {
	a.ready()
	i, name := a.rng.IntN(a.plan.masters), "list-"+a.fresh()
	may := a.masters[i].breaks("forbids its list", 0)
	p := a.plan.clients[0]
	p.list = []int{i, a.plan.masters} // and the spare one
	other := a.newClient(&p).current()
	defer other.close()
	time.Sleep(2 * max(a.plan.maxTTL, 4*time.Second)) // it remembers from now on
	heal := a.masters[i].breaks("mute", 0)
	h := a.lasting(a.clients[1].current(), name)
	heal()
	for range 3 {
		got := a.acquireBy(other, a.unrenewed(a.mutex(name, false)))
		a.promise("a list without a majority of the members leads to nothing", got == nil, "%v: a list of a member that forbids to read them, and of one that is none, led to a lock", h)
		time.Sleep(upTo(a.rng, 100*time.Millisecond))
	}
	may()
}
