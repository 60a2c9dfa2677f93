package redlock

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/schedule"
	"github.com/redquorum/redquorum/redlock/internal/wait"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// kind is what a lock is: a mutex, or one of several names (names), of the first that is free of
// several (choice), of a reader, or a permit. It has all in which they differ; the others embed a
// mutex, and are like it in what they do not say. Everything else is the same for all: a round, its
// votes, validity, renewal, undo.
type kind interface {
	fresh() kind // for the lock of another attempt of the same call

	nameOf(lock *Lock) string
	namesOf(lock *Lock) []string
	keysOf(lock *Lock) []string
	queueOf(lock *Lock) []string // the keys under which the desk knows the waiters for the lock

	// acquire asks all nodes for the lock; for a certain one of several, counted from 1, or for any
	// (0). Turn says that a vote was handed over.
	acquire(lock *Lock, one int, turn bool) pipeline.Request

	// wait asks the pilot for the lock, or for a place on its wait list; answer reads its reply.
	wait(lock *Lock, ask *wire.Wait, turn bool) pipeline.Request
	answer(reply any) wire.WaitReply

	// chooses reports whether nodes may give the lock different keys. Then a round that was won
	// tells which of them it has (take), strays gives back the others, if there are any, and a lock
	// that was not taken has all of them again, for its release (untake).
	chooses() bool
	take(lock *Lock, r *round.Round)
	strays(lock *Lock) (_ pipeline.Request, some bool)
	untake(lock *Lock)

	// refused returns why a round was denied, or nil if because somebody else has the lock.
	refused(lock *Lock, r *round.Round) error

	// settle finds the fencing token of a round that was won, by second rounds (raise) if need be.
	settle(ctx context.Context, lock *Lock, r *round.Round) (reason, ended error)
	raise(lock *Lock, token int64) pipeline.Request

	// extend adds the lock to an extension, which gets so many keys (pairs).
	pairs(lock *Lock) int
	extend(lock *Lock, x *wire.Extension, b *round.Batch, now clock.Instant)
	verify(lock *Lock) pipeline.Request
	release(lock *Lock) pipeline.Request
}

// call is one call that asks for a lock. Its options are what the user said.
type call struct {
	lockConfig

	locker *Locker
	kind   kind
	name   [1]string // of a permit: that of the semaphore
	list   []string  // of several names

	guards bool         // a function of Do
	part   bool         // one name of a set that takes its names one after the other
	waits  bool         // it did not get the lock at once
	yields bool         // gives way to waiters elsewhere, even if the round is won
	taken  *atomic.Bool // for one of several waits of a call: one of them took its lock
}

// newCall returns a call for a mutex, after checking all of its arguments.
func (l *Locker) newCall(ctx context.Context, name string, opts []LockOption) (call, error) {
	cfg, err := l.config.lockConfig(ctx, name, opts)
	return call{lockConfig: cfg, locker: l, kind: mutex{}, name: [1]string{name}}, err
}

// newLock returns the lock of one attempt.
func (c *call) newLock() *Lock {
	l := c.locker
	lock := &Lock{
		locker: l, kind: c.kind.fresh(), renews: !c.withoutRenewal, guards: c.guards, fenced: c.fencing, part: c.part,
		ttl: c.ttl.Truncate(time.Millisecond), timeout: l.config.timeout(c.ttl), heldUntil: schedule.Never,
		minHold: uint32(ceilMillis(c.minHold).Milliseconds()),
	}
	var room [valueRoom]byte
	value := c.appendValue(room[:0], l.clock.Wall(), c.waits)
	switch lock.kind.(type) {
	case mutex, reader:
		lock.claim, lock.key[0], lock.value = wire.NewClaim(l.config.keyPrefix, c.name[0], value, l.config.termsOf(lock))
	default:
		lock.value = string(value)
	}
	return lock
}

// names returns all names that the call asks for.
func (c *call) names() []string {
	if c.list != nil {
		return c.list
	}
	return c.name[:]
}

// queued returns the names under which waiters for what the call asks for are known to the desk,
// and what precedes them there.
func (c *call) queued() (prefix string, names []string) {
	if p, ok := c.kind.(*permit); ok {
		return "", p.semaphore.queue
	}
	return c.locker.config.keyPrefix, c.names()
}

// queue names the wait queue of the call.
func (c *call) queue() wait.Name {
	if p, ok := c.kind.(*permit); ok {
		return wait.NameOfSemaphore(p.semaphore.name, p.semaphore.wire.Permits)
	}
	return wait.NameOf(c.names())
}

// newAcquire returns the round of an attempt.
func (lock *Lock) newAcquire(how round.Spec, turn bool) *round.Round {
	how.Request = lock.kind.acquire(lock, how.One, turn)
	return lock.newGrant(&how)
}

// sendOne asks all nodes for one of several. Before are the nodes that may have given us one, and
// this takes others back. The TTL, and with it the validity, begins anew at every node that grants.
func (lock *Lock) sendOne(c *call, one int, before quorum.NodeSet) *round.Round {
	lock.begin(lock.locker.clock.Now(), c.maxHold)
	r := lock.newAcquire(round.Spec{One: one, Before: before}, false)
	r.Send(lock.acquired.Add(lock.timeout), 0)
	return r
}

// dropStrays releases what nodes have, or may have, under the lock's value beside the key that was
// chosen: in the first round each node gave any. A node that may yet answer is not among them: the
// lock is told of it later.
func (lock *Lock) dropStrays(nodes quorum.NodeSet) {
	if nodes.Empty() {
		return
	}
	l := lock.locker
	lock.mu.Lock()
	defer lock.mu.Unlock()
	request, some := lock.kind.strays(lock)
	if !some {
		return
	}
	u := l.rounds.New(&round.Spec{
		Request: request, Meaning: wire.Released, Rule: quorum.DecideHeld, Only: nodes, Background: true,
	})
	lock.undoLocked(u, nodes, l.clock.Now().Add(lock.timeout))
}

// keys returns the keys of all names of the lock. They must not be changed.
func (lock *Lock) keys() []string { return lock.kind.keysOf(lock) }

// Name returns the name that the lock was acquired by; for a set, the first. For a permit of a
// [Semaphore] it is the name of its slot.
func (lock *Lock) Name() string { return lock.kind.nameOf(lock) }

// Names returns all names of the lock, in the order in which they were given.
func (lock *Lock) Names() []string { return slices.Clone(lock.kind.namesOf(lock)) }
