// Package redsync has the API of github.com/go-redsync/redsync/v4 on a redlock.Locker. A program
// that was written for redsync changes one import, and makes its Redsync of a Locker:
//
//	import "github.com/redquorum/redquorum/contrib/redsync"
//
//	rs := redsync.New(locker) // was: redsync.New(pools...)
//
//	mutex := rs.NewMutex("orders/42", redsync.WithExpiry(10*time.Second))
//	if err := mutex.LockContext(ctx); err != nil {
//		return err
//	}
//	defer mutex.Unlock()
//
// Methods, options, errors and results are those of redsync, unless their documentation says
// otherwise. A Mutex is not renewed: its holder calls Extend, as with redsync. Clients of redsync
// on the same masters exclude these and are excluded by them, so machines change over one by one.
//
// It is a step on the way: only package redlock itself renews locks, tells a holder that it lost
// its lock, and has fencing tokens.
package redsync

import (
	"fmt"

	"github.com/redquorum/redquorum/redlock"
)

// Redsync makes mutexes. Its methods may be called from any goroutine.
type Redsync struct{ locker *redlock.Locker }

// New returns a Redsync on the masters of a Locker, which the caller closes when no Mutex is used
// any more. [redlock.WithMaxTTL] of the Locker (1 min by default) bounds the expiry of a Mutex.
func New(locker *redlock.Locker) *Redsync { return &Redsync{locker} }

// NewMutex returns a Mutex for a name: 1 to 4,096 bytes. Its key is the Locker's prefix and the
// name. A bad name or option is [redlock.ErrInvalid] of each call that needs it, beginning with
// Lock.
func (r *Redsync) NewMutex(name string, options ...Option) *Mutex {
	m := &Mutex{
		locker: r.locker, name: name, expiry: defaultExpiry, tries: defaultTries, pause: defaultPause,
		adopting: make(chan struct{}, 1),
	}
	if r.locker == nil {
		m.invalid("locker is nil")
	}
	for i, option := range options {
		if option == nil {
			m.invalid("option %d is nil", i+1)
			continue
		}
		option.Apply(m)
	}
	return m
}

// invalid notes the first bad argument.
func (m *Mutex) invalid(format string, args ...any) {
	if m.bad == nil {
		m.bad = fmt.Errorf("redsync: %w: %w", redlock.ErrInvalid, fmt.Errorf(format, args...))
	}
}
