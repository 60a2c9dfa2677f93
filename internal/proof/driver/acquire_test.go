package driver_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// request is a call that acquires a lock.
type request struct {
	call    string
	names   []string
	waits   bool
	any     bool // one of the names
	shared  bool
	permits int
	rounds  int  // for each of which it may take a node timeout
	fixed   bool // no options are drawn
	asked   asked
	do      func(ctx context.Context, l *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error)
}

// asked is what the options of a request say.
type asked struct {
	ttl              time.Duration // 0: the Locker's
	fencing          bool
	unrenewed        bool
	minHold, maxHold time.Duration
	opts             []redlock.LockOption
}

// asks draws options that every kind of lock takes.
func (a *actor) asks(q *request, life *life) {
	if q.fixed {
		return
	}
	o := &q.asked
	if a.rng.IntN(3) == 0 {
		o.ttl = a.plan.maxTTL >> a.rng.IntN(3)
		o.opts = append(o.opts, redlock.WithTTL(o.ttl))
	}
	if o.fencing = a.rng.IntN(2) == 0; o.fencing {
		o.opts = append(o.opts, redlock.WithFencing())
		q.rounds += 3
	}
	if a.rng.IntN(6) == 0 {
		o.maxHold = 10*time.Millisecond + upTo(a.rng, pick(a.rng, 10*time.Millisecond, time.Second))
		o.opts = append(o.opts, redlock.WithMaxHold(o.maxHold))
	}
	if o.unrenewed = a.rng.IntN(6) == 0; o.unrenewed {
		o.opts = append(o.opts, redlock.WithoutRenewal())
	}
	if o.maxHold == 0 && a.rng.IntN(8) == 0 {
		least := a.plan.maxTTL / 8
		if ttl := cmp.Or(o.ttl, life.client.plan.ttl); !q.waits && a.rng.IntN(2) == 0 {
			least = ttl - life.client.plan.allowance(ttl) - time.Millisecond // a round takes about as long
		}
		o.opts = append(o.opts, redlock.WithMinValidity(least))
	}
	if a.rng.IntN(8) == 0 {
		o.opts = append(o.opts, redlock.WithOwner(a.who))
	}
}

// acquire makes the call, and returns what it got; nil after an error.
func (a *actor) acquire(q *request) *handle { return a.acquireBy(a.life(), q) }

func (a *actor) acquireBy(life *life, q *request) *handle {
	a.asks(q, life)
	ctx := a.patience(q.waits)
	defer ctx.cancel()
	began := a.clock.Now()
	a.note(a.who, "%s %v by %s", q.call, q.names, life.client.plan.who)
	a.waitsFor(q, 1)
	a.calls.Add(1)
	lock, err := q.do(ctx, life.locker, q.asked.opts...)
	a.calls.Add(-1)
	a.waitsFor(q, -1)
	a.note(a.who, "%s %v: %v", q.call, q.names, err)
	ttl := cmp.Or(q.asked.ttl, life.client.plan.ttl)
	limit := time.Duration(q.rounds) * life.client.plan.nodeTimeout(ttl)
	if q.waits {
		limit = 0
	}
	a.inTime("acquiring in time", q.call, began, limit, ctx)
	if err != nil {
		a.promise("no lock with an error", lock == nil, "%s: %s returned a lock and %v", a.who, q.call, err)
		a.refused(q, err, ctx, life)
		a.leaves(q, life)
		return nil
	}
	life.got.Add(1)
	return a.got(q, lock, began, ttl, life)
}

