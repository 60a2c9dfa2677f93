package redlock

import (
	"context"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/random"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wait"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Semaphore lets a fixed number of holders in at once, each with a permit. Its methods may be
// called from any goroutine.
//
// A permit is a [Lock] of one of its slots: slot i of the semaphore "name" is the mutex "name#i",
// counted from 1, and that is the [Lock.Name] of the permit. So there are never more holders than
// slots, under the conditions and with the faults that a mutex allows. A fencing token orders the
// holders of one slot, so the protected resource must remember the largest token for each slot.
//
// Inspect and ForceUnlock of package admin, and Adopt, take the name of a slot, and treat it as the
// mutex that it is; InspectSemaphore tells of all slots. A mutex hands nothing to the waiters of a
// semaphore, which then poll.
type Semaphore struct {
	locker *Locker
	name   string
	queue  []string // the key of its waiters
	wire   wire.Semaphore
}

// longestSlot is the longest part of a slot's name that is not the semaphore's.
const longestSlot = len("#1024")

// Semaphore returns the semaphore of a name with 1 to 1,024 permits. Nothing is sent. Names have
// the rules of [Locker.TryLock], but at most 4,091 bytes. A lock of the same name is another one:
// it does not exclude the holders of permits.
//
// All clients must use the same number of permits. The nodes keep it until the last permit is
// given back, or for up to twice its TTL. The number can change while nobody holds a permit: the
// first request for another one brings it to the nodes. Otherwise such a request fails with
// [ErrInvalid].
func (l *Locker) Semaphore(name string, permits int) (*Semaphore, error) {
	switch {
	case name == "" || len(name) > maxName-longestSlot:
		return nil, invalid("name has %d bytes, not 1 to %d", len(name), maxName-longestSlot)
	case isReserved(l.config.keyPrefix, name):
		return nil, invalid("name %q: keys that begin with %s are reserved", name, reserved)
	case permits < 1 || permits > wire.MaxPermits:
		return nil, invalid("%d permits, not 1 to %d", permits, wire.MaxPermits)
	}
	s := &Semaphore{locker: l, name: name, wire: wire.Semaphore{Key: l.config.keyPrefix + name, Permits: permits}}
	s.queue = []string{s.wire.NumberKey()}
	return s, nil
}

// TryAcquire takes a permit if one is free, without waiting for a holder. It takes one round, or
// two if the nodes do not all have the same slot free, and returns within a node timeout for each.
// Unlock gives the permit back.
//
// It works like [Locker.TryLock], with the same errors. [ErrTaken] means that no slot is free at a
// quorum of nodes; two clients that try for the last one at the same time may both get it.
// [ErrInvalid] may also mean that a quorum of nodes has another number of permits.
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...LockOption) (_ *Lock, err error) {
	ctx, span := s.locker.trace(ctx, OperationAcquire, s.name)
	defer func() { span.end(err) }()
	c, err := s.newCall(ctx, opts)
	if err != nil {
		return nil, err
	}
	return s.locker.try(ctx, &c)
}

// newCall returns a call for a permit, after checking all of its arguments.
func (s *Semaphore) newCall(ctx context.Context, opts []LockOption) (call, error) {
	c, err := s.locker.newCall(ctx, s.name, opts)
	if err == nil && c.minHold > 0 {
		err = invalid("WithMinHold cannot be used with a semaphore")
	}
	c.kind = &permit{semaphore: s}
	return c, err
}

// Acquire takes a permit, and waits for one as long as ctx allows, as [Locker.Lock] does. Waiters
// get permits in the order in which they came: exactly within a Locker, and nearly so between
// Lockers. Unlock gives the permit back, and hands it to the oldest waiter.
func (s *Semaphore) Acquire(ctx context.Context, opts ...LockOption) (_ *Lock, err error) {
	ctx, span := s.locker.trace(ctx, OperationAcquire, s.name)
	defer func() { span.end(err) }()
	c, err := s.newCall(ctx, opts)
	if err != nil {
		return nil, err
	}
	return s.locker.acquire(ctx, &c)
}

