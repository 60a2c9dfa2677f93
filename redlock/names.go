package redlock

import (
	"context"
	"slices"

	"github.com/redquorum/redquorum/internal/pipeline"
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
	lock, _, err := l.tryAcquire(ctx, &c)
	return lock, err
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

func (n *names) fresh() kind { return n }

func (n *names) nameOf(*Lock) string    { return n.list[0] }
func (n *names) namesOf(*Lock) []string { return n.list }
func (n *names) keysOf(*Lock) []string  { return n.keys }

// A set is announced at its pilot only, for the name that it waits for.
func (n *names) acquire(lock *Lock, _ int, _ bool) pipeline.Request {
	return wire.Acquire(&lock.claim, n.keys, lock.value, lock.life(), lock.fencing())
}
