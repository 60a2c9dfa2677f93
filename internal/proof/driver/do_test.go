package driver_test

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock"
)

// runsOn has a function go on after Close has ended its context: its lock stays at the masters.
func (a *actor) runsOn(ctx context.Context, h *handle) {
	if ctx.Err() == nil || !is(context.Cause(ctx), redlock.ErrClosed) || !a.look || !a.plan.steady() {
		return
	}
	time.Sleep(10 * time.Millisecond)
	kept := 0
	for _, m := range a.masters {
		if value, _, _ := m.get(h.lock.Name()); value == h.hold.Value {
			kept++
		}
	}
	h.mu.Lock()
	released := h.released // by somebody else
	h.mu.Unlock()
	over := h.extended.Load() > 0 || h.request.asked.maxHold > 0 || a.clock.Now() >= h.hold.From.Add(h.ttl-a.plan.lingers-5*latency)
	a.reachIf("a function that goes on after Close", true)
	a.promise("Close leaves the lock of a function", kept > a.plan.masters/2 || released || over, "%v: its function runs, and %d masters have it", h.hold, kept)
}

// does runs a function under a lock, which returns, fails or panics.
func does(a *actor) {
	q := a.mutex(a.name(), true)
	q.call = "Do"
	d := &do{actor: a, q: q, life: a.life(), began: a.clock.Now()}
	a.asks(q, d.life)
	d.ctx = a.patience(true)
	defer d.ctx.cancel()
	a.note(a.who, "Do %v by %s", q.names, d.life.client.plan.who)
	a.waitsFor(q, 1)
	d.call()
	a.note(a.who, "Do %v: %v", q.names, d.err)
	if d.h == nil {
		a.waitsFor(q, -1)
		a.promise("Do without its lock", d.err != nil, "%s: Do returned nil, and fn did not run", a.who)
		a.refused(q, d.err, d.ctx, d.life)
		a.leaves(q, d.life)
		return
	}
	d.judge()
}

// do is a call of Do.
type do struct {
	*actor
	q     *request
	life  *life
	ctx   *limited
	began clock.Instant

	h        *handle // nil if the function did not run
	returned error   // what it returned, or panicked with
	err      error   // what Do did
}

// panicked is what functions of Do panic with.
type panicked struct{ error }

// Unwrap returns what the function would have returned otherwise.
func (p panicked) Unwrap() error { return p.error }

var errFunction = errors.New("fn failed")

func (d *do) call() {
	defer func() {
		if value := recover(); value != nil {
			d.err = value.(panicked) // any other panic is not the driver's
		}
	}()
	d.err = d.life.locker.Do(d.ctx, d.q.names[0], d.function, d.q.asked.opts...)
}

func (d *do) function(inner context.Context, lock *redlock.Lock) error {
	d.waitsFor(d.q, -1)
	d.life.got.Add(1)
	d.h = d.got(d.q, lock, d.began, cmp.Or(d.q.asked.ttl, d.life.client.plan.ttl), d.life)
	if d.rng.IntN(8) == 0 {
		d.watchers.Go(d.life.client.replace) // usually it closes the Locker of this function
	}
	select {
	case <-inner.Done():
		cause := context.Cause(inner)
		d.promise("the context of Do", d.ctx.over(d.clock.Now()) || lock.Err() != nil, "%s: the context of Do ended: %v", d.who, cause)
		d.promise("the context of Do", is(cause, context.Cause(d.ctx), redlock.ErrLost, redlock.ErrReleased), "%s: the context of Do ended, and its cause is %v", d.who, cause)
	case <-time.After(upTo(d.rng, 50*time.Millisecond) << (3 * d.rng.IntN(2))):
	}
	d.runsOn(inner, d.h)
	d.h.over() // before the release: another client may have the lock when Do returns
	if d.rng.IntN(2) == 0 {
		d.returned = errFunction
		if d.clock.Now()%4 == 0 { // which is not drawn: the rest of the history is the same
			d.returned = panicked{errFunction}
			panic(d.returned)
		}
	}
	return d.returned
}

// judge judges how Do ended.
func (d *do) judge() {
	ended := d.h.lock.Err()
	d.reachIf("a lock that was lost under Do", is(d.err, redlock.ErrLost))
	d.reachIf("a function of Do that panicked", errors.As(d.err, new(panicked)))
	d.promise("Do releases", ended != nil, "%s: the lock is held after Do", d.who)
	d.promise("the error of Do", d.err == nil || is(d.err, errFunction, redlock.ErrLost, redlock.ErrClosed, redlock.ErrNoQuorum), "%s: Do: %v", d.who, d.err)
	d.promise("the error of Do", is(d.err, errFunction) == (d.returned != nil), "%s: the function returned %v, and Do: %v", d.who, d.returned, d.err)
	lost := is(ended, redlock.ErrLost) && !errors.As(d.err, new(panicked))
	d.promise("the error of Do", !lost || is(d.err, redlock.ErrLost), "%s: the lock ended: %v, and Do: %v", d.who, ended, d.err)
	d.promise("ErrClosed", !is(d.err, redlock.ErrClosed) || d.life.closed.Load(), "%s: Do: %v, and nobody closed it", d.who, d.err)
}
