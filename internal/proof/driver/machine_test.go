package driver_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock"
)

// machine is what a client runs on. Its time of day is not that of others, and its clock jumps when
// it sleeps: as seen by the client, the others were quick meanwhile.
type machine struct {
	world clock.Clock
	ahead time.Duration // its time of day
	slept atomic.Int64  // nanoseconds
}

// Now implements clock.Source.
func (m *machine) Now() clock.Instant {
	return m.world.Now().Add(time.Duration(m.slept.Load()))
}

// Wall implements clock.Source.
func (m *machine) Wall() time.Time {
	return m.world.Wall().Add(m.ahead + time.Duration(m.slept.Load()))
}

// skewed is the clock of a machine that does not sleep.
type skewed struct {
	clock.Clock
	ahead time.Duration
}

// Wall returns the time of day.
func (c *skewed) Wall() time.Time { return c.Clock.Wall().Add(c.ahead) }

// clockOf returns the clock of a client.
func (c *client) clockOf() clock.Clock {
	if c.machine == nil {
		return &skewed{c.run.clock, c.plan.ahead}
	}
	return clock.WithTimers(c.machine)
}

// sleeps has the machine of a client sleep while an extension is under way, for longer than the
// lock was still valid: it is lost, although the masters may have extended it in time.
func sleeps(a *actor) {
	c := a.clients[a.rng.IntN(len(a.clients))]
	if c.machine == nil {
		return
	}
	h := a.acquireBy(c.current(), a.unrenewed(a.mutex(a.fresh(), false)))
	if h == nil {
		return
	}
	time.Sleep(upTo(a.rng, h.ttl/2))
	extended := make(chan error, 1)
	go func() { extended <- h.lock.Extend(context.Background(), a.plan.maxTTL) }()
	time.Sleep(upTo(a.rng, latency/4))
	left, overtaken := max(h.lock.Remaining(), 0), len(extended) == 0
	c.machine.slept.Add(int64(left) + 1 + a.rng.Int64N(int64(h.ttl)))
	a.note(a.who, "%s slept for more than %v", c.plan.who, left)
	err := <-extended
	if overtaken && left > 0 {
		a.reachIf("an extension that a sleep overtook", true)
		a.promise("the validity ends while a machine sleeps", is(err, redlock.ErrLost) && h.lock.Err() != nil,
			"%v: its machine slept for more than the %v that were left, Extend: %v, Err: %v", h.hold, left, err, h.lock.Err())
	}
	a.unlock(h)
}

// unrenewed asks for a lock without renewal, and for nothing else.
func (a *actor) unrenewed(q *request) *request {
	q.fixed, q.asked.unrenewed = true, true
	q.asked.opts = append(q.asked.opts, redlock.WithoutRenewal())
	return q
}
