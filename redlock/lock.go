package redlock

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// Lock is one acquisition. Its methods may be called from any goroutine. It must not be copied.
type Lock struct {
	locker   *Locker
	names    []string      // more than one for a set
	value    string        //
	keys     []any         // all keys as arguments, boxed once
	valueArg any           // value as an argument
	acquired clock.Instant // when its round began
	renews   bool
	reused   bool // the value is the caller's: another attempt may have it
	fenced   bool
	listed   bool  // may be on wait lists
	part     bool  // of a set that waits for the rest: no caller has it
	fence    int64 // with fencing: the wall clock in microseconds when the round began, until it has a token

	room    [1]any       // of keys, where there is one
	name    [1]string    // of names, likewise
	entries [slots]entry // guarded by the agendas' mutexes, each its own

	mu        sync.Mutex // guards the fields below; held over the sending of a round, never over waiting for one
	state     state
	extending bool                         // an extension is under way
	healing   bool                         // there was one, which may have given the key to nodes that refused it
	ttl       time.Duration                // as the nodes know it
	timeout   time.Duration                // how long its rounds wait for a node
	until     clock.Instant                // end of validity
	heldUntil clock.Instant                // by WithMaxHold; never without
	touched   uint64                       // nodes that have, may have or may yet get our value
	epoch     uint64                       // of the electorate, when the round began that it is held by
	err       error                        // why it is no longer held
	done      chan struct{}                // closed when err is set; nil until Done is first called
	extended  chan struct{}                // closed when the extension is over; nil while nobody waits for that
	contexts  map[<-chan struct{}]*derived // to be cancelled at the end, by the Done of their parents; nil until there is one
	release   *round                       // nil until the releases are sent
}

func newLock(l *Locker, names []string, cfg *lockConfig) *Lock {
	lock := &Lock{
		locker: l, value: cfg.newValue(), renews: !cfg.withoutRenewal, reused: cfg.value != "",
		fenced: cfg.fencing, part: cfg.part,
		ttl: cfg.ttl.Truncate(time.Millisecond), timeout: l.config.timeout(cfg.ttl), heldUntil: never,
	}
	lock.names = append(lock.name[:0], names...)
	lock.keys = lock.room[:0]
	for _, name := range names {
		lock.keys = append(lock.keys, l.config.keyPrefix+name)
	}
	lock.valueArg = lock.value
	return lock
}

// begin notes the round that the lock is acquired by.
func (lock *Lock) begin(epoch uint64, start clock.Instant, maxHold time.Duration) {
	lock.epoch, lock.acquired = epoch, start
	if lock.fenced {
		lock.fence = lock.locker.clock.Wall().UnixMicro()
	}
	if maxHold > 0 {
		lock.heldUntil = start.Add(maxHold)
	}
}

// boundedLocked returns a validity within the longest hold.
func (lock *Lock) boundedLocked(until clock.Instant) clock.Instant { return min(until, lock.heldUntil) }

// Name returns the name that the lock was acquired by; of a set, the first.
func (lock *Lock) Name() string { return lock.names[0] }

// Names returns all names of the lock, in the order in which they were given.
func (lock *Lock) Names() []string { return slices.Clone(lock.names) }

// Value returns what the nodes hold under the lock's key. Whoever knows it can release the lock.
func (lock *Lock) Value() string { return lock.value }

// Remaining returns how much validity is left. It reads the clock at each call: the machine may have slept. Zero or
// less means that the lock is not ours.
func (lock *Lock) Remaining() time.Duration {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	now := lock.locker.clock.Now()
	lock.expireLocked(now)
	left := lock.until.Sub(now)
	if lock.state != held {
		return min(left, 0)
	}
	return left
}

// Until returns when validity ends by the wall clock, for logs. Decide by [Lock.Remaining], which no clock change moves.
func (lock *Lock) Until() time.Time {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	clk := lock.locker.clock
	return clk.Wall().Add(lock.until.Sub(clk.Now()))
}

