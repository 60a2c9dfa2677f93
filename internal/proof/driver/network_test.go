package driver_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/redlock"
)

// network is what lies between one client and the masters. What it does not carry to a master is
// refused: what that one has sent before arrives all the same.
type network struct {
	dial connect

	mu   sync.Mutex      // guards the fields below
	off  map[string]bool // the masters to which nothing is carried
	dead bool            // nothing is, to any: the client has died
	lost string          // the master that gets nothing of what is carried to it; empty for none
}

// Dial connects to a master.
func (n *network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if !n.carries(address) {
		return nil, syscall.ECONNREFUSED
	}
	conn, err := n.dial(ctx, network, address)
	return wire{conn, n, address}, err
}

func (n *network) carries(address string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.dead && !n.off[address]
}

// cuts refuses what goes to a master, or no longer does.
func (n *network) cuts(address string, off bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.off[address] = off
}

// loses loses what goes to a master without a word, or nothing more.
func (n *network) loses(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lost = address
}

// dies refuses all that the client sends from now on.
func (n *network) dies() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dead = true
}

// wire is a connection of a network.
type wire struct {
	net.Conn
	of      *network
	address string
}

func (w wire) Write(b []byte) (int, error) {
	if !w.of.carries(w.address) {
		return 0, syscall.ECONNRESET
	}
	w.of.mu.Lock()
	lost := w.of.lost == w.address
	w.of.mu.Unlock()
	if lost {
		return len(b), nil
	}
	return w.Conn.Write(b)
}

// apart opens a client with a network of its own.
func (a *actor) apart(p *clientPlan) (*client, *network) {
	n := &network{dial: a.connect, off: make(map[string]bool)}
	c := a.newClientBehind(p, n)
	_ = c.current().locker.Ready(a.base) //nolint:errcheck // the masters are well
	time.Sleep(10 * latency)
	return c, n
}

// diesHolding has a client die that has a lock, or reads beside others. Others have the name when
// its TTL has passed.
func diesHolding(a *actor) {
	a.ready()
	for range 4 {
		dying, n := a.apart(&a.plan.clients[0])
		name := a.fresh()
		q := pick(a.rng, a.mutex, a.reader, a.reader, a.single)(name, false)
		q.asked.ttl = a.plan.maxTTL/4 + upTo(a.rng, a.plan.maxTTL/4)
		q.asked.opts = append(q.asked.opts, redlock.WithTTL(q.asked.ttl))
		var other *handle // a reader that lives
		if q.shared {
			other = a.acquireBy(a.clients[1].current(), a.long(a.reader(name, false)))
		}
		h := a.acquireBy(dying.current(), a.unrenewed(q))
		n.dies()
		writing := make(chan *handle, 1)
		if other != nil {
			go func() { writing <- a.writes(name) }()
		}
		time.Sleep(q.asked.ttl + 2*latency)
		switch {
		case other != nil:
			before := a.clients[1].current().locker.Stats().HandedOver
			a.unlock(other)
			w := <-writing
			time.Sleep(5 * latency) // it may know before the one that released
			handed := a.clients[1].current().locker.Stats().HandedOver > before
			if w != nil {
				a.promise("a release hands over", handed, "%v: it was the last reader that lives, and %v waited", other.hold, w.hold)
				a.unlock(w)
			}
		case h != nil:
			a.had(q, h)
		}
		dying.current().close()
	}
}

// writes waits for a name.
func (a *actor) writes(name string) *handle {
	life, q, began := a.clients[2].current(), a.unrenewed(a.mutex(name, true)), a.clock.Now()
	ctx, cancel := context.WithTimeout(a.base, 2*a.plan.maxTTL)
	defer cancel()
	lock, err := q.do(ctx, life.locker, q.asked.opts...)
	a.note("a writer", "Lock %s: %v", name, err)
	if err != nil {
		return nil
	}
	life.got.Add(1)
	return a.got(q, lock, began, life.client.plan.ttl, life)
}

// single is a permit of a semaphore that has no other.
func (a *actor) single(name string, waits bool) *request { return a.permitOf(name, 1, waits) }

// had acquires what a lock had that is over.
func (a *actor) had(q *request, h *handle) {
	life := a.clients[2].current()
	do := a.mutex(q.names[0], false).do
	if q.permits > 0 {
		do = q.do
	}
	lock, err := do(a.base, life.locker, redlock.WithoutRenewal())
	a.promise("a lock is free when its TTL has passed", err == nil, "%v was of a client that died %v ago: %v", h.hold, a.since(h.hold.From), err)
	if err == nil {
		life.got.Add(1)
		_ = lock.Unlock(a.base) //nolint:errcheck // the name is not used again
	}
}

