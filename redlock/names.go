package redlock

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
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

// A set takes all its names or none in one step, so it takes nothing from others while it waits.
// But if two of its names are always taken, it may never find them free at the same moment. So
// after a few refusals it takes the names one after the other, each as an ordinary waiter with the
// age that it has earned: locks of their own, its parts, which are renewed until it has all. Then
// one round makes the set's lock from them (join.lua):
//
//	all or none ──refused, a few times──▶ first name ──▶ next ──▶ … ──▶ join ──▶ held
//	     ▲                                                └── its patience ends ──┐
//	     └── for as long as it kept others from its parts ◀── give all back ◀─────┘
//
//   - No two sets wait for each other: all take their names in the same order, that of the keys.
//   - A client that holds one lock and wants another may wait for a part while the set waits for
//     its lock. And a name may be taken for an hour, during which nobody should be kept from the
//     other names. So the patience of a set that has parts is bounded by how long it has waited so
//     far, which doubles each time. Then it gives everything back, and leaves the others as much
//     time as it has taken from them. So it gets its turn within a few times the longest hold, if
//     that is below partsMax.
//   - The parts say nothing about the lock: its votes are those of the last round, and each says
//     that the node has set all keys to the set's value since the round began. A part that was lost
//     by then costs votes, or the attempt. Each part has a value of its own, used once like any
//     other, so giving back a part never touches the lock.
//   - The tokens are raised in the last round, on all keys, as in acquire.lua. Parts have none.
//
// The caller sees one lock: hooks and Stats do not show parts.

const (
	// partsAfter is how often a set is refused before it takes its names one after the other: each
	// time it had the vote on one name, and another was taken.
	partsAfter = 3

	partsMin = 100 * time.Millisecond
	partsMax = time.Minute
)

// wantsParts reports whether the waiter should take its names one after the other.
func (w *waiter) wantsParts() bool {
	return len(w.names()) > 1 && w.overtaken >= partsAfter && w.locker.clock.Now() >= w.partsFrom && w.locker.desk.Pilots.QuorumIsUp()
}

// takeParts is an attempt by parts.
func (w *waiter) takeParts(ctx context.Context) (*Lock, error) {
	l := w.locker
	parts := make(map[string]*Lock, len(w.names())) // by key
	var began clock.Instant                         // when it got the first
	holding := ctx                                  // also ends when one of them is lost
	keys := make(map[string]string, len(w.names()))
	for _, name := range w.names() {
		keys[l.config.keyPrefix+name] = name
	}
	var failed error
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		part, err := w.takePart(ctx, holding, keys[key], len(parts) > 0)
		if err != nil {
			failed = err
			break
		}
		if len(parts) == 0 {
			began = l.clock.Now()
		}
		parts[key] = part
		holding = part.Context(holding)
	}
	var lock *Lock
	if failed == nil {
		if lock, failed = w.join(ctx, parts); failed == nil {
			return lock, nil
		}
	}
	for _, part := range parts {
		part.startRelease(nil)
	}
	w.overtaken, w.hops = 0, 0
	if now := l.clock.Now(); len(parts) > 0 {
		w.partsFrom = now.Add(now.Sub(began))
	}
	return nil, failed
}

// takePart takes one name. If bounded, because it holds others already, its patience is limited.
func (w *waiter) takePart(ctx, holding context.Context, name string, bounded bool) (*Lock, error) {
	l := w.locker
	limited, cancel := context.WithCancel(holding)
	defer cancel()
	if bounded {
		patience := min(max(l.clock.Now().Sub(w.since), partsMin), partsMax)
		defer l.clock.AfterFunc(patience, cancel).Stop()
	}
	one := call{lockConfig: w.lockConfig, locker: l, kind: mutex{}, name: [1]string{name}, part: true, taken: w.taken}
	one.withoutRenewal, one.fencing = false, false
	one.value, one.maxHold, one.minHold, one.minValidity = "", 0, 0, 0
	alone := newWaiter(&one, w.since)
	alone.queueName = w.queueName // whose callers wait for it
	part, err := alone.seek(limited)
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrClosed) {
		return part, err
	}
	// Its own patience ended, or a part was lost: report the state of the wait.
	failure := w.last
	if alone.last != nil {
		failure = alone.last
	}
	told := *failure
	told.ended = nil
	return nil, &told
}

// join makes one lock from the parts, which ends them. Parts on nodes that did not grant it are
// given back.
func (w *waiter) join(ctx context.Context, parts map[string]*Lock) (*Lock, error) {
	l := w.locker
	lock := w.newLock()
	values := make([]string, 0, len(parts))
	for _, key := range lock.keys() {
		part := parts[key]
		part.endPart()
		values = append(values, part.value)
	}
	lock.begin(l.clock.Now(), w.maxHold)
	r := lock.newGrant(&round.Spec{Request: wire.Join(lock.keys(), lock.value, lock.life(), values, lock.fencing())})
	r.Send(lock.acquired.Add(lock.timeout), 0)
	got, err := l.finish(ctx, lock, r, w.call)
	if err != nil {
		return nil, err
	}
	granted := r.Granted()
	for _, part := range parts {
		part.giveBack(granted)
	}
	return got, nil
}

// giveBack gives a part back at the nodes where the lock does not have its key. At the others the
// part may still be on a wait list, if it was won without that node. It would be the oldest there,
// and the next release would hand the key to it although nobody awaits it.
func (lock *Lock) giveBack(granted quorum.NodeSet) {
	all := quorum.All(len(lock.locker.nodes()))
	if granted == all && !lock.listed {
		return
	}
	how := round.Spec{Rule: quorum.DecideHeld}
	if !lock.listed {
		how.Only = all.Minus(granted)
	}
	u := lock.newRelease(how)
	lock.mu.Lock()
	defer lock.mu.Unlock()
	lock.undoLocked(u, all.Minus(granted), lock.locker.clock.Now().Add(lock.timeout))
}

// endPart ends a part without giving it back. From here on nobody extends it.
func (lock *Lock) endPart() {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	if lock.state == held {
		lock.endLocked(released, ErrReleased)
	}
}
