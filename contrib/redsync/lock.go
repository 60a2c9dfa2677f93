package redsync

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// TryLock is [Mutex.TryLockContext] with context.Background().
func (m *Mutex) TryLock() error { return m.TryLockContext(context.Background()) }

// TryLockContext tries once. Errors: those of [Mutex.LockContext], but if ctx ended a *[RedisError]
// for each master that had not answered, which matches that of ctx.
func (m *Mutex) TryLockContext(ctx context.Context) error { return m.lockContext(ctx, 1) }

// Lock is [Mutex.LockContext] with context.Background().
func (m *Mutex) Lock() error { return m.LockContext(context.Background()) }

// LockContext waits for the lock for as long as all pauses between the tries take together: 31 of
// 150 ms by default. It stands in line meanwhile, with the waiters of all processes, and the
// release wakes it, so it usually has the lock much sooner than by trying. At the end of that time
// it tries once more, and returns the error of that try.
//
// A Mutex that is held cannot be locked again: Lock waits for itself, and fails with *[ErrTaken]
// unless its lock ends meanwhile. After an error the Mutex is as before, and may be locked again.
//
// Errors: *[ErrTaken] if somebody else has the lock; a *[RedisError] for each master that failed,
// with [redlock.ErrNoQuorum], if too few answered; [ErrFailed] itself if ctx ended, or the lock was
// granted too late; [redlock.ErrInvalid] for a bad argument of NewMutex; [redlock.ErrClosed]; and
// that of the function of [WithGenValueFunc].
func (m *Mutex) LockContext(ctx context.Context) error { return m.lockContext(ctx, m.tries) }

func (m *Mutex) lockContext(ctx context.Context, tries int) error {
	ctx, err := m.check(ctx)
	if err != nil {
		return err
	}
	if tries < 1 {
		return ErrFailed
	}
	options, err := m.options()
	if err != nil {
		return err
	}
	var lock *redlock.Lock
	switch {
	case tries > 1 && m.delay == nil:
		lock, err = m.wait(ctx, tries-1, options)
	case tries > 1:
		lock, err = m.waitPausing(ctx, tries-1, options)
	}
	if lock == nil && err == nil {
		if lock, err = m.locker.TryLock(ctx, m.name, options...); err != nil {
			err = m.explain(ctx, err)
		}
	}
	if err != nil {
		return err
	}
	m.hold(lock)
	return nil
}

// wait waits for as long as so many pauses take. Without a lock and an error, it was not acquired
// by then.
func (m *Mutex) wait(ctx context.Context, pauses int, options []redlock.LockOption) (*redlock.Lock, error) {
	patience := time.Duration(math.MaxInt64)
	if time.Duration(pauses) < patience/m.pause {
		patience = time.Duration(pauses) * m.pause
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	lock, err := m.locker.Lock(waiting, m.name, options...)
	return waited(ctx, lock, err)
}

// waited returns what a wait of the Locker means for Lock.
func waited(ctx context.Context, lock *redlock.Lock, err error) (*redlock.Lock, error) {
	switch {
	case err == nil:
		return lock, nil
	case errors.Is(err, redlock.ErrInvalid), errors.Is(err, redlock.ErrClosed):
		return nil, err
	case ctx.Err() != nil:
		return nil, ErrFailed
	}
	return nil, nil
}

// waitPausing is wait with pauses that a function of the caller decides. It is called only after a
// try that failed, and on this goroutine. So another one waits for the lock.
func (m *Mutex) waitPausing(ctx context.Context, pauses int, options []redlock.LockOption) (*redlock.Lock, error) {
	lock, err := m.locker.TryLock(ctx, m.name, options...)
	if lock, err = waited(ctx, lock, err); lock != nil || err != nil {
		return lock, err
	}
	type result struct {
		lock *redlock.Lock
		err  error
	}
	waiting, cancel := context.WithCancel(ctx)
	results := make(chan result, 1)
	go func() {
		lock, err := m.locker.Lock(waiting, m.name, options...)
		results <- result{lock, err}
	}()
	received := false
	defer func() {
		cancel()
		if received {
			return
		}
		if r := <-results; r.lock != nil { // the function has panicked
			_ = r.lock.Unlock(ctx) //nolint:errcheck // nobody is left to tell
		}
	}()
	var r result
	for i := 1; i <= pauses && !received; i++ {
		timer := time.NewTimer(m.delay(i))
		select {
		case r = <-results: // also when ctx ends
			received = true
		case <-timer.C:
		}
		timer.Stop()
	}
	if !received {
		cancel()
		r, received = <-results, true
	}
	return waited(ctx, r.lock, r.err)
}

// options returns the options of the Locker's calls in one Lock. What the program makes is stored
// as the owner, behind a random value: that of one attempt must never be that of another.
func (m *Mutex) options() ([]redlock.LockOption, error) {
	options := []redlock.LockOption{redlock.WithTTL(m.expiry), redlock.WithoutRenewal()}
	if m.driftFactor > 0 {
		options = append(options, redlock.WithMinValidity(m.margin()))
	}
	if m.generate == nil {
		return options, nil
	}
	text, err := m.generate()
	return append(options, redlock.WithOwner(text)), err
}
