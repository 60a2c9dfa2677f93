package driver_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/redlock"
)

// found makes the masters a cluster, or two.
func (r *run) found() bool {
	switch all := r.endpoints[:r.plan.masters]; {
	case r.plan.rival:
		return r.foundOf(all[:first]) && (r.plan.late || r.foundOf(all[first:]))
	case r.plan.lists: // the clients do
		return true
	default:
		return r.foundOf(all)
	}
}

func (r *run) foundOf(endpoints []string) bool {
	l, err := redlock.New(endpoints, slices.Concat(r.options, []redlock.Option{redlock.WithMaxTTL(r.plan.maxTTL), redlock.WithTTL(r.plan.maxTTL)})...)
	if err != nil {
		r.fail("New: %v", err)
		return false
	}
	ctx, cancel := context.WithTimeout(r.base, hangs)
	defer cancel()
	err = l.Ready(ctx)
	for err == nil {
		m, failed := admin.Of(l).Cluster().Members(ctx)
		if err = failed; err == nil || !errors.Is(err, redlock.ErrNoQuorum) || ctx.Err() != nil {
			r.cluster = m.Cluster
			r.promise("a new cluster has its masters", err == nil && len(m.Members) == len(endpoints), "%+v: %v", m, err)
			break
		}
		err = nil
		time.Sleep(time.Millisecond)
	}
	closed := l.Close()
	r.promise("Ready once a quorum answers", err == nil && closed == nil, "a new cluster: %v, Close: %v", err, closed)
	return err == nil
}

// quiet looks at masters and Lockers when nothing is under way: the masters have what is held, and
// nothing else.
func (r *run) quiet() {
	time.Sleep(r.plan.quarantines()*max(r.plan.maxTTL, 4*time.Second) + 3100*time.Millisecond) // a quarantine, and what clients of closed Lockers left has ended, and intents
	if r.plan.unsettled() {
		r.learns()
	}
	held := r.held()
	for _, c := range r.clients {
		l := c.current()
		s := l.locker.Stats()
		mine := slices.DeleteFunc(slices.Clone(held), func(h *handle) bool { return h.life != l })
		r.promise("Stats.Held and Stats.Waiting", s.Held == len(mine) && s.Waiting == 0, "%s holds %d, and Stats says %d and %d waiting", c.plan.who, len(mine), s.Held, s.Waiting)
		r.tellsOldest(l, &s, mine)
		up := 0
		for _, n := range s.Nodes {
			if n.Barred == nil {
				up++
				r.promise("for how long a vote does not count", n.QuarantinedFor == 0, "%s: it counts, and %+v", c.plan.who, n)
			}
		}
		r.promise("masters that are well vote again", up == len(s.Nodes) || r.plan.forgets && r.plan.partial() || r.plan.unsettled(), "%s: %+v", c.plan.who, s.Nodes)
	}
	r.masterKeys(held)
	r.noted()
	r.refuses()
	if !r.stuck() {
		r.tells(held)
		r.overlooks(held)
		r.free(held)
		r.renumbers(held)
		r.releasesAgain()
		r.waits()
		r.changeable()
	}
	if r.plan.lists {
		r.lookAtLists()
	}
}

// learns lets each Locker ask once: one that was idle learns of changes of members only then, and
// that call may fail.
func (r *run) learns() {
	for _, c := range r.clients {
		if lock, err := c.current().locker.TryLock(r.base, r.fresh()); err == nil {
			_ = lock.Unlock(r.base) //nolint:errcheck // it is what matters that it asked
			c.current().got.Add(1)
		}
	}
	time.Sleep(time.Second)
}

// stuck reports whether no version of the members is told to a majority of its own, after a removal
// that two faults have cut (cutsChanges), or that all members forgot: then nothing that needs votes
// works until an operator ends it (docs/operations.md).
func (r *run) stuck() bool {
	var all []int
	for i := range r.masters {
		all = append(all, i)
	}
	counting, _ := r.leadingOf(all)
	return (r.plan.cutsChanges() || r.plan.changes && r.outlasted()) && len(counting) == 0
}

