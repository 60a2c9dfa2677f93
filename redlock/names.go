package redlock

import (
	"context"
	"slices"

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
	lock.undoLocked(lock.newRelease(how), all.Minus(granted), lock.locker.clock.Now().Add(lock.timeout))
}

// endPart ends a part without giving it back. From here on nobody extends it.
func (lock *Lock) endPart() {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	if lock.state == held {
		lock.endLocked(released, ErrReleased)
	}
}
