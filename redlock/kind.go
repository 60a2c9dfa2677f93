package redlock

import (
	"slices"
	"time"

	"github.com/redquorum/redquorum/redlock/internal/schedule"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// set is the names of a lock of several. For a permit of a semaphore it is the name of its slot,
// and of the semaphore as long as it has none. For a lock of any of several names it is that name,
// and all of them as long as it has none.
type set struct {
	names, keys []string
	semaphore   *Semaphore // nil for several names
	slot        int        // of the semaphore; until it has one, the one to try first
	all         []string   // the keys of the names to choose from; nil if there is no choice
}

func newLock(l *Locker, names []string, cfg *lockConfig) *Lock {
	lock := newBareLock(l, cfg)
	var room [valueRoom]byte
	value := cfg.appendValue(room[:0], l.clock.Wall())
	if len(names) == 1 {
		lock.claim, lock.key[0], lock.value = wire.NewClaim(l.config.keyPrefix, names[0], value, l.config.termsOf(lock))
		return lock
	}
	lock.value = string(value)
	lock.set = &set{names: slices.Clone(names)}
	for _, name := range names {
		lock.set.keys = append(lock.set.keys, l.config.keyPrefix+name)
	}
	return lock
}

// newBareLock returns a lock without names and value.
func newBareLock(l *Locker, cfg *lockConfig) *Lock {
	return &Lock{
		locker: l, renews: !cfg.withoutRenewal, guards: cfg.guards, fenced: cfg.fencing, part: cfg.part, shared: cfg.shared,
		ttl: cfg.ttl.Truncate(time.Millisecond), timeout: l.config.timeout(cfg.ttl), heldUntil: schedule.Never,
		minHold: uint32(ceilMillis(cfg.minHold).Milliseconds()),
	}
}

// semaphore returns that of a permit, and nil for a mutex.
func (lock *Lock) semaphore() *Semaphore {
	if lock.set == nil {
		return nil
	}
	return lock.set.semaphore
}

// chooses reports whether nodes may give the lock different keys.
func (lock *Lock) chooses() bool {
	return lock.set != nil && (lock.set.semaphore != nil || lock.set.all != nil)
}

// queued returns the keys under which the desk knows the waiters for the lock.
func (lock *Lock) queued() []string {
	if s := lock.semaphore(); s != nil {
		return s.queue
	}
	return lock.keys()
}

// keys returns the keys of all names of the lock. They must not be changed.
func (lock *Lock) keys() []string {
	if lock.set != nil {
		return lock.set.keys
	}
	return lock.key[:]
}

// Name returns the name that the lock was acquired by; for a set, the first. For a permit of a
// [Semaphore] it is the name of its slot.
func (lock *Lock) Name() string {
	if lock.set != nil {
		return lock.set.names[0]
	}
	return lock.key[0][len(lock.locker.config.keyPrefix):]
}

// Names returns all names of the lock, in the order in which they were given.
func (lock *Lock) Names() []string {
	if lock.set != nil {
		return slices.Clone(lock.set.names)
	}
	return []string{lock.Name()}
}