// permit is the kind of a lock of one slot of a semaphore. Until it has one it has the name of the
// semaphore, and a slot to try first.
type permit struct {
	mutex

	semaphore  *Semaphore
	slot       int
	names, key [1]string
}

func (p *permit) fresh() kind {
	s := p.semaphore
	return &permit{
		semaphore: s, names: [1]string{s.name}, key: [1]string{s.wire.Key},
		// At random, so that concurrent clients rarely meet on a slot; the same at all nodes, so
		// that those that agree on what is free give the same slot.
		slot: 1 + random.N(s.wire.Permits),
	}
}

func (p *permit) nameOf(*Lock) string    { return p.names[0] }
func (p *permit) namesOf(*Lock) []string { return p.names[:] }
func (p *permit) keysOf(*Lock) []string  { return p.key[:] }
func (p *permit) queueOf(*Lock) []string { return p.semaphore.queue }

func (p *permit) acquire(lock *Lock, one int, _ bool) pipeline.Request {
	take := wire.Take{
		Semaphore: p.semaphore.wire, Value: lock.value, TTL: lock.ttl, Grace: lock.grace(),
		Slot: one, Only: true, Fencing: lock.fencing(),
	}
	if one == 0 {
		take.Slot, take.Only = p.slot, false
	}
	return take.Request()
}

func (p *permit) wanted(w *wait.Wanted) {
	s := p.semaphore
	w.Queue, w.Slots = wait.NameOfSemaphore(s.name, s.wire.Permits), s.wire.Permits
	w.Prefix, w.Names = "", s.queue
}

func (p *permit) wait(lock *Lock, ask *wire.Wait, _ bool) pipeline.Request {
	request := wire.AwaitPermit{
		Semaphore: p.semaphore.wire, Value: lock.value, TTL: lock.ttl, Slot: p.slot, Process: ask.Process, Waited: ask.Waited,
		Fencing: ask.Fencing,
	}
	return request.Request()
}

func (p *permit) answer(reply any) wire.WaitReply { return wire.ReadPermit(reply) }
func (p *permit) chooses() bool                   { return true }

func (p *permit) take(_ *Lock, r *round.Round) {
	p.slot = r.Chosen()
	suffix := wire.Slot(p.slot)
	p.names[0], p.key[0] = p.semaphore.name+suffix, p.semaphore.wire.Key+suffix
}

// If the permit has been released, its release went to all nodes, behind the round, and was for all
// slots.
func (p *permit) strays(lock *Lock) (_ pipeline.Request, some bool) {
	if lock.release != nil {
		return pipeline.Request{}, false
	}
	return p.semaphore.wire.GiveBack(lock.value, lock.grace(), p.slot, 0, ""), true
}

// refused returns an error if a quorum of nodes knows another number of permits.
func (p *permit) refused(_ *Lock, r *round.Round) error {
	if other := r.OtherNumber(); other != 0 {
		s := p.semaphore
		return invalid("semaphore %q has %d permits at a quorum of nodes, not %d", s.name, other, s.wire.Permits)
	}
	return nil
}

func (p *permit) extend(lock *Lock, x *wire.Extension, _ clock.Instant) {
	x.AddPermit(p.semaphore.wire, p.slot, lock.value, lock.ttl)
}

func (p *permit) prefer(_ *Lock, ask *wire.Prefer) pipeline.Request {
	ask.Keys, ask.Slot, ask.Permits = []string{p.semaphore.wire.Key}, p.slot, p.semaphore.wire.Permits
	return ask.Request()
}

// All slots: a round for any slot may have been answered late, or not at all. Until it has a
// permit, it has held no slot, and p.slot is one that nobody adopts from it.
func (p *permit) release(lock *Lock) pipeline.Request {
	return p.semaphore.wire.GiveBack(lock.value, lock.grace(), 0, p.slot, lock.process())
}
