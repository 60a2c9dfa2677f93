package redsync

import (
	"context"
	"errors"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/redlock"
)

// Extend is [Mutex.ExtendContext] with context.Background().
func (m *Mutex) Extend() (bool, error) { return m.ExtendContext(context.Background()) }

// ExtendContext gives the lock its whole expiry again, from now on, if a quorum of masters still
// has it. It returns true and no error, or false and an error. It brings nothing back to life: a
// lock whose validity has ended, by the clock or at the masters, stays lost, also with
// [WithSetNXOnExtend]. Nor does it extend a lock that Unlock has released, or is releasing.
//
// Errors: *[ErrTaken] if a quorum does not have the lock (it is lost) or the Mutex holds none;
// [ErrExtendFailed] if the validity had ended while the masters still had it, or the answers came
// too late; a *[RedisError] for each master that failed if there was no quorum (the lock is as
// valid as before); [redlock.ErrClosed].
func (m *Mutex) ExtendContext(ctx context.Context) (bool, error) {
	ctx, err := m.check(ctx)
	if err != nil {
		return false, err
	}
	lock, adopted, err := m.claim(ctx)
	switch {
	case adopted && lock.Remaining() > m.margin():
		return true, nil
	case !adopted && lock != nil && lock.Remaining() > m.margin():
		if err = lock.Extend(ctx, m.expiry); err == nil && lock.Remaining() <= m.margin() {
			return false, ErrExtendFailed
		}
		if err == nil {
			return true, nil
		}
	}
	if err != nil && !gone(err) {
		return false, m.explain(ctx, err)
	}
	if ours, err := m.look(ctx, m.Value(), false); !ours && err != nil {
		return false, err
	}
	return false, ErrExtendFailed
}

// gone reports whether the error says that there is no such lock.
func gone(err error) bool {
	return !errors.Is(err, redlock.ErrClosed) && (errors.Is(err, redlock.ErrLost) || errors.Is(err, redlock.ErrReleased))
}

// Unlock is [Mutex.UnlockContext] with context.Background().
func (m *Mutex) Unlock() (bool, error) { return m.UnlockContext(context.Background()) }

// UnlockContext releases the lock on all masters. It returns true once a quorum has released it.
// Masters that are away get the release when they are back. The end of ctx does not cut it short:
// it takes a node timeout at most.
//
// A Mutex that holds no lock, or whose lock was released or lost before, is asked about at the
// masters. Nothing of anybody else is released.
//
// Errors, with false: [ErrLockAlreadyExpired] if the masters have no such lock; *[ErrTaken] if
// somebody else has it; a *[RedisError] for each master that failed if there was no quorum (the
// lock ends with its expiry at the latest); [redlock.ErrClosed].
func (m *Mutex) UnlockContext(ctx context.Context) (bool, error) {
	ctx, err := m.check(ctx)
	if err != nil {
		return false, err
	}
	ctx = context.WithoutCancel(ctx)
	if _, _, err := m.claim(ctx); err != nil && !gone(err) {
		return false, m.explain(ctx, err)
	}
	m.mu.Lock()
	lock, ended := m.lock, m.lock == nil || m.unlocked
	m.unlocked = true
	m.mu.Unlock()
	if !ended {
		if err := lock.Unlock(ctx); err == nil {
			return true, nil
		} else if !gone(err) {
			m.mu.Lock()
			if m.lock == lock {
				m.unlocked = false // another call asks what has become of the release
			}
			m.mu.Unlock()
			return false, m.explain(ctx, err)
		}
	}
	if _, err := m.look(ctx, m.Value(), true); err != nil {
		return false, err
	}
	return false, ErrLockAlreadyExpired
}

// claim returns the lock of the Mutex, nil if it has none. That of WithValue it adopts, with its
// whole expiry.
func (m *Mutex) claim(ctx context.Context) (_ *redlock.Lock, adopted bool, _ error) {
	m.mu.Lock()
	lock, value := m.lock, m.value
	m.mu.Unlock()
	if lock != nil || value == "" {
		return lock, false, nil
	}
	select {
	case m.adopting <- struct{}{}:
		defer func() { <-m.adopting }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	m.mu.Lock()
	lock = m.lock
	m.mu.Unlock()
	if lock != nil {
		return lock, false, nil
	}
	options := []redlock.LockOption{redlock.WithTTL(m.expiry), redlock.WithoutRenewal()}
	lock, err := m.locker.Adopt(ctx, m.name, value, options...)
	if errors.Is(err, redlock.ErrLost) { // it may be what the program made
		status, unclear := admin.Of(m.locker).Inspect(ctx, m.name)
		if whole := valueIn(status, value); unclear == nil && whole != value {
			lock, err = m.locker.Adopt(ctx, m.name, whole, options...)
		}
	}
	if err != nil {
		return nil, false, err
	}
	m.hold(lock)
	return lock, true, nil
}
