package redlock

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wait"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// TryLockAll acquires all names, or none. Each node decides on all of them in one step, so the
// order of the names does not matter, and two sets that overlap exclude each other. It takes 1 to
// 256 names, each once. Otherwise it works like [Locker.TryLock].
func (l *Locker) TryLockAll(ctx context.Context, names []string, opts ...LockOption) (_ *Lock, err error) {
	ctx, span := l.trace(ctx, OperationAcquire, firstOf(names))
	defer func() { span.end(err) }()
	c, err := l.callForAll(ctx, names, opts)
	if err != nil {
		return nil, err
	}
	return l.try(ctx, &c)
}

// LockAll acquires all names as [Locker.TryLockAll] does, and waits for them as [Locker.Lock] does.
// It gets its turn even if others lock the names all the time, as long as they hold them for less
// than a minute: after a few refusals it takes the names one after the other, in the order of their
// keys, so that no two sets wait for each other. For each further name it waits as long as it has
// waited so far, at most a minute, and keeps the names that it has; then it gives all of them back,
// and leaves them to others for as long as it had them. While it waits for a name that readers
// have, it keeps new readers out of that one (see [Locker.RLock]).
func (l *Locker) LockAll(ctx context.Context, names []string, opts ...LockOption) (_ *Lock, err error) {
	ctx, span := l.trace(ctx, OperationAcquire, firstOf(names))
	defer func() { span.end(err) }()
	c, err := l.callForAll(ctx, names, opts)
	if err != nil {
		return nil, err
	}
	return l.acquire(ctx, &c)
}

// callForAll returns a call for all of the names, after checking all of its arguments.
func (l *Locker) callForAll(ctx context.Context, list []string, opts []LockOption) (c call, err error) {
	if len(list) == 0 || len(list) > maxExtended {
		return c, invalid("%d names, not 1 to %d", len(list), maxExtended)
	}
	seen := make(map[string]bool, len(list))
	for i, name := range list {
		if seen[name] {
			return c, invalid("name %d (%q) is given twice", i+1, name)
		}
		seen[name] = true
		if c, err = l.newCall(ctx, name, opts); err != nil {
			return c, err
		}
	}
	if len(list) > 1 {
		c.name[0], c.list, c.kind = list[0], list, newNames(l, list)
	}
	return c, nil
}

// names is the kind of a lock of several names: a mutex of many keys.
type names struct {
	mutex

	list, keys []string
}

func newNames(l *Locker, list []string) *names {
	n := &names{list: slices.Clone(list)}
	for _, name := range list {
		n.keys = append(n.keys, l.config.keyPrefix+name)
	}
	return n
}

func (n *names) fresh() kind            { return n }
func (n *names) nameOf(*Lock) string    { return n.list[0] }
func (n *names) namesOf(*Lock) []string { return n.list }
func (n *names) keysOf(*Lock) []string  { return n.keys }

// A set is announced at its coordinator only, for the name that it waits for.
func (n *names) acquire(lock *Lock, _ int, _ bool) pipeline.Request {
	return wire.Acquire(&lock.claim, n.keys, lock.value, lock.life(), lock.fencing())
}

// Part returns the call for one name of a set that takes its names one after the other: locks of
// their own, which are renewed until it has all, and have no tokens.
func (c *call) Part(name string) wait.Call {
	one := &call{lockConfig: c.lockConfig, locker: c.locker, kind: mutex{}, name: [1]string{name}, first: c.name[0], part: true, waits: true, taken: c.taken}
	one.withoutRenewal, one.fencing = false, false
	one.maxHold, one.minHold, one.minValidity = 0, 0, 0
	return one
}

// Join makes one lock from the parts, which ends them. Parts on nodes that did not grant it are
// given back.
func (c *call) Join(ctx context.Context, parts []wait.Attempt) (wait.Attempt, error) {
	l := c.locker
	lock := c.newLock()
	values := make([]string, 0, len(parts))
	for _, a := range parts {
		part := lockIn(a)
		part.endPart()
		values = append(values, part.value)
	}
	lock.begin(l.clock.Now(), c.maxHold)
	r := lock.newGrant(&round.Spec{Request: wire.Join(lock.keys(), lock.value, lock.life(), values, lock.fencing())})
	r.Send(lock.acquired.Add(lock.timeout), 0)
	if _, err := l.finish(ctx, lock, r, c); err != nil {
		return nil, failed(err)
	}
	granted := r.Granted()
	for _, a := range parts {
		lockIn(a).giveBack(granted)
	}
	return (*attempt)(lock), nil
}

// giveBack gives a part back at the nodes where the lock does not have its key. At the others the
// part may still be on a wait list, if it was won without that node, or was refused an extension
// there. It would be the oldest, and the next release would hand the key to it although nobody
// awaits it. So may its intent be there, which would keep readers out when the set was released: it
// goes now, and not with the set, whose value it does not have.
func (lock *Lock) giveBack(granted quorum.NodeSet) {
	lock.mu.Lock() // late answers to the last extension may still come
	defer lock.mu.Unlock()
	all := quorum.All(len(lock.locker.nodes()))
	may := lock.listed || lock.intent
	if granted == all && !may {
		return
	}
	how := round.Spec{Rule: quorum.DecideHeld}
	if !may {
		how.Only = all.Minus(granted)
	}
	lock.newRelease(how).Send(lock.locker.clock.Now().Add(lock.timeout), all.Minus(granted))
}

// endPart ends a part without giving it back. From here on nobody extends it.
func (lock *Lock) endPart() {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	if lock.state == held {
		lock.endLocked(released, ErrReleased)
	}
}

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
