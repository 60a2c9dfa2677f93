package redlock

import "context"

// Context returns a context for the work that the lock protects: a child of parent that ends when
// the lock is no longer held. context.Cause then returns [ErrLost] or [ErrReleased]. Like any
// context, it cannot stop work that does not check it. There is no need to cancel it: contexts
// whose parents end together share their cost, which is freed when the parents or the lock end.
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

// derived is a context that ends with a lock or with its parent. All other contexts with the same
// parent Done share it: a value on top of a context, as each task or span has one, does not change
// when the context ends. With one registration for all of them, a lock that is held for months does
// not accumulate one for each task.
type derived struct {
	ctx    context.Context //nolint:containedctx // it is handed out
	cancel context.CancelCauseFunc
}

// sharing is a context that ends with a derived one, and has the values and the deadline of its own
// parent. Only its user refers to it, so it is collected when it is no longer used.
type sharing struct {
	context.Context //nolint:containedctx // the parent, as in the contexts of the standard library

	derived *derived
}

// Done is closed when the lock or the parent ends.
func (s *sharing) Done() <-chan struct{} { return s.derived.ctx.Done() }

// Err returns why it ended, or nil.
func (s *sharing) Err() error { return s.derived.ctx.Err() }

// Value returns the parent's value. Package context uses a key of its own to find what cancels a
// context; a derived context answers that key, and only that key, with itself. So context.Cause and
// children work as with any context that the package made.
func (s *sharing) Value(key any) any {
	if v := s.derived.ctx.Value(key); v == s.derived.ctx {
		return v
	}
	return s.Context.Value(key)
}