// outlasted reports whether only removed masters remember a list of members. No client whose list
// has one of them gets anything then (docs/operations.md#restarts).
func (r *run) outlasted() (removed bool) {
	for _, m := range r.masters {
		t := toldBy(m)
		if t != nil && slices.Contains(t.members, memberOf(m)) {
			return false
		}
		removed = removed || t != nil
	}
	return removed
}

// outlived reports whether a call failed because its list has a master that was removed from a
// cluster, of which all members then forgot and became a new one. The removed master remembers the
// old one, and such a list gets nothing (docs/operations.md#restarts).
func (r *run) outlived(err error) bool {
	return r.plan.changes && is(err, redlock.ErrInvalid) && slices.ContainsFunc(r.masters, func(m master) bool {
		marker, _, _ := m.get("redquorum:memory")
		return strings.Contains(marker, " cluster=") && !strings.Contains(marker, " cluster="+r.cluster+" ")
	})
}

// held returns the locks that are held.
func (r *run) held() []*handle {
	r.mu.Lock()
	handles := slices.Clone(r.handles)
	r.mu.Unlock()
	return slices.DeleteFunc(handles, func(h *handle) bool { return h.lock.Err() != nil })
}

// lasting are the beginnings of keys that outlive locks.
var lasting = []string{"redquorum:fence:", "redquorum:permits:", "redquorum:memory", "redquorum:members", "redquorum:log", "redquorum:terms:", "redquorum:waits:", "redquorum:others:"}

