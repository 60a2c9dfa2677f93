package redsync

import (
	"math"
	"time"
)

// What a Mutex is without options. These are redsync's.
const (
	defaultExpiry = 8 * time.Second
	defaultTries  = 32
	defaultPause  = 150 * time.Millisecond // the mean of redsync's
)

// An Option configures a [Mutex].
type Option interface {
	// Apply is for NewMutex to call.
	Apply(*Mutex)
}

// OptionFunc is an [Option] that is a function.
type OptionFunc func(*Mutex)

// Apply calls the function.
func (f OptionFunc) Apply(m *Mutex) { f(m) }

// A DelayFunc returns how long to pause after a number of tries, beginning with 1.
type DelayFunc func(tries int) time.Duration

// WithExpiry sets for how long the masters keep the lock (default 8 s): from 10 ms to the Locker's
// [redlock.WithMaxTTL]. Anything else is [redlock.ErrInvalid] of Lock. The default TTL of the
// Locker is not used.
func WithExpiry(expiry time.Duration) Option {
	return OptionFunc(func(m *Mutex) { m.expiry = expiry })
}

// WithTries sets how often Lock tries (default 32). Below 1 it always fails. It decides how long
// Lock waits: see [Mutex.LockContext].
func WithTries(tries int) Option {
	return OptionFunc(func(m *Mutex) { m.tries = tries })
}

// WithRetryDelay sets the pause between two tries (default 150 ms, the mean of redsync's). Less
// than 1 ms counts as 1 ms.
func WithRetryDelay(delay time.Duration) Option {
	return OptionFunc(func(m *Mutex) { m.pause, m.delay = max(delay, time.Millisecond), nil })
}

// WithRetryDelayFunc sets a function that returns the pause after each try. It is called as redsync
// calls it, on the goroutine of Lock, and only after a try that failed.
func WithRetryDelayFunc(delay DelayFunc) Option {
	return OptionFunc(func(m *Mutex) {
		if m.delay = delay; delay == nil {
			m.invalid("the DelayFunc is nil")
		}
	})
}

// WithDriftFactor takes a share of the expiry off the validity, at least 0 and below what the
// Locker leaves. It comes on top of the Locker's own allowance ([redlock.WithDrift], 1 % and 2 ms
// by default), which alone counts without this option, and which this option cannot reduce.
func WithDriftFactor(factor float64) Option {
	return OptionFunc(func(m *Mutex) {
		if !(factor >= 0 && factor < 1) { // NaN, too
			m.invalid("drift factor %v is not from 0 to below 1", factor)
			return
		}
		m.driftFactor = factor
	})
}

// margin returns what WithDriftFactor takes off, rounded against the holder.
func (m *Mutex) margin() time.Duration {
	return time.Duration(math.Ceil(float64(m.expiry) * m.driftFactor))
}

// WithTimeoutFactor has no effect: how long a round waits for a master is set for the Locker, by
// [redlock.WithNodeTimeout]. Its default is that of redsync, a twentieth of the expiry, but at
// least 20 ms and at most 500 ms.
func WithTimeoutFactor(float64) Option { return OptionFunc(func(*Mutex) {}) }

// WithGenValueFunc sets where the text comes from that another Mutex may give to [WithValue], for
// programs that must know it: up to 256 bytes; Lock refuses longer ones, with [redlock.ErrInvalid].
// The masters have it behind a random value, in place of the Locker's [redlock.WithOwner], and
// [Mutex.Value] is the whole. So locks may have the same text, such as the name of the host, one
// after the other: no release of one touches the next.
//
// The function is called once per Lock, and its error is that of Lock.
func WithGenValueFunc(genValueFunc func() (string, error)) Option {
	return OptionFunc(func(m *Mutex) {
		if m.generate = genValueFunc; genValueFunc == nil {
			m.invalid("the function of WithGenValueFunc is nil")
		}
	})
}

// WithValue gives a new Mutex the value of a lock that another Mutex, of this package or redsync's,
// holds under the same name: up to 1,024 bytes; "" is no value. [Mutex.UnlockContext] then releases
// that lock, and [Mutex.ValidContext] asks about it. What [WithGenValueFunc] of this package made
// will do as well: it stands for the lock that has the name when the masters are asked.
//
// [Mutex.ExtendContext] takes the lock over, with a fresh value ([redlock.Locker.Adopt]). From then
// on the old value owns nothing, and the first Mutex can neither extend nor release the lock: pass
// on the new [Mutex.Value]. With redsync both could go on, each believing in its own validity.
func WithValue(v string) Option {
	return OptionFunc(func(m *Mutex) { m.value = v })
}

// WithSetNXOnExtend has no effect: Extend always gives the lock back to a master that has forgotten
// it, as long as a quorum has not. It does not acquire a lock that has ended, as redsync does with
// this option: somebody else may have held it in between.
func WithSetNXOnExtend() Option { return OptionFunc(func(*Mutex) {}) }

// WithFailFast has no effect: the quorum always decides, and no call waits for the other masters.
func WithFailFast(bool) Option { return OptionFunc(func(*Mutex) {}) }

// WithShufflePools has no effect: a Locker sends to all masters at once, and waiters for different
// names wait at different masters.
func WithShufflePools(bool) Option { return OptionFunc(func(*Mutex) {}) }
