package driver_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/redlock"
)

// handle is a lock that a call returned, which any actor may use from then on, also when it ended.
type handle struct {
	*run
	lock    *redlock.Lock
	request *request
	life    *life
	ttl     time.Duration

	extends  atomic.Int32 // calls of Extend under way
	extended atomic.Int32 // calls of Extend
	taken    atomic.Bool  // somebody has begun to take it from its holder

	mu       sync.Mutex // guards the fields below
	hold     *history.Hold
	released bool // Unlock was called

	unconfirmed bool // it returned ErrNoQuorum
	settled     bool // it returned something else,
	told        error
}

// wild reports whether others may take the lock from its holder at any time.
func (h *handle) wild() bool { return strings.HasPrefix(h.request.names[0], "wild") }

// renewed reports whether the lock is renewed until it is released.
func (h *handle) renewed() bool {
	asked := &h.request.asked
	return h.life.client.plan.renewal && !asked.unrenewed && asked.maxHold == 0
}

// least returns how much validity is left at least, so long after a call that gave the lock its
// TTL: nodes count whole milliseconds.
func (h *handle) least(ttl, took time.Duration) time.Duration {
	left := ttl - h.life.client.plan.allowance(ttl) - time.Millisecond - took
	if longest := h.request.asked.maxHold; longest > 0 {
		left = min(left, longest-h.since(h.hold.Since))
	}
	return left
}

// watch looks at the lock until it has ended: Done is closed just when the validity ends. Until
// then it asks nothing of the lock, because each call reads the clock, and ends what is over: Done
// must be closed in time although nobody looks.
func (h *handle) watch() {
	context, cause := h.lock.Context(context.Background()), error(nil)
	done := h.lock.Done()
	for left := h.lock.Remaining(); left > 0; {
		select {
		case <-done:
		case <-time.After(left + h.slack):
		}
		told := closed(done)
		left = h.lock.Remaining() // more, if the lock was extended meanwhile
		h.promise("Done in time", !told || left <= 0, "%v: Done is closed, and %v are left", h.hold, left)
		intime := told || left > -h.slack || !h.look || h.life.client.plan.sleeps
		h.promise("Done in time", intime, "%v: Done is not closed %v after the validity has ended", h.hold, -left)
	}
	h.over()
	<-done
	err := h.lock.Err()
	h.promise("the error of a lock that ended", is(err, redlock.ErrLost, redlock.ErrReleased), "%v ended: %v", h.hold, err)
	select {
	case <-context.Done():
		cause = contextCause(context)
	case <-time.After(h.slack):
	}
	h.promise("the context of a lock", is(cause, redlock.ErrLost, redlock.ErrReleased), "%v ended (%v), and its context: %v", h.hold, err, cause)
	h.reachIf("a lock whose validity ended", is(err, redlock.ErrLost) && h.open.Load() > 0)
	if h.plan.steady() && h.look && h.renewed() && !h.wild() && !h.life.closed.Load() {
		h.promise("a lock that is renewed lasts", !is(err, redlock.ErrLost), "%v: %v", h.hold, err)
	}
	h.reachIf("a lock that was granted too late to be used", h.hold.Late)
	if q := h.request.asked; q.maxHold > 0 {
		h.reachIf("a longest hold that ended a lock", is(err, redlock.ErrLost))
		held := h.since(h.hold.From)
		h.promise("the longest hold", held <= q.maxHold+h.slack, "%v was held for %v of %v", h.hold, held, q.maxHold)
	}
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func contextCause(ctx context.Context) error { return context.Cause(ctx) }

// over ends the hold: now, or when the validity ended if that was earlier.
func (h *handle) over() {
	at := h.clock.Now().Add(min(h.lock.Remaining(), 0))
	h.mu.Lock()
	defer h.mu.Unlock()
	at = max(at, h.hold.From)
	if h.hold.To == history.Held || at < h.hold.To {
		h.hold.To = at
	}
}

// use uses a lock for a while, or leaves it to others.
func (a *actor) use(h *handle) {
	if h == nil || a.rng.IntN(8) == 0 {
		return
	}
	for range a.rng.IntN(3) {
		a.any(h)
	}
	hold := upTo(a.rng, 30*time.Millisecond)
	if a.rng.IntN(6) == 0 {
		hold = upTo(a.rng, a.plan.maxTTL)
	}
	select {
	case <-h.lock.Done():
	case <-a.ending:
	case <-time.After(hold):
	}
	a.unlock(h)
}

// any does something with a lock.
func (a *actor) any(h *handle) {
	switch a.rng.IntN(6) {
	case 0, 1:
		a.extend(h)
	case 2:
		a.verify(h)
	case 3:
		a.looks(h)
	case 4:
		a.contexts(h)
	default:
		time.Sleep(upTo(a.rng, 50*time.Millisecond))
	}
}

// some returns a lock that somebody got, held or not; nil if there is none.
func (a *actor) old() *handle {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.handles) == 0 {
		return nil
	}
	i := len(a.handles) - 1 - min(a.rng.IntN(16), a.rng.IntN(len(a.handles)), len(a.handles)-1)
	return a.handles[i]
}