func lasts(key string) bool {
	return slices.ContainsFunc(lasting, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// shared stands for the value of a key that readers hold.
const shared = "readers"

// masterKeys looks for keys that nobody needs.
func (r *run) masterKeys(held []*handle) {
	values := make(map[string]string)
	for _, h := range held {
		for _, name := range h.hold.Names {
			if values[name] = h.hold.Value; h.hold.Shared {
				values[name], values["redquorum:readers:"+name] = shared, shared
			}
		}
	}
	for i, m := range r.masters {
		for _, key := range m.keys() {
			if lasts(key) || r.plan.spoiled() && spoilt(key) {
				continue
			}
			if strings.Contains(key, "wait:") {
				r.places(i, key, m.members(key))
				continue
			}
			value, ttl, found := m.get(key)
			if !found && !r.look { // it ended since, on a busy machine
				continue
			}
			r.promise("nothing is left behind", values[key] != "" && (values[key] == value || values[key] == shared),
				"master %d has %q = %q for %v, and %q holds it", i, key, value, ttl, values[key])
		}
	}
}

// places looks for places of calls that do not wait. Where messages are lost, or a master is
// removed, the one that gives up a place may be, too; then the list ends by itself. So it does
// where a call got its lock while one master still refused it, because another library's client had
// it.
func (r *run) places(master int, list string, all []string) {
	for i := 0; i < len(all); i += 2 {
		turn := all[i] == "others" || all[i] == "anyone" // of other libraries
		r.promise("only waiters are on a list", turn || !r.plan.calm() || r.plan.has(foreigners), "master %d: %s has %q", master, list, all)
	}
}

// tells asks each Locker who holds what.
func (r *run) tells(held []*handle) {
	for i, h := range held {
		l := r.clients[i%len(r.clients)].current()
		for _, name := range h.hold.Names {
			status, err := admin.Of(l.locker).Inspect(r.base, name)
			for began := r.clock.Now(); r.busy(err) && r.since(began) < hangs; {
				status, err = admin.Of(l.locker).Inspect(r.base, name)
			}
			told := err == nil && !status.Free && (h.hold.Shared || status.Value == h.hold.Value)
			if h.lock.Err() != nil {
				continue
			}
			r.promise("Inspect tells the holder", told || r.plan.forgets || r.plan.lists || l.client.plan.blind(r.plan.masters), "%v: Inspect by %s: %+v, %v", h.hold, l.client.plan.who, status, err)
			r.promise("Inspect tells the owner", !told || h.hold.Shared || strings.Contains(h.hold.Who, status.Owner) && status.Owner != "", "%v: Inspect: owner %q", h.hold, status.Owner)
			waited := len(h.request.names) == 1 && h.life.hasWaited(h.lock) // of several names, some attempts do not
			r.promise("Inspect tells that a lock was waited for", !told || h.hold.Shared || status.Since.Waited || !waited, "%v: Inspect: %+v", h.hold, status.Since)
			for _, n := range status.Nodes {
				r.promise("Inspect tells who waits", n.Waiting == 0 && len(n.Waiters) == 0 || !r.plan.calm() || r.plan.has(foreigners),
					"%s: %d wait at %s for %q, and nobody does", l.client.plan.who, n.Waiting, n.Endpoint, name)
			}
		}
	}
}

// busy reports whether an error may be one of a busy machine, on which masters are late in calm
// times. In virtual time, none is.
func (r *run) busy(err error) bool {
	return !r.look && is(err, redlock.ErrNoQuorum, redlock.ErrNoValidity)
}

// releases unlocks a lock, again if the machine is busy.
func (r *run) releases(lock *redlock.Lock) error {
	began, err := r.clock.Now(), lock.Unlock(r.base)
	for r.busy(err) && r.since(began) < hangs {
		err = lock.Unlock(r.base)
	}
	return err
}

// free locks names: those that nobody holds, at once, and none of those that are held.
func (r *run) free(held []*handle) {
	if r.plan.lists {
		return // what a client with another list cannot have
	}
	for i, name := range []string{"hot", "warm0", "warm1", "cold1", "never"} {
		l := r.clients[i%len(r.clients)].current()
		holder := slices.IndexFunc(held, func(h *handle) bool { return slices.Contains(h.hold.Names, name) && h.lock.Err() == nil })
		try, reads := l.locker.TryLock, i%2 == 1 && holder < 0
		if reads {
			try = l.locker.TryRLock
		}
		began := r.clock.Now()
		lock, err := try(r.base, name)
		for r.busy(err) && r.since(began) < hangs {
			lock, err = try(r.base, name)
		}
		switch {
		case holder < 0:
			r.promise("a free name is had at once", err == nil || r.plan.forgets || r.outlived(err), "%q is free, TryLock by %s: %v", name, l.client.plan.who, err)
		case held[holder].lock.Err() == nil:
			r.promise("ErrTaken", is(err, redlock.ErrTaken), "%q is held by %v, TryLock by %s: %v", name, held[holder].hold, l.client.plan.who, err)
		}
		if err != nil {
			continue
		}
		l.got.Add(1)
		h := &history.Hold{Who: "quiet", Names: lock.Names(), Value: lock.Value(), Shared: reads, Since: began, From: r.clock.Now(), To: history.Held}
		r.mu.Lock()
		r.holds = append(r.holds, h)
		r.mu.Unlock()
		h.To = r.clock.Now()
		released := r.releases(lock)
		r.promise("Unlock in calm times", released == nil || r.plan.forgets, "%q: %v", name, released)
	}
}

// renumbers acquires a permit, and then one of the same semaphore by another number, which the
// masters refuse just as long as the first is held.
func (r *run) renumbers(held []*handle) {
	const name = "sem1"
	if r.plan.forgets || r.plan.lists || slices.ContainsFunc(held, func(h *handle) bool { return h.request.permits == 1 }) {
		return
	}
	take := func(permits int) (*redlock.Lock, error) {
		l := r.clients[permits%len(r.clients)].current()
		s, err := l.locker.Semaphore(name, permits)
		r.promise("Semaphore takes what is valid", err == nil, "Semaphore: %v", err)
		lock, err := s.TryAcquire(r.base, redlock.WithoutRenewal())
		if err == nil {
			l.got.Add(1)
		}
		return lock, err
	}
	for _, permits := range []int{2, 3} {
		lock, err := take(permits)
		if r.busy(err) {
			return
		}
		r.promise("the number of permits changes while nobody holds one", err == nil, "TryAcquire of %d: %v", permits, err)
		if err != nil {
			return
		}
		other, err := take(permits + 2)
		// A client that does not discover may ask only one of the two masters that have the number.
		unsure := r.clients[(permits+2)%len(r.clients)].plan.blind(r.plan.masters) && is(err, redlock.ErrTaken)
		r.promise("another number of permits is refused", is(err, redlock.ErrInvalid) || unsure || lock.Err() != nil || r.busy(err), "TryAcquire of %d beside %d: %v", permits+2, permits, err)
		time.Sleep(lock.Remaining() * 3 / 4)
		late, err := take(permits + 2)
		r.promise("another number of permits is refused", err != nil || lock.Err() != nil, "TryAcquire of %d beside %d, when most of its TTL is over: %v", permits+2, permits, err)
		lost := false
		for _, l := range []*redlock.Lock{lock, other, late} {
			if l != nil { // the others may have come when the first was over
				lost = r.releases(l) != nil || lost
			}
		}
		if lost && !r.look { // on a busy machine: the number outlives a permit that nobody gives back
			return
		}
		time.Sleep(5 * latency)
		for i, m := range r.masters {
			_, _, kept := m.get("redquorum:permits:" + name)
			for began := r.clock.Now(); kept && !r.look && r.since(began) < r.slack; time.Sleep(latency) {
				_, _, kept = m.get("redquorum:permits:" + name)
			}
			r.promise("the number of permits goes with the last", !kept || r.plan.spoiled(), "master %d keeps the number of %q", i, name)
		}
	}
}

// releasesAgain releases again what too few masters had confirmed.
func (r *run) releasesAgain() {
	for _, h := range r.handles {
		h.mu.Lock()
		unconfirmed := h.unconfirmed
		h.mu.Unlock()
		if !unconfirmed || h.life.closed.Load() || r.plan.unsettled() {
			continue
		}
		err := r.releases(h.lock)
		unknown := r.plan.forgets && len(h.life.client.plan.list) < r.plan.masters && is(err, redlock.ErrNoQuorum) || // its masters forgot, and it knows no other
			r.plan.forgets && r.plan.partial() && is(err, redlock.ErrOtherCluster) // they are of one that a shorter list made
		r.promise("Unlock again asks anew", err == nil || h.wild() && is(err, redlock.ErrLost) || unknown, "%v: its release was not confirmed, and again: %v", h.hold, err)
	}
}

// end ends what is left: by Unlock, UnlockAll and Close. Then nothing is left.
func (r *run) end() {
	for i, h := range r.held() {
		if i%3 == 0 {
			h.over()
			released := r.releases(h.lock)
			r.promise("Unlock in calm times", released == nil || h.wild() || r.plan.forgets || is(h.lock.Err(), redlock.ErrLost), "%v: %v", h.hold, released)
		}
	}
	for i, c := range r.clients {
		if i == 0 {
			released := c.current().locker.UnlockAll(r.base)
			r.promise("UnlockAll in calm times", released == nil || r.busy(released) || r.plan.forgets || is(released, redlock.ErrLost), "%v", released)
		}
		c.current().close()
	}
	r.watchers.Wait()
	r.drops()
	r.quarantines()
	for _, node := range r.nodes {
		r.ends(node)
	}
	settled := make([]int, len(r.masters))
	for i, m := range r.masters {
		settled[i] = m.connections()
	}
	r.promise("Close ends all connections", slices.Max(settled) == 0 || !r.look, "connections left: %v", settled)
	time.Sleep(2*r.plan.maxTTL + time.Second)
	r.masterKeys(nil)
	for _, h := range r.handles {
		r.promise("the state of a lock at the end", h.lock.Err() != nil && h.hold.To != history.Held, "%v", h.hold)
	}
}
