package driver_test

import (
	"context"
	"errors"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// tellsOldest compares the age of the oldest lock with those of the locks that a Locker holds.
func (r *run) tellsOldest(l *life, s *redlock.Stats, mine []*handle) {
	if l.client.plan.sleeps {
		return // its clock ran ahead while it slept
	}
	var least, most time.Duration // the round began during the call
	for _, h := range mine {
		least, most = max(least, r.since(h.hold.From)), max(most, r.since(h.hold.Since))
	}
	r.promise("the age of the oldest lock", s.OldestHold >= least-r.slack && s.OldestHold <= most,
		"%s: the oldest of %d locks is %v old, and Stats says %v", l.client.plan.who, len(mine), most, s.OldestHold)
}

// waits has two calls wait for a name that somebody holds, one after the other.
func (r *run) waits() {
	holder, l, name := r.clients[0].current(), r.clients[len(r.clients)-1].current(), r.fresh()
	lock, err := holder.locker.TryLock(r.base, name, redlock.WithTTL(r.plan.maxTTL))
	if err != nil || r.plan.unsettled() || l.client.plan.sleeps {
		return
	}
	holder.got.Add(1)
	ctx, cancel := context.WithCancel(r.base)
	ended := make(chan error, 2)
	began := r.clock.Now()
	for range 2 {
		go func() {
			_, err := l.locker.Lock(ctx, name)
			ended <- err
		}()
		time.Sleep(20 * latency)
	}
	s, waited := l.locker.Stats(), r.since(began)
	cancel()
	gaveUp := errors.Join(<-ended, <-ended)
	r.promise("the age of the oldest wait", !is(gaveUp, redlock.ErrTaken) || lock.Err() != nil || s.OldestWait <= waited && s.OldestWait >= waited-r.slack-latency,
		"%s: %d calls wait, the first for %v, and Stats says %v", l.client.plan.who, s.Waiting, waited, s.OldestWait)
	s = l.locker.Stats()
	r.promise("the age of the oldest wait", s.OldestWait == 0 && s.Waiting == 0, "%s: no call waits, and Stats says %v", l.client.plan.who, s.OldestWait)
	_ = r.releases(lock) //nolint:errcheck // the name is not used again
}

// drops has a Locker note more runs of a name than it may within a second. Those that no master has
// were dropped, and counted.
func (r *run) drops() {
	lives := map[*life]bool{}
	for _, h := range r.handles {
		lives[h.life] = true
	}
	for l := range lives {
		s := l.locker.Stats()
		r.promise("notes are dropped where they are taken", l.client.plan.notes || s.HistoryDropped == 0, "%s takes none, and %d were dropped", l.client.plan.who, s.HistoryDropped)
	}
	if r.plan.forgets || r.plan.unsettled() || r.plan.spoiled() || !r.look {
		return
	}
	name, l, runs := r.fresh(), r.newClient(&r.plan.clients[0]).current(), 0
	for range 12 {
		if lock, err := l.locker.TryLock(r.base, name, redlock.WithHistory()); err == nil && r.releases(lock) == nil {
			l.got.Add(1)
			runs++
		}
	}
	time.Sleep(2 * time.Second)
	entries, err := admin.Of(l.locker).History(r.base, name)
	dropped := l.locker.Stats().HistoryDropped
	r.promise("notes that are dropped are counted", r.busy(err) || err == nil && uint64(max(runs-len(entries), 0)) <= dropped && (dropped == 0 || len(entries) < runs),
		"%d of %d runs have a note, and %d were dropped (%v)", len(entries), runs, dropped, err)
	l.close()
}

// quarantines has a master forget when nothing else happens. Its vote counts again when it said.
func (r *run) quarantines() {
	if r.plan.masters < 3 || r.plan.unsettled() || !r.look || r.plan.rng("quarantine", 0).IntN(4) > 0 {
		return
	}
	l := r.newClient(&r.plan.clients[0]).current()
	defer l.close()
	node := func() redlock.NodeStats {
		if lock, err := l.locker.TryLock(r.base, r.fresh(), redlock.WithoutRenewal()); err == nil { // it looks
			l.got.Add(1)
			_ = lock.Unlock(r.base) //nolint:errcheck // the name is not used again
		}
		time.Sleep(10 * latency)
		return l.locker.Stats().Nodes[0]
	}
	if _ = l.locker.Ready(r.base); node().Barred != nil { //nolint:errcheck // it tells of any master
		return
	}
	r.masters[l.client.plan.list[0]].breaks("is flushed", 0)()
	n := node()
	r.promise("what a master remembers", is(n.Barred, pool.ErrQuarantined) && n.Memory == "lost" && n.QuarantinedFor > 0, "it has forgotten: %+v", n)
	time.Sleep(n.QuarantinedFor - time.Second)
	early := node()
	r.promise("for how long a vote does not count", early.Barred != nil, "it counts a second before %v have passed: %+v", n.QuarantinedFor, early)
	time.Sleep(2 * time.Second)
	n = node()
	r.promise("for how long a vote does not count", n.Barred == nil && n.QuarantinedFor == 0 && n.Memory == "active", "its quarantine is over: %+v", n)
}
