package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// Lock is one acquisition. Its methods may be called from any goroutine. It must not be copied.
type Lock struct {
	locker   *Locker
	name     string
	key      string
	value    string
	keyArg   any           // key and value as arguments, boxed once
	valueArg any           //
	timeout  time.Duration // how long its rounds wait for a node

	expiryIndex int           // place in the locker's expiry, -1 for none; the expiry's mutex guards it
	expiryAt    clock.Instant // its due time there; the same

	mu       sync.Mutex // guards the fields below; held over the sending of a round, never over waiting for one
	state    state
	ttl      time.Duration // as the nodes know it
	until    clock.Instant // end of validity
	touched  uint64        // nodes that have, may have or may yet get our value
	epoch    uint64        // of the electorate, when the round began that it is held by
	err      error         // why it is no longer held
	done     chan struct{} // closed when err is set; nil until Done is first called
	contexts []context.CancelCauseFunc
	release  *round        // nil until the releases are sent
	extender chan struct{} // holds a token while an extension is under way; nil until the first
}

func newLock(l *Locker, name string, cfg *lockConfig) *Lock {
	lock := &Lock{
		locker: l, name: name, key: l.config.keyPrefix + name, value: cfg.newValue(),
		ttl: cfg.ttl, timeout: l.config.timeout(cfg.ttl), expiryIndex: -1,
	}
	lock.keyArg, lock.valueArg = lock.key, lock.value
	return lock
}

// Name returns the name that the lock was acquired by.
func (lock *Lock) Name() string { return lock.name }

// Value returns what the nodes hold under the lock's key. Whoever knows it can release the lock.
func (lock *Lock) Value() string { return lock.value }

// Remaining returns how much validity is left. It reads the clock at each call: the machine may have slept. Zero or
// less means that the lock is not ours.
func (lock *Lock) Remaining() time.Duration {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	now := lock.locker.clock.Now()
	lock.expireLocked(now)
	left := lock.until.Sub(now)
	if lock.state != held {
		return min(left, 0)
	}
	return left
}

// Until returns when validity ends by the wall clock, for logs. Decide by [Lock.Remaining], which no clock change moves.
func (lock *Lock) Until() time.Time {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	clk := lock.locker.clock
	return clk.Wall().Add(lock.until.Sub(clk.Now()))
}

// Done is closed when the lock is no longer held: at the end of its validity by the local clock, whatever the network
// does, or when it is released.
func (lock *Lock) Done() <-chan struct{} {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	if lock.done == nil {
		lock.done = make(chan struct{})
		if lock.err != nil {
			close(lock.done)
		}
	}
	lock.expireLocked(lock.locker.clock.Now())
	return lock.done
}

// Err returns nil while the lock is held, then [ErrLost] with the reason, or [ErrReleased]. Like Remaining it reads the clock.
func (lock *Lock) Err() error {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	lock.expireLocked(lock.locker.clock.Now())
	return lock.err
}

// Context returns a context for the work that the lock protects: a child of parent that ends when the lock is no longer held.
// context.Cause then tells why, [ErrLost] or [ErrReleased]. Like any context it cannot stop work that does not look at it.
func (lock *Lock) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	lock.mu.Lock()
	defer lock.mu.Unlock()
	lock.expireLocked(lock.locker.clock.Now())
	if lock.err != nil {
		cancel(lock.err)
		return ctx
	}
	lock.contexts = append(lock.contexts, cancel)
	return ctx
}

// expireLocked moves a held lock to lost when its validity has ended. Everything that tells or uses the state looks
// here first, so that the truth does not depend on a timer having run.
func (lock *Lock) expireLocked(now clock.Instant) {
	if lock.state == held && now >= lock.until {
		lock.endLocked(lost, errExpired)
	}
}

// expire is called by the locker's expiry, when the validity that it knew of has ended.
func (lock *Lock) expire(now clock.Instant) {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	lock.expireLocked(now)
}

// nodesForgot is called when a node has restarted and forgot its keys: the lock is lost when a quorum has, since it was
// last confirmed.
func (lock *Lock) nodesForgot() {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	if voters := lock.locker.voters; lock.state == held && voters.forgotten(lock.epoch) >= quorum(len(voters.nodes)) {
		lock.endLocked(lost, errForgot)
	}
}

// endLocked moves a held lock to its end and tells everyone who waits for it.
func (lock *Lock) endLocked(to state, reason error) {
	lock.state.move(to)
	lock.err = reason
	if lock.done != nil {
		close(lock.done)
	}
	for _, cancel := range lock.contexts {
		cancel(reason)
	}
	lock.contexts = nil
	if to == lost {
		lock.locker.counts.lost.Add(1)
	}
}