// waitsFor counts the calls that wait for names.
func (r *run) waitsFor(q *request, by int) {
	if !q.waits {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range q.names {
		r.waiting[name] += by
		r.waited[name] += max(by, 0)
	}
}

// leaves looks what a call that failed has left where all masters are well: a message later, not a
// key of a name that nobody else uses, nor a place on the list of one for which nobody waits.
func (a *actor) leaves(q *request, life *life) {
	if !a.world.look || !a.plan.calm() || life.closed.Load() {
		return
	}
	for _, name := range q.names {
		if !strings.HasPrefix(name, "once") {
			continue
		}
		time.Sleep(5 * latency)
		if a.mayHave(name) {
			continue
		}
		for i, m := range a.masters {
			value, ttl, found := m.get(name)
			a.promise("a failed call leaves nothing", !found || value == theirs, "%s: %s failed, and master %d has %q = %q for %v", a.who, q.call, i, name, value, ttl)
		}
	}
	if q.waits {
		a.leavesPlace(q)
	}
}

// mayHave reports whether a reader has a name, or had it until UnlockAll, which is under way.
func (r *run) mayHave(name string) bool {
	r.mu.Lock()
	handles := slices.Clone(r.handles)
	r.mu.Unlock()
	return slices.ContainsFunc(handles, func(h *handle) bool {
		h.mu.Lock()
		to := h.hold.To
		h.mu.Unlock()
		ended := h.lock.Err() != nil
		return slices.Contains(h.hold.Names, name) && (!ended || h.life.unlocked.Load() && r.since(to) < 5*latency)
	})
}

// leavesPlace looks whether a call that gave up is still on the list of a name for which nobody
// waits. It leaves at once, and not when the holder releases the lock.
func (a *actor) leavesPlace(q *request) {
	name := q.names[a.rng.IntN(len(q.names))]
	alone := func() (waited int, alone bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.waited[name], a.waiting[name] == 0
	}
	isFree := func() bool {
		return !slices.ContainsFunc(a.held(), func(h *handle) bool { return slices.Contains(h.hold.Names, name) })
	}
	before, nobody := alone()
	if !nobody {
		return
	}
	free := isFree() // for long enough that a release has arrived, with which a set lets readers in
	time.Sleep(5 * latency)
	if now, nobody := alone(); !nobody || now > before {
		return
	}
	free = free && isFree()
	for i, m := range a.masters {
		_, ttl, kept := m.get("redquorum:intent:" + name)
		a.promise("who gives up lets readers in", !kept || !free, "master %d keeps readers out of %q for %v, and nobody waits", i, name, ttl)
		for _, key := range m.keys() {
			if strings.HasSuffix(key, "wait:"+name) {
				a.places(i, key, m.members(key))
			}
		}
	}
	a.reachIf("a waiter that gave up", true)
}

// refused judges the error of an acquisition.
func (a *actor) refused(q *request, err error, ctx *limited, life *life) {
	a.sound(q.call, err, ctx, life)
	var votes *redlock.QuorumError
	decided := is(err, redlock.ErrTaken, redlock.ErrNoQuorum, redlock.ErrNoValidity)
	a.promise("errors of acquiring", decided || is(err, redlock.ErrClosed, redlock.ErrInvalid) || ctx.Err() != nil && is(err, ctx.Err()),
		"%s: %s: %v", a.who, q.call, err)
	a.promise("ErrInvalid", !is(err, redlock.ErrInvalid) || a.plan.lists, "%s: %s %v: %v, and all was valid", a.who, q.call, q.names, err)
	if decided {
		a.promise("a QuorumError", errors.As(err, &votes) && votes.Op == "acquire", "%s: %s: %v is no QuorumError of acquire", a.who, q.call, err)
	}
	if q.waits {
		a.promise("waiting until ctx ends", ctx.over(a.clock.Now()) && is(err, ctx.Err()) || life.closed.Load() || a.strange(err), "%s: %s ended early: %v", a.who, q.call, err)
	}
	a.reachIf("a wait that Close ended", q.waits && is(err, redlock.ErrClosed))
	a.reachIf("a minimum hold that refused", is(err, redlock.ErrTaken) && strings.HasPrefix(q.names[0], "kept"))
	a.reachIf("no permit", is(err, redlock.ErrTaken) && q.permits > 0)
	a.reachIf("a master in quarantine", is(err, pool.ErrQuarantined))
	a.reachIf("a call that found no quorum", is(err, redlock.ErrNoQuorum))
	a.reachIf("a grant without enough validity", is(err, redlock.ErrNoValidity))
	a.reachIf("a call with an ended context", ctx.Err() != nil && !q.waits)
	if is(err, redlock.ErrTaken) {
		// Where a name was released just before, the rest of the votes may have been cut off.
		fresh := len(q.names) == 1 && (q.waits || ctx.Err() == nil) && strings.HasPrefix(q.names[0], "once") && !(a.plan.keepsReleases() && (q.waits || q.rounds > 1)) &&
			!(a.plan.spoiled() && q.asked.fencing) // a counter that others overwrite does not follow the others
		a.promise("ErrTaken means that somebody has it", !fresh, "%s: %s %v: %v, and nobody ever used the name", a.who, q.call, q.names, err)
	}
	a.refusedFresh(q, err, ctx, life)
	if !q.waits && !q.any && q.permits == 0 && !q.asked.fencing {
		a.decided(q.call, err, ctx, life, false)
	}
}

// refusedFresh judges the error of a call for names that nobody ever used. A Locker that got no
// lock yet may still be finding its cluster, which takes longer beside a fault (Locker.Ready).
func (a *actor) refusedFresh(q *request, err error, ctx *limited, life *life) {
	if life.got.Load() == 0 && len(a.plan.faults) > 0 {
		return
	}
	used := slices.ContainsFunc(q.names, func(name string) bool { return !strings.HasPrefix(name, "once") })
	if !used && ctx.Err() == nil && !life.closed.Load() {
		a.promise("a free name is had at once", !a.plan.steady() || !a.look || is(err, redlock.ErrNoValidity) || q.asked.fencing && (a.plan.spoiled() || a.plan.wrong >= 0),
			"%s: %s %v by %s: %v, and nobody ever used it", a.who, q.call, q.names, life.client.plan.who, err)
	}
}

// got judges a lock as it is when it is acquired, and has it watched from now on.
func (a *actor) got(q *request, lock *redlock.Lock, began clock.Instant, ttl time.Duration, life *life) *handle {
	left := lock.Remaining()
	h := &handle{run: a.run, lock: lock, request: q, life: life, ttl: ttl, hold: &history.Hold{
		Who: a.who + " by " + life.client.plan.who, How: q.call, Names: lock.Names(), Value: lock.Value(), Token: a.ordered(lock.Fence()), Shared: q.shared,
		Permits: q.permits, Since: began, From: a.clock.Now(), To: history.Held, Late: left <= 0,
	}}
	if q.asked.minHold > 0 && !life.client.plan.sleeps { // whose clock runs ahead of the masters'
		h.hold.Kept = began.Add(q.asked.minHold)
	}
	a.promise("the names of a lock", h.named(), "%s: %s %v: %v, first %q", a.who, q.call, q.names, lock.Names(), lock.Name())
	a.promise("Fence with fencing only", (lock.Fence() != 0) == q.asked.fencing && lock.Fence() < 1<<53, "%s: %s: token %d", a.who, q.call, lock.Fence())
	a.promise("validity below the TTL", left <= ttl-life.client.plan.allowance(ttl), "%s: %s: %v left of a TTL of %v", a.who, q.call, left, ttl)
	a.promise("the validity that the TTL gives", left >= h.least(ttl, a.since(began)) || lock.Err() != nil || life.client.plan.sleeps || !a.look, "%s: %s: %v left of a TTL of %v", a.who, q.call, left, ttl)
	if off := a.offTime(lock.Fence()); a.plan.masters > 2 && q.asked.fencing && !a.plan.tokensByClocks() {
		// A counter that others overwrote begins a minute ahead.
		a.promise("tokens are near the time", off < 90*time.Second, "%s: %s: token %d is off by %v", a.who, q.call, lock.Fence(), off)
	}
	if q.asked.maxHold > 0 {
		a.promise("the longest hold", left <= q.asked.maxHold, "%s: %s: %v left, it may be held for %v", a.who, q.call, left, q.asked.maxHold)
	}
	waited := a.since(began) > 10*time.Millisecond
	a.reachIf("a set that waited", q.call == "LockAll" && len(q.names) > 1 && waited)
	a.reachIf("a choice that waited", q.call == "LockAny" && len(q.names) > 1 && waited)
	a.reachIf("a permit that was waited for", q.permits > 0 && waited)
	a.reachIf("a reader that waited", q.shared && waited)
	a.reachIf("a lock beside a broken master", a.open.Load() > 0)
	a.reachIf("readers together", q.shared && slices.ContainsFunc(a.held(), func(other *handle) bool {
		return other.request.shared && other.hold.Names[0] == h.hold.Names[0]
	}))
	a.mu.Lock()
	if !h.wild() {
		a.holds = append(a.holds, h.hold)
	}
	a.handles = append(a.handles, h)
	a.mu.Unlock()
	a.watchers.Go(h.watch)
	a.strays(h)
	return h
}

// offTime returns how far a token is off the time.
func (r *run) offTime(token int64) time.Duration {
	return time.UnixMicro(token).Sub(r.clock.Wall()).Abs()
}

// strays looks whether a lock of one of several names has left something at the others.
func (a *actor) strays(h *handle) {
	if !h.request.any || !a.look || !a.plan.calm() || a.rng.IntN(2) == 0 {
		return
	}
	time.Sleep(5 * latency)
	for _, name := range h.request.names {
		for i, m := range a.masters {
			value, _, _ := m.get(name)
			a.promise("a choice takes one name", name == h.lock.Name() || value != h.hold.Value, "%v: master %d has %q for it, too", h.hold, i, name)
		}
	}
}

// named reports whether a lock has the names that it was asked for.
func (h *handle) named() bool {
	names, q := h.lock.Names(), h.request
	switch {
	case len(names) == 0 || names[0] != h.lock.Name():
		return false
	case q.permits > 0:
		var slot int
		_, err := fmt.Sscanf(strings.TrimPrefix(names[0], q.names[0]), "#%d", &slot)
		return err == nil && slot >= 1 && slot <= q.permits && len(names) == 1
	case q.any:
		return len(names) == 1 && slices.Contains(q.names, names[0])
	default:
		return fmt.Sprint(names) == fmt.Sprint(q.names)
	}
}

// The calls that acquire.
var acquisitions = []*act{
	{"TryLock", 6, func(a *actor) { a.use(a.acquire(a.mutex(a.name(), false))) }},
	{"Lock", 10, func(a *actor) { a.use(a.acquire(a.mutex(a.name(), true))) }},
	{"TryLockAll", 2, func(a *actor) { a.use(a.acquire(a.set(false))) }},
	{"LockAll", 2, func(a *actor) { a.use(a.acquire(a.set(true))) }},
	{"TryLockAny", 2, func(a *actor) { a.use(a.acquire(a.choice(false))) }},
	{"LockAny", 2, func(a *actor) { a.use(a.acquire(a.choice(true))) }},
	{"TryRLock", 3, func(a *actor) { a.use(a.acquire(a.reader(a.name(), false))) }},
	{"RLock", 3, func(a *actor) { a.use(a.acquire(a.reader(a.name(), true))) }},
	{"TryAcquire", 2, func(a *actor) { a.use(a.acquire(a.permit(1+a.rng.IntN(3), false))) }},
	{"Acquire", 2, func(a *actor) { a.use(a.acquire(a.permit(1+a.rng.IntN(3), true))) }},
	{"minimum hold", 2, func(a *actor) { a.use(a.acquire(a.kept())) }},
	{"wild", 3, func(a *actor) { a.use(a.acquire(a.mutex(a.wild(), a.rng.IntN(2) == 0))) }},
	{"Do", 2, does},
}

func (a *actor) mutex(name string, waits bool) *request {
	q := &request{call: "TryLock", names: []string{name}, rounds: 1, waits: waits}
	q.do = func(ctx context.Context, l *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error) {
		if waits {
			return l.Lock(ctx, name, opts...)
		}
		return l.TryLock(ctx, name, opts...)
	}
	if waits {
		q.call = "Lock"
	}
	return q
}

// kept is a lock with a minimum hold.
func (a *actor) kept() *request {
	q := a.mutex(fmt.Sprint("kept", a.rng.IntN(2)), a.rng.IntN(2) == 0)
	q.asked.minHold = 10*time.Millisecond + upTo(a.rng, a.plan.maxTTL/2)
	q.asked.opts = append(q.asked.opts, redlock.WithMinHold(q.asked.minHold))
	return q
}

func (a *actor) set(waits bool) *request {
	names := a.some()
	if waits {
		return &request{call: "LockAll", names: names, waits: true, do: func(ctx context.Context, l *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error) {
			given := slices.Clone(names)
			defer clear(given) // it is the caller's again
			return l.LockAll(ctx, given, opts...)
		}}
	}
	return &request{call: "TryLockAll", names: names, rounds: 1, do: func(ctx context.Context, l *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error) {
		given := slices.Clone(names)
		defer clear(given) // it is the caller's again
		return l.TryLockAll(ctx, given, opts...)
	}}
}

func (a *actor) choice(waits bool) *request {
	names := a.some()
	if waits {
		return &request{call: "LockAny", names: names, any: true, waits: true, do: func(ctx context.Context, l *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error) {
			given := slices.Clone(names)
			defer clear(given) // it is the caller's again
			return l.LockAny(ctx, given, opts...)
		}}
	}
	return &request{call: "TryLockAny", names: names, any: true, rounds: 2, do: func(ctx context.Context, l *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error) {
		given := slices.Clone(names)
		defer clear(given) // it is the caller's again
		return l.TryLockAny(ctx, given, opts...)
	}}
}

func (a *actor) reader(name string, waits bool) *request {
	if waits {
		return &request{call: "RLock", names: []string{name}, shared: true, waits: true, do: func(ctx context.Context, l *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error) {
			return l.RLock(ctx, name, opts...)
		}}
	}
	return &request{call: "TryRLock", names: []string{name}, shared: true, rounds: 1, do: func(ctx context.Context, l *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error) {
		return l.TryRLock(ctx, name, opts...)
	}}
}

func (a *actor) permit(permits int, waits bool) *request {
	return a.permitOf(fmt.Sprint("sem", permits), permits, waits)
}

func (a *actor) permitOf(name string, permits int, waits bool) *request {
	q := &request{call: "TryAcquire", names: []string{name}, permits: permits, waits: waits, rounds: 2}
	q.do = func(ctx context.Context, l *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error) {
		s, err := l.Semaphore(name, permits)
		if err != nil {
			return nil, err
		}
		if waits {
			return s.Acquire(ctx, opts...)
		}
		return s.TryAcquire(ctx, opts...)
	}
	if waits {
		q.call = "Acquire"
	}
	return q
}
