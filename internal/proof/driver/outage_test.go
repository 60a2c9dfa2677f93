package driver_test

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// drawOutage may give the plan faults that belong together, which single ones seldom do, if masters
// may forget. It comes before the clients are drawn, because it may lengthen MaxTTL. What it
// returns puts these faults in the place of single ones.
func (p *plan) drawOutage(rng *rand.Rand, kinds []string) (add func()) {
	if !slices.Contains(kinds, forgetful[0]) || p.masters < 3 || p.unsettled() || rng.IntN(5) > 0 {
		return func() {}
	}
	draw := p.breakInTurn
	if rng.IntN(3) == 0 { // their holders are to be told before the validity ends
		p.maxTTL, draw = max(4*p.maxTTL, 3*toldOfLoss), p.forgetTogether
	} else {
		p.maxTTL *= pick(rng, time.Duration(1), 1, 4)
	}
	return func() {
		p.faults, p.forgets = nil, true
		draw(rng)
	}
}

// breakInTurn has some masters away while a lock is acquired at the others. One of these forgets,
// the others go away, and the first ones are back: those that are left make a majority, and only
// the one that has forgotten could have refused the name.
func (p *plan) breakInTurn(rng *rand.Rand) {
	order, few := rng.Perm(p.masters), (p.masters-1)/2
	at, lasts := upTo(rng, p.maxTTL/2), p.maxTTL/16+upTo(rng, p.maxTTL/4)
	forgets := faultPlan{what: pick(rng, forgetful...), master: order[0], at: at + lasts - 4*latency, lasts: 2 * latency}
	if forgets.what == "restarts from a snapshot" { // of a moment at which the lock may not be there yet
		forgets.at, forgets.lasts = at+upTo(rng, lasts/2), lasts/2
	}
	p.faults = append(p.faults, forgets)
	for i, master := range order[1 : 1+2*few] {
		f := faultPlan{what: pick(rng, "stopped", "killed", "mute"), master: master, at: at, lasts: lasts}
		if i >= few {
			f.at, f.lasts = at+lasts+upTo(rng, p.maxTTL/4), p.maxTTL/2
		}
		p.faults = append(p.faults, f)
	}
	p.length = max(p.length, at+lasts+p.maxTTL)
}

// forgetTogether has a majority of the masters forget at one moment.
func (p *plan) forgetTogether(rng *rand.Rand) {
	p.forgotten = p.maxTTL/8 + upTo(rng, p.maxTTL/4)
	what := pick(rng, "restarts empty", "is flushed")
	for _, master := range rng.Perm(p.masters)[:p.masters/2+1] {
		p.faults = append(p.faults, faultPlan{what: what, master: master, at: p.forgotten, lasts: latency})
	}
	p.length = max(p.length, p.forgotten+2*toldOfLoss)
}

// toldOfLoss is when the holder of a lock that a majority has forgotten must know.
const toldOfLoss = time.Second

// tellsOfLoss looks whether each holder of a lock that a majority has forgotten is told.
func (r *run) tellsOfLoss() {
	left := slices.DeleteFunc(slices.Clone(r.plan.faults), func(f faultPlan) bool { return f.at != r.plan.forgotten })
	if r.plan.forgotten == 0 || len(left) <= r.plan.masters/2 {
		return
	}
	began := r.clock.Now()
	idle, lock := r.idles()
	defer idle.Close() // what it holds is lost
	r.pause(r.plan.forgotten - r.since(began))
	at := r.clock.Now()
	time.Sleep(4 * latency)
	held := r.held()
	time.Sleep(toldOfLoss - 4*latency + r.slack)
	r.promise("the holder of a forgotten lock is told", lock == nil || lock.Err() != nil, "an idle one: a majority forgot its lock at %v", time.Duration(at))
	for _, h := range held {
		h.mu.Lock()
		since := h.hold.From
		h.mu.Unlock()
		if since < at && !h.life.client.plan.blind(r.plan.masters) {
			r.promise("the holder of a forgotten lock is told", h.lock.Err() != nil, "%v: a majority forgot it at %v", h.hold, time.Duration(at))
		}
	}
}

// idles opens a Locker that asks the masters nothing once it has its lock. That is nil if it got
// none.
func (r *run) idles() (*redlock.Locker, *redlock.Lock) {
	locker := r.newClient(&r.plan.clients[0]).current().locker
	if r.plan.clients[0].blind(r.plan.masters) || locker.Ready(r.base) != nil {
		return locker, nil
	}
	lock, err := locker.TryLock(r.base, "idle", redlock.WithTTL(r.plan.maxTTL), redlock.WithoutRenewal())
	if err != nil {
		return locker, nil
	}
	return locker, lock
}