// The acts on locks that somebody got.
var handling = []*act{
	{"something with a lock", 6, func(a *actor) {
		if h := a.old(); h != nil {
			a.any(h)
		}
	}},
	{"TryLock after Unlock", 2, relocks},
	{"writes behind a gate", 2, shows},
	{"sleeps", 2, sleeps},
	{"Unlock again, or of others", 2, func(a *actor) {
		if h := a.old(); h != nil {
			a.unlock(h)
		}
	}},
}

// relocks takes a name that a client has released. Where all masters are well it is as free as one
// that nobody ever used, although the release may still be on its way to a minority.
func relocks(a *actor) {
	name := a.fresh()
	if len(a.plan.faults) > 0 || a.plan.unsettled() {
		name = "re" + name
	}
	for range 5 {
		h := a.acquire(a.mutex(name, false))
		if h == nil {
			return
		}
		a.unlock(h)
	}
}

// ended judges the error of a lock that had ended before a call.
func (a *actor) ended(call string, h *handle, before, err error) {
	if before == nil {
		return
	}
	a.promise("a lock never comes back", is(h.lock.Err(), redlock.ErrLost, redlock.ErrReleased) && h.lock.Remaining() <= 0,
		"%s: %s: %v: %v before, now %v, and %v are left", a.who, call, h.hold, before, h.lock.Err(), h.lock.Remaining())
	a.promise("calls of a lock that ended", err != nil && is(err, redlock.ErrLost, redlock.ErrReleased, redlock.ErrInvalid),
		"%s: %s: %v had ended (%v): %v", a.who, call, h.hold, before, err)
}

// roundError judges what Extend and Verify return.
func (a *actor) roundError(call string, h *handle, err error, ctx *limited) {
	if err == nil {
		return
	}
	a.sound(call, err, ctx, h.life)
	a.promise("errors of "+call, is(err, redlock.ErrLost, redlock.ErrReleased, redlock.ErrNoQuorum, redlock.ErrClosed) || ctx.Err() != nil && is(err, ctx.Err()),
		"%s: %s: %v", a.who, call, err)
	if is(err, redlock.ErrLost) {
		a.decided(call, err, ctx, h.life, true)
		a.promise("ErrLost is final", h.lock.Err() != nil && h.lock.Remaining() <= 0, "%s: %s: %v, and Err is %v", a.who, call, err, h.lock.Err())
	}
	var votes *redlock.QuorumError
	if is(err, redlock.ErrNoQuorum) {
		a.promise("a QuorumError", errors.As(err, &votes) && votes.Op == strings.ToLower(call), "%s: %s: %v is no QuorumError of it", a.who, call, err)
	}
}

