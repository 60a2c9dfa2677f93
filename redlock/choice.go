package redlock

import (
	"slices"

	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// choose makes the lock that of the one which its round chose: a slot, or one of the names.
func (lock *Lock) choose(one int) {
	set := lock.set
	if set.semaphore == nil {
		set.names, set.keys = set.names[one-1:one], set.all[one-1:one]
		return
	}
	set.slot = one
	suffix := wire.Slot(one)
	set.names[0], set.keys[0] = set.semaphore.name+suffix, set.semaphore.wire.Key+suffix
}

// unchoose makes the release of a lock that was not taken reach all that nodes may have given it.
// That of a permit does so anyway.
func (lock *Lock) unchoose() {
	if lock.set != nil && lock.set.all != nil {
		lock.mu.Lock() // its observer may be at work
		lock.set.keys = lock.set.all
		lock.mu.Unlock()
	}
}

// dropStrays releases what nodes have, or may have, under the lock's value beside the key that was
// chosen: in the first round each node gave any. A node that may yet answer is not among them: the
// observer of the round will be told of it. If a permit has been released, its release went to all
// nodes, behind the round, and was for all slots.
func (lock *Lock) dropStrays(nodes quorum.NodeSet) {
	if nodes.Empty() {
		return
	}
	l, set := lock.locker, lock.set
	lock.mu.Lock()
	defer lock.mu.Unlock()
	grace := l.config.grace(lock.timeout)
	if s := set.semaphore; s != nil && lock.release != nil {
		return
	} else if s != nil {
		u := l.rounds.New(&round.Spec{
			Request: s.wire.GiveBack(lock.value, grace, set.slot, ""), Meaning: wire.Released, Rule: quorum.DecideHeld,
			Only: nodes, Background: true,
		})
		lock.undoLocked(u, nodes, l.clock.Now().Add(lock.timeout))
		return
	}
	others := slices.DeleteFunc(slices.Clone(set.all), func(key string) bool { return key == set.keys[0] })
	if len(others) == 0 {
		return
	}
	u := l.rounds.New(&round.Spec{
		Request: wire.Release(&wire.Claim{}, others, lock.value, grace, "", false), Meaning: wire.Released, Rule: quorum.DecideHeld,
		Only: nodes, Background: true,
	})
	lock.undoLocked(u, nodes, l.clock.Now().Add(lock.timeout))
}
