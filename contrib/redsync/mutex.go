package redsync

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// A Mutex is a lock by name, as redsync has it: it holds at most one lock, and can be locked again.
// [Redsync.NewMutex] makes it. It must not be copied.
//
// Its methods may be called from any goroutine, which redsync's may not: one goroutine may extend
// what another one locks and unlocks. But as with redsync, Unlock and Extend act on the lock that
// the Mutex got last, whoever calls them. So each holder has a Mutex of its own: if two goroutines
// lock one Mutex, and the lock of the first expires, its Unlock releases that of the second.
type Mutex struct {
	locker *redlock.Locker
	name   string

	expiry      time.Duration
	tries       int
	pause       time.Duration
	delay       DelayFunc // instead of pause; nil for none
	driftFactor float64
	generate    func() (string, error) // nil: the Locker's owner
	bad         error                  // the first bad argument of NewMutex

	adopting chan struct{} // has an entry while a call adopts the lock of WithValue

	mu       sync.Mutex    // guards the fields below; never held over I/O
	value    string        // of WithValue; of no use once there is a lock
	lock     *redlock.Lock // the last one; nil before the first
	unlocked bool          // Unlock has been called for it
}

// Name returns the name that the Mutex was made with.
func (m *Mutex) Name() string { return m.name }

// Value returns what the masters have for the lock that the Mutex got last, also after its end;
// before the first, that of [WithValue], or "". What the function of [WithGenValueFunc] made is a
// part of it.
func (m *Mutex) Value() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lock == nil {
		return m.value
	}
	return m.lock.Value()
}

// Until returns when the validity of the lock ends: the zero time before the first Lock. It reads
// the clock, so it is right after the machine slept. Once the lock has ended, by Unlock or because
// it was lost, Until is not in the future; redsync's stays as it was.
func (m *Mutex) Until() time.Time {
	m.mu.Lock()
	lock := m.lock
	m.mu.Unlock()
	if lock == nil {
		return time.Time{}
	}
	return time.Now().Add(lock.Remaining() - m.margin())
}

// Valid is [Mutex.ValidContext] with context.Background().
//
// Deprecated: use Until.
func (m *Mutex) Valid() (bool, error) { return m.ValidContext(context.Background()) }

// ValidContext asks the masters whether a quorum still has the lock under the value of the Mutex,
// and the clock whether its validity runs. As with redsync, there may be an error beside true: what
// the other masters said.
//
// Deprecated: use Until.
func (m *Mutex) ValidContext(ctx context.Context) (bool, error) {
	ctx, err := m.check(ctx)
	if err != nil {
		return false, err
	}
	valid, err := m.look(ctx, m.Value(), false)
	m.mu.Lock()
	lock := m.lock
	m.mu.Unlock()
	if valid && lock != nil && lock.Remaining() <= m.margin() {
		return false, ErrLockAlreadyExpired
	}
	return valid, err
}

// hold makes the lock the one of the Mutex.
func (m *Mutex) hold(lock *redlock.Lock) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lock, m.unlocked = lock, false
}

// check returns the context of a call, or why there can be none. As with redsync, it may be nil.
func (m *Mutex) check(ctx context.Context) (context.Context, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	if m.locker == nil && m.bad == nil {
		return ctx, fmt.Errorf("redsync: %w: the Mutex was not made by NewMutex", redlock.ErrInvalid)
	}
	return ctx, m.bad
}