func (a *actor) extend(h *handle) {
	ctx, ttl, began := a.patience(false), a.plan.maxTTL>>a.rng.IntN(5), a.clock.Now()
	defer ctx.cancel()
	before := h.lock.Err()
	h.extends.Add(1)
	calls := h.extended.Add(1)
	a.note(a.who, "Extend %v to %v", h.hold.Names, ttl)
	err := h.lock.Extend(ctx, ttl)
	a.note(a.who, "Extend %v: %v", h.hold.Names, err)
	alone := h.extends.Add(-1) == 0
	a.inTime("extending in time", "Extend", began, 2*h.life.client.plan.nodeTimeout(a.plan.maxTTL), ctx) // an earlier round may be under way
	a.roundError("Extend", h, err, ctx)
	a.ended("Extend", h, before, err)
	if left := h.lock.Remaining(); err == nil && alone && h.request.asked.minHold == 0 {
		a.promise("Extend gives the TTL", left <= ttl-h.life.client.plan.allowance(ttl), "%s: Extend to %v, and %v are left", a.who, ttl, left)
		latest := h.extended.Load() == calls && a.look && !h.life.client.plan.sleeps
		a.promise("Extend gives the TTL", !latest || left >= h.least(ttl, a.since(began)) || h.lock.Err() != nil, "%s: Extend to %v, and %v are left", a.who, ttl, left)
	}
	a.reachIf("an extension beside a broken master", err == nil && a.open.Load() > 0)
	a.reachIf("an extension of a lock that somebody takes", before == nil && h.taken.Load())
	a.reachIf("an extension that its context ended", err != nil && ctx.Err() != nil && h.lock.Err() == nil)
	a.reachIf("an extension that a majority refused", before == nil && is(err, redlock.ErrLost))
	a.reachIf("an extension that a release overtook", before == nil && is(err, redlock.ErrReleased))
	a.reachIf("two extensions at once", !alone)
}

func (a *actor) verify(h *handle) {
	ctx, began := a.patience(false), a.clock.Now()
	defer ctx.cancel()
	before := h.lock.Err()
	err := h.lock.Verify(ctx)
	a.inTime("verifying in time", "Verify", began, h.life.client.plan.nodeTimeout(a.plan.maxTTL), ctx)
	a.roundError("Verify", h, err, ctx)
	a.ended("Verify", h, before, err)
}

// looks compares what a lock says with what the masters keep.
func (a *actor) looks(h *handle) {
	left, err := h.lock.Remaining(), h.lock.Err()
	if err == nil {
		a.promise("Err says what Remaining does", left > 0 || h.lock.Remaining() <= 0, "%v: Err is nil, and %v are left", h.hold, left)
	}
	if !a.world.look || left <= 0 || h.wild() || a.plan.forgets || a.plan.unsettled() || h.hold.Late {
		return
	}
	for _, name := range h.hold.Names {
		kept := 0
		for _, m := range a.masters {
			value, ttl, found := m.get(name)
			if found && (value == h.hold.Value || h.hold.Shared && strings.HasSuffix(value, "|"+shared)) && ttl+time.Millisecond > left {
				kept++
			}
		}
		if h.lock.Err() != nil {
			return
		}
		a.promise("a majority keeps a lock for its validity", kept > a.plan.masters/2,
			"%v: %v are left, and only %d of %d masters keep it that long", h.hold, left, kept, a.plan.masters)
	}
}

// contexts makes contexts of a lock, which end with it or with their parents.
func (a *actor) contexts(h *handle) {
	parent, cancel := context.WithCancel(a.base)
	ctx := h.lock.Context(parent)
	if a.rng.IntN(2) == 0 {
		time.Sleep(upTo(a.rng, 20*time.Millisecond))
	}
	if h.lock.Err() == nil && h.lock.Remaining() > 0 {
		a.promise("the context of a lock", ctx.Err() == nil || h.lock.Err() != nil, "%v: its context ended before it: %v", h.hold, context.Cause(ctx))
	}
	cancel()
	select {
	case <-ctx.Done():
	case <-time.After(a.slack):
		a.promise("the context of a lock", false, "%v: a context goes on without its parent", h.hold)
	}
}

