package redlock

import "context"

// Context returns a context for the work that the lock protects: a child of parent that ends when
// the lock is no longer held. context.Cause then tells why, [ErrLost] or [ErrReleased]. Like any
// context it cannot stop work that does not look at it. It needs no cancelling: those of parents
// that end together share what they cost, and that is freed when their parents end or the lock
// does.
func (lock *Lock) Context(parent context.Context) context.Context {
	done := parent.Done()
	lock.mu.Lock()
	defer lock.mu.Unlock()
	lock.expireLocked(lock.locker.clock.Now())
	if d := lock.contexts[done]; d != nil {
		return &sharing{Context: parent, derived: d}
	}
	d := &derived{}
	d.ctx, d.cancel = context.WithCancelCause(parent)
	if lock.err != nil {
		d.cancel(lock.err)
		return d.ctx
	}
	if lock.contexts == nil {
		lock.contexts = make(map[<-chan struct{}]*derived)
	}
	lock.contexts[done] = d
	context.AfterFunc(d.ctx, func() { // a parent may end long before the lock
		lock.mu.Lock()
		defer lock.mu.Unlock()
		if lock.contexts[done] == d {
			delete(lock.contexts, done)
		}
	})
	return d.ctx
}

// derived is a context that ends with a lock, or with its parent, and with all other contexts that
// have the Done of its parent: a value on top of a context, as each task or span has one, does not
// change when it ends. One registration for all of them is what keeps a lock of months from having
// one for each task.
type derived struct {
	ctx    context.Context //nolint:containedctx // it is the one that is handed out
	cancel context.CancelCauseFunc
}

// sharing is a context that ends with a derived one, and has the values and the deadline of its own
// parent. Nobody refers to it but its user, so it goes when it is no longer used.
type sharing struct {
	context.Context //nolint:containedctx // the parent, as in the contexts of the standard library

	derived *derived
}

// Done is closed when the lock or the parent ends.
func (s *sharing) Done() <-chan struct{} { return s.derived.ctx.Done() }

// Err says why.
func (s *sharing) Err() error { return s.derived.ctx.Err() }

// Value returns the parent's value. Package context asks by a key of its own for what cancels a
// context: a derived one answers with itself, and with itself only to that. So context.Cause and
// children work as with any context that the package has made.
func (s *sharing) Value(key any) any {
	if v := s.derived.ctx.Value(key); v == s.derived.ctx {
		return v
	}
	return s.Context.Value(key)
}