// Done is closed when the lock is no longer held: at the end of its validity by the local clock, whatever the network
// does, or when it is released.
func (lock *Lock) Done() <-chan struct{} {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	if lock.done == nil {
		lock.done = make(chan struct{})
		if lock.err != nil {
			close(lock.done)
		}
	}
	lock.expireLocked(lock.locker.clock.Now())
	return lock.done
}

// Err returns nil while the lock is held, then [ErrLost] with the reason, or [ErrReleased]. Like Remaining it reads the clock.
func (lock *Lock) Err() error {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	lock.expireLocked(lock.locker.clock.Now())
	return lock.err
}

// expireLocked moves a held lock to lost when its validity has ended. Everything that tells or uses the state looks
// here first, so that the truth does not depend on a timer having run.
func (lock *Lock) expireLocked(now clock.Instant) {
	switch {
	case lock.state != held || now < lock.until:
	case now >= lock.heldUntil:
		lock.endLocked(lost, errMaxHold)
	default:
		lock.endLocked(lost, errExpired)
	}
}

// expire is called by the expiry agenda, when the validity that it knew of has ended.
func (lock *Lock) expire(now clock.Instant) {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	lock.expireLocked(now)
}

// nodesForgot is called when a node has restarted and forgot its keys: the lock is lost when a quorum has, since it was
// last confirmed.
func (lock *Lock) nodesForgot() {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	if voters := lock.locker.voters; lock.state == held && voters.forgottenSince(lock.epoch) >= quorum(len(voters.nodes)) {
		lock.endLocked(lost, errForgot)
	}
}

// endLocked moves a held lock to its end and tells everyone who waits for it.
func (lock *Lock) endLocked(to state, reason error) {
	lock.state.move(to)
	lock.err = reason
	if lock.done != nil {
		close(lock.done)
	}
	for _, d := range lock.contexts {
		d.cancel(reason)
	}
	lock.locker.expiry.remove(lock)
	lock.locker.renewals.remove(lock)
	lock.locker.events.over(lock, to, reason)
	if lock.part {
		lock.locker.counts.parts.Add(-1)
	} else if to == lost {
		lock.locker.counts.lost.Add(1)
	}
	if to == lost {
		lock.planUndoLocked(reason)
	}
}

// planUndoLocked sees to it that a lost lock does not stay on nodes that know more of it than its validity told: those that an
// extension reached while the others were away, those that were stopped and run what they were sent when they go on. Where a
// quorum says that the lock is not ours, it is released at once. Where its validity ended, not before all other nodes forget it
// too: the time between, the allowance for drift, is the holder's to notice.
func (lock *Lock) planUndoLocked(reason error) {
	if errors.Is(reason, errGone) || errors.Is(reason, errForgot) {
		lock.undoNowLocked()
		return
	}
	lock.locker.renewals.add(lock, lock.undoAtLocked())
}

func (lock *Lock) undoAtLocked() clock.Instant {
	return lock.until.Add(lock.locker.config.drift.Of(lock.ttl))
}

func (lock *Lock) undoNowLocked() *round {
	u := lock.newRelease()
	u.decided = make(chan struct{})
	lock.undoLocked(u, lock.mayHoldLocked(), lock.locker.clock.Now().Add(lock.timeout))
	return u
}

// key is that of the first name.
func (lock *Lock) key() string { return lock.keys[0].(string) }

// refusedBy is told that a node refused the lock after it was won without that node. An extension may have given it the key since.
func (lock *Lock) refusedBy(node uint64) {
	lock.mu.Lock()
	if !lock.healing {
		lock.touched &^= node
	}
	lock.mu.Unlock()
	lock.locker.overtook(lock, node)
}

// mayHoldLocked has the bits of the nodes that a release must reach, now or later: while an extension is under way, all, for it may
// give the key to nodes that never had it.
func (lock *Lock) mayHoldLocked() uint64 {
	if lock.extending {
		return allNodes(len(lock.locker.nodes))
	}
	return lock.touched
}