// unconfirmed has a client be cut off from a master when that one has given it its vote, and the
// others are yet to be asked. It gives back what it was given there, when it is heard again.
func unconfirmed(a *actor) {
	a.ready()
	for range 10 {
		c, n := a.apart(&a.plan.clients[0])
		pick(a.rng, a.handedOver, a.expired, a.chosen)(c, n)
		c.current().close()
	}
}

// once cuts a client off from the first master, or from one, where one of some keys has another
// value than before, until heal is called.
func (a *actor) once(n *network, one int, keys []string, before string) (heal func()) {
	var mu sync.Mutex
	off := -1
	for i, m := range a.masters {
		m.(*fakeMaster).OnCommand(func(fakeredis.Command) {
			has := slices.ContainsFunc(keys, func(key string) bool {
				value, _, found := m.get(key)
				return found && value != before
			})
			mu.Lock()
			defer mu.Unlock()
			if has && off < 0 && (one < 0 || one == i) {
				off = i
				n.cuts(a.endpoints[i], true)
				a.note("script", "master %d is not reached", i)
			}
		})
	}
	return func() {
		for _, m := range a.masters {
			m.(*fakeMaster).OnCommand(nil)
		}
		mu.Lock() // a command may still be looked at
		defer mu.Unlock()
		if off >= 0 {
			n.cuts(a.endpoints[off], false)
		}
	}
}

// handedOver has a release hand its vote to the client.
func (a *actor) handedOver(c *client, n *network) {
	name, made := a.fresh(), a.mutex
	if a.rng.IntN(2) == 0 {
		made = a.single
	}
	h := a.acquireBy(a.clients[1].current(), a.long(made(name, false)))
	if h == nil {
		return
	}
	heal := a.once(n, -1, []string{name, name + "#1"}, h.hold.Value)
	waits := made(name, true)
	time.AfterFunc(10*latency+upTo(a.rng, 10*latency), func() { _ = h.lock.Unlock(a.base) }) //nolint:errcheck // a majority confirms it
	a.givesBack(c, waits, heal)
}

// expired has the TTL of a client that died pass while this one waits.
func (a *actor) expired(c *client, n *network) {
	name, made := a.fresh(), a.mutex
	if a.rng.IntN(2) == 0 {
		made = a.single
	}
	dying, last := a.apart(&a.plan.clients[1])
	q := made(name, false)
	q.asked.ttl = 100*latency + upTo(a.rng, 100*latency)
	q.asked.opts = append(q.asked.opts, redlock.WithTTL(q.asked.ttl))
	if h := a.acquireBy(dying.current(), a.unrenewed(q)); h != nil {
		last.dies()
		a.givesBack(c, made(name, true), a.once(n, -1, []string{name, name + "#1"}, h.hold.Value))
	}
	dying.current().close()
}

// chosen has masters give the client different names of a choice, of which it asks most for the
// other one then.
func (a *actor) chosen(c *client, n *network) {
	names, order := []string{a.fresh(), a.fresh()}, a.rng.Perm(len(a.masters))
	taken := len(order)/2 + 1
	for i, m := range order[:taken] {
		for _, name := range names[:1+(taken-i)/taken] { // one of them has neither
			_, _ = a.masters[m].do("SET", name, theirs, "PX", a.plan.maxTTL.Milliseconds()) //nolint:errcheck // it is up
		}
	}
	q := a.choice(false)
	q.names = names
	q.do = func(ctx context.Context, l *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error) {
		return l.TryLockAny(ctx, names, opts...)
	}
	a.givesBack(c, q, a.once(n, order[taken+a.rng.IntN(len(order)-taken)], names, theirs))
}

// givesBack acquires, is heard again, and releases: no master keeps anything for it.
func (a *actor) givesBack(c *client, q *request, heal func()) {
	ctx, cancel := context.WithTimeout(a.base, 2*time.Second)
	defer cancel()
	life := c.current()
	lock, err := q.do(ctx, life.locker, redlock.WithTTL(a.plan.maxTTL), redlock.WithoutRenewal())
	a.note("script", "%s %v: %v", q.call, q.names, err)
	if err == nil {
		life.got.Add(1)
		_ = lock.Unlock(a.base) //nolint:errcheck // a majority confirms it
	}
	heal()
	time.Sleep(300 * latency) // a vote that was handed over ends by itself a little later
	for i, m := range a.masters {
		for _, name := range append(q.names, q.names[0]+"#1") {
			value, ttl, _ := m.get(name)
			a.promise("a failed call leaves nothing", value == "" || value == theirs, "%s %v: %v: master %d keeps %q for %v", q.call, q.names, err, i, name, ttl)
		}
	}
}
