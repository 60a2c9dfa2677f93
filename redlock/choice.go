package redlock

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// TryLockAny acquires the first of the names that is free; [Lock.Name] says which. It takes 1 to
// 256 names, each once, and one round, or two if the nodes do not all have the same name free. It
// returns within a node timeout for each. Otherwise it works like [Locker.TryLock]. The lock is
// like any other of its name.
func (l *Locker) TryLockAny(ctx context.Context, names []string, opts ...LockOption) (_ *Lock, err error) {
	ctx, span := l.trace(ctx, OperationAcquire, firstOf(names))
	defer func() { span.end(err) }()
	c, err := l.callForAny(ctx, names, opts)
	if err != nil {
		return nil, err
	}
	return l.try(ctx, &c)
}

// callForAny returns a call for the first of the names that is free.
func (l *Locker) callForAny(ctx context.Context, list []string, opts []LockOption) (call, error) {
	c, err := l.callForAll(ctx, list, opts)
	if all, several := c.kind.(*names); several {
		c.kind = &choice{names: *all}
	}
	return c, err
}

// LockAny acquires the first of the names that is free, and waits for one as long as ctx allows:
// for each name as [Locker.Lock] does, at the same time. It takes 1 to 256 names, each once.
// [Lock.Name] says which it got. The error is that of a name that is not just taken, or of the
// first.
func (l *Locker) LockAny(ctx context.Context, names []string, opts ...LockOption) (_ *Lock, err error) {
	ctx, span := l.trace(ctx, OperationAcquire, firstOf(names))
	defer func() { span.end(err) }()
	c, err := l.callForAny(ctx, names, opts)
	if err != nil {
		return nil, err
	}
	if len(names) == 1 {
		return l.acquire(ctx, &c)
	}
	since := l.clock.Now()
	if !l.waiters.Record.Contended(l.config.keyPrefix, names) {
		lock, _, err := l.tryAcquire(ctx, &c)
		var failure *QuorumError
		if !errors.As(err, &failure) || failure.ended != nil {
			return lock, c.missed(err)
		}
	}
	lock, err := l.awaitAny(ctx, &c, since)
	return lock, c.missed(err)
}

// awaitAny waits for all names, each with a value of its own. The first wait that is granted a lock
// takes it, and ends the others, which undo what they have as always.
func (l *Locker) awaitAny(ctx context.Context, c *call, since clock.Instant) (got *Lock, err error) {
	ctx, over := l.waiting(ctx, c, since)
	defer func() { over(err) }()
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	taken := new(atomic.Bool)
	type result struct {
		name int
		lock *Lock
		err  error
	}
	results := make(chan result, len(c.list))
	for i, name := range c.list {
		go func() {
			one := call{lockConfig: c.lockConfig, locker: l, kind: mutex{}, name: [1]string{name}, first: c.name[0], taken: taken, waited: true, since: since}
			lock, err := l.acquire(waiting, &one)
			results <- result{i, lock, err}
		}()
	}
	errs := make([]error, len(c.list))
	for range c.list {
		r := <-results
		if errs[r.name] = r.err; r.err == nil {
			got = r.lock
		}
		if r.err == nil || errors.Is(r.err, ErrClosed) {
			cancel()
		}
	}
	if got == nil {
		return nil, foremost(errs)
	}
	return got, nil
}

// foremost returns the error that tells most: of the first name that is not just taken; if all are,
// that of the first name.
func foremost(errs []error) error {
	for _, tells := range []func(error) bool{
		func(err error) bool { return errors.Is(err, ErrClosed) },
		func(err error) bool { return !errors.Is(err, ErrTaken) },
	} {
		if i := slices.IndexFunc(errs, tells); i >= 0 {
			return errs[i]
		}
	}
	return errs[0]
}

// choice is the kind of a lock of the first that is free of several names. It has the chosen name;
// until there is one, and for the release of what was not taken, all of them.
type choice struct {
	names

	all []string // the keys of all; nil until one was chosen
}

func (c *choice) fresh() kind { return &choice{names: c.names} }

func (c *choice) acquire(lock *Lock, one int, _ bool) pipeline.Request {
	take := wire.TakeAny{
		Keys: c.keys, Value: lock.value, TTL: lock.life(), Grace: lock.grace(), Only: one, Fencing: lock.fencing(),
	}
	return take.Request()
}

func (c *choice) chooses() bool { return true }

func (c *choice) take(_ *Lock, r *round.Round) {
	one := r.Chosen()
	c.all = c.keys
	c.list, c.keys = c.list[one-1:one], c.keys[one-1:one]
}

func (c *choice) untake(lock *Lock) {
	lock.mu.Lock() // it may be told of late votes
	defer lock.mu.Unlock()
	if c.all != nil {
		c.keys = c.all
	}
}

func (c *choice) strays(lock *Lock) (_ pipeline.Request, some bool) {
	others := slices.DeleteFunc(slices.Clone(c.all), func(key string) bool { return key == c.keys[0] })
	if len(others) == 0 {
		return pipeline.Request{}, false
	}
	return wire.Release(&wire.Claim{}, others, lock.value, lock.grace(), ""), true
}
