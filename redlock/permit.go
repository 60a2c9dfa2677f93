package redlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/internal/random"
	"github.com/redquorum/redquorum/redlock/internal/handoff"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
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
// [Locker.Inspect], ForceUnlock and Adopt take the name of a slot, and treat it as the mutex that
// it is; [Semaphore.Inspect] tells of all slots. A mutex hands nothing to the waiters of a
// semaphore, which then poll. An adopted permit does not keep the number of permits at the nodes:
// 48 hours after the last use of the semaphore they may accept another one, although the lock is
// held.
type Semaphore struct {
	locker *Locker
	name   string
	queue  []string // the key under which the desk knows its waiters
	wire   wire.Semaphore
}

// longestSlot is the longest part of a slot's name that is not the semaphore's.
const longestSlot = len("#1024")

// Semaphore returns the semaphore of a name with 1 to 1,024 permits. Nothing is sent. Names have
// the rules of [Locker.TryLock], but at most 4,091 bytes. A lock of the same name is another one:
// it does not exclude the holders of permits.
//
// All clients must use the same number of permits. The nodes keep it for 48 hours after the last
// use. The number can change while nobody holds a permit: the first request for another one brings
// it to the nodes. Otherwise such a request fails with [ErrInvalid].
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
	cfg, err := s.lockConfig(ctx, opts)
	if err != nil {
		return nil, err
	}
	lock, _, err := s.tryAcquire(ctx, &cfg)
	return lock, err
}

func (s *Semaphore) lockConfig(ctx context.Context, opts []LockOption) (lockConfig, error) {
	cfg, err := s.locker.config.lockConfig(ctx, s.name, opts)
	switch {
	case err != nil:
	case cfg.value != "":
		// A node takes equal values for one attempt, and would give two callers one slot.
		err = invalid("WithValue cannot be used with a semaphore")
	case cfg.minHold > 0:
		err = invalid("WithMinHold cannot be used with a semaphore")
	}
	return cfg, err
}

// tryAcquire makes one attempt. In the first round each node gives any slot. If that gives no slot
// a quorum, but the answers show that one could have a quorum, the second round asks for that one.
// It returns the last round, nil if there was none.
func (s *Semaphore) tryAcquire(ctx context.Context, cfg *lockConfig) (*Lock, *round.Round, error) {
	l := s.locker
	if !l.life.enter() {
		return nil, nil, ErrClosed
	}
	defer l.life.leave()
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("redlock: acquire %q: %w", s.name, round.EndOf(ctx))
	}
	lock := s.newLock(cfg)
	lock.begin(l.awaitVoters(ctx, l.clock.Now(), lock.timeout), cfg.maxHold)
	r := lock.newTake(round.Spec{Any: true})
	r.Send(lock.acquired.Add(lock.timeout), 0)
	if v, _ := r.Wait(ctx); v == quorum.Denied { //nolint:errcheck // finish waits, too
		if slot := r.Available(0); slot != 0 {
			r = lock.sendTake(slot, r.MayHold(), cfg)
		}
	}
	got, err := l.finish(ctx, lock, r, cfg)
	return got, r, err
}

// newLock returns a permit that has no slot yet.
func (s *Semaphore) newLock(cfg *lockConfig) *Lock {
	lock := newBareLock(s.locker, cfg)
	var room [valueRoom]byte
	lock.value = string(cfg.appendValue(room[:0], s.locker.clock.Wall()))
	// At random, so that concurrent clients rarely meet on a slot; the same at all nodes, so that
	// those that agree on what is free give the same slot.
	lock.set = &set{
		names: []string{s.name}, keys: []string{s.wire.Key}, semaphore: s, slot: 1 + random.N(s.wire.Permits),
	}
	return lock
}

// newTake returns a round that asks all nodes for one slot, or for any.
func (lock *Lock) newTake(how round.Spec) *round.Round {
	s := lock.set.semaphore
	take := wire.Take{
		Semaphore: s.wire, Value: lock.value, TTL: lock.ttl, Grace: s.locker.config.grace(lock.timeout),
		Slot: max(how.One, 1), Only: true, Fencing: lock.fencing(),
	}
	if how.Any {
		take.Slot, take.Only = lock.set.slot, false
	}
	how.Request = take.Request()
	return lock.newGrant(&how)
}

// sendTake asks all nodes for one slot. Before are the nodes that may have given us one, and this
// takes others back. The TTL, and with it the validity, begins anew at every node that grants.
func (lock *Lock) sendTake(slot int, before quorum.NodeSet, cfg *lockConfig) *round.Round {
	lock.begin(lock.locker.clock.Now(), cfg.maxHold)
	r := lock.newTake(round.Spec{One: slot, Before: before})
	r.Send(lock.acquired.Add(lock.timeout), 0)
	return r
}

// otherNumber returns an error if a quorum of nodes knows another number of permits.
func (s *Semaphore) otherNumber(r *round.Round) error {
	if other := r.OtherNumber(); other != 0 {
		return invalid("semaphore %q has %d permits at a quorum of nodes, not %d", s.name, other, s.wire.Permits)
	}
	return nil
}

// Acquire takes a permit, and waits for one as long as ctx allows, as [Locker.Lock] does. Waiters
// get permits in the order in which they came: exactly within a Locker, and nearly so between
// Lockers. Unlock gives the permit back, and hands it to the oldest waiter.
func (s *Semaphore) Acquire(ctx context.Context, opts ...LockOption) (_ *Lock, err error) {
	ctx, span := s.locker.trace(ctx, OperationAcquire, s.name)
	defer func() { span.end(err) }()
	cfg, err := s.lockConfig(ctx, opts)
	if err != nil {
		return nil, err
	}
	l := s.locker
	if !l.life.enter() {
		return nil, ErrClosed
	}
	defer l.life.leave()
	since, queue := l.clock.Now(), handoff.NameOfSemaphore(s.name, s.wire.Permits)
	ticket := l.desk.Queue.Join(queue)
	defer l.desk.Queue.Leave(queue, ticket)
	if ticket == nil {
		l.desk.Pending.Await(ctx, l.life.closing, l.clock, s.queue[0])
	}
	if ticket != nil || l.desk.Record.Contended("", s.queue) {
		return l.awaitTurn(ctx, s.newWaiter(queue, &cfg, since), ticket, nil)
	}
	cfg.yields = true
	lock, r, err := s.tryAcquire(ctx, &cfg)
	cfg.yields = false
	var failure *QuorumError
	if !errors.As(err, &failure) || failure.ended != nil {
		return lock, err
	}
	w := s.newWaiter(queue, &cfg, since)
	w.learnPermits(r)
	return l.awaitTurn(ctx, w, nil, failure)
}