// unlock releases a lock, for the first time or again.
func (a *actor) unlock(h *handle) {
	h.over()
	h.mu.Lock()
	again := h.released
	h.released = true
	h.mu.Unlock()
	ctx, began := a.patience(false), a.clock.Now()
	defer ctx.cancel()
	before := h.lock.Err()
	a.note(a.who, "Unlock %v", h.hold.Names)
	err := h.lock.Unlock(ctx)
	a.note(a.who, "Unlock %v: %v", h.hold.Names, err)
	a.inTime("unlocking in time", "Unlock", began, h.life.client.plan.nodeTimeout(a.plan.maxTTL), nil)
	a.promise("errors of Unlock", err == nil || is(err, redlock.ErrLost, redlock.ErrNoQuorum) && !is(err, redlock.ErrTaken, redlock.ErrInvalid, redlock.ErrClosed),
		"%s: Unlock: %v", a.who, err)
	a.promise("Unlock ends the lock", h.lock.Err() != nil && h.lock.Remaining() <= 0, "%v: after Unlock, Err is %v and %v are left", h.hold, h.lock.Err(), h.lock.Remaining())
	a.promise("a lost lock stays lost", !is(before, redlock.ErrLost) || is(err, redlock.ErrLost), "%v was lost (%v), and Unlock returned %v", h.hold, before, err)
	// The master that another release was on its way to may have refused this lock. Then it needs
	// the one that is ill.
	bare := len(a.plan.faults) > 0 && !strings.HasPrefix(h.hold.Names[0], "once")
	if a.plan.steady() && a.look && before == nil && !again && !h.wild() && !bare && !h.taken.Load() && began < h.hold.Since.Add(h.ttl/3) && h.extended.Load() == 0 {
		a.promise("Unlock in calm times", !is(err, redlock.ErrNoQuorum), "%v: Unlock: %v", h.hold, err)
	}
	a.unlocked(h, err)
	a.reachIf("a release that was not confirmed", is(err, redlock.ErrNoQuorum))
	a.reachIf("a release that was confirmed later", again && err == nil && before != nil)
	a.reachIf("a release under an ended context", ctx.Err() != nil && !again && err == nil)
	a.reachIf("a release of a lost lock", is(before, redlock.ErrLost))
	if err == nil && !again {
		h.mu.Lock()
		h.hold.Returned, h.hold.Confirmed = a.clock.Now(), true
		h.mu.Unlock()
		a.released(h)
	}
}

// released looks at the masters after a release that a quorum confirmed.
func (a *actor) released(h *handle) {
	strayed := clock.Instant(a.strayed.Load()) // since then, replies may be those of the calls before
	if !a.world.look || a.plan.unsettled() || h.request.asked.minHold > 0 || h.hold.Shared || strayed != 0 && a.since(strayed) < time.Second {
		return
	}
	for _, name := range h.hold.Names {
		kept := 0
		for i, m := range a.masters {
			if value, _, found := m.get(name); found && value == h.hold.Value && !a.plan.hasSnapshotOf(i) {
				kept++
			}
		}
		a.promise("a quorum has deleted what Unlock confirms", kept <= a.plan.masters/2 || a.plan.masters == 1 && kept == 0,
			"%v: Unlock returned nil, and %d of %d masters keep it", h.hold, kept, a.plan.masters)
	}
}

// unlocked compares what Unlock returned with what it did before, and notes it.
func (a *actor) unlocked(h *handle, err error) {
	open := is(err, redlock.ErrNoQuorum) && !is(err, redlock.ErrLost)
	h.mu.Lock()
	settled, told := h.settled, h.told
	if open {
		h.unconfirmed = true
	} else {
		h.settled, h.told = true, err
	}
	h.mu.Unlock()
	same := !settled || !open && is(told, redlock.ErrLost) == is(err, redlock.ErrLost) && (told == nil) == (err == nil)
	a.promise("Unlock again does nothing", same, "%v: Unlock: %v, and before: %v", h.hold, err, told)
}
