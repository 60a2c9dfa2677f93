package redlock

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/redquorum/redquorum/internal/owner"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// settleValue gives a lock that was won the value of WithValue. It returns the round that did, or
// why it could not, or the context's error if ctx ended it.
//
//	a random value ──won──▶ swapped where it is held, or free ──won──▶ the value of WithValue
//
// To the nodes, two attempts with one value are one. So every attempt, its wait and its undo have a
// value that is used once. A chosen value is at a node only once a quorum has granted the attempt:
// while another lock has that quorum, this sends nothing that names the value, and so can neither
// take that lock for its own nor release it. The votes are those of the swap, each at a node that
// set all keys after the attempt began, as for a set by parts (names.go).
//
// If the swap fails, it is undone where it may have taken place, behind it on the same connection,
// and never later: a release that is kept for a node that is away might find another lock with the
// value. There the key stays until its TTL ends.
func (lock *Lock) settleValue(ctx context.Context, won *round.Round, value string) (_ *round.Round, reason, ended error) {
	l := lock.locker
	random, rest := lock.value, lock.newRelease(round.Spec{Rule: quorum.DecideHeld})
	parts := slices.Repeat([]string{random}, len(lock.keys()))
	r := lock.newGrant(&round.Spec{Request: wire.Join(lock.keys(), value, lock.life(), parts, wire.Fencing{})})
	deadline := l.clock.Now().Add(lock.timeout)
	r.Send(deadline, 0)
	v, ended := r.Wait(ctx)
	claim := lock.claim
	lock.value, lock.claim, lock.reused = value, wire.Claim{}, true
	if v == quorum.Won {
		// What is left of the random value: at nodes that missed the swap, and on wait lists.
		lock.mu.Lock()
		lock.undoLocked(rest, quorum.All(len(l.nodes())).Minus(r.Granted()), deadline)
		lock.mu.Unlock()
		return r, nil, nil
	}
	if swapped := r.MayHold(); !swapped.Empty() {
		lock.mu.Lock()
		lock.undoLocked(lock.newRelease(round.Spec{Rule: quorum.DecideHeld, Only: swapped}), 0, deadline)
		lock.mu.Unlock()
	}
	lock.value, lock.claim, lock.reused = random, claim, false // which the caller undoes
	switch v {
	case quorum.Denied:
		reason = ErrTaken
	case quorum.NoQuorum:
		reason = ErrNoQuorum
	case quorum.Won, quorum.Pending: // ctx ended
	}
	return won, reason, ended
}

// Since is when a lock was acquired, as its value tells: by the clock of its holder, in seconds.
// Values of other libraries, of [WithValue] and without an owner do not tell.
type Since struct {
	Time   time.Time // when the attempt began; zero if the value does not tell
	Waited bool      // the attempt may have waited from then on, so the lock is held for less long
}

func ownerAndSince(value string) (string, Since) {
	name, began, waited := owner.Of(value)
	return name, Since{began, waited}
}

// ownersOf returns the owners of waiters, of what nodes tell of them.
func ownersOf(texts []string) []string {
	for i, text := range texts {
		texts[i], _, _ = owner.Split(text)
	}
	return texts
}

// valueRoom is the room for the usual value. Longer ones take more memory.
const valueRoom = 128

// appendValue appends the value of one attempt: at least 128 random bits, and behind them when it
// began and its owner, unless that is empty.
func (c *lockConfig) appendValue(to []byte, now time.Time, waits bool) []byte {
	to = appendRandom(to)
	if c.owner == "" {
		return to
	}
	return owner.Append(to, c.owner, now, waits)
}

// appendChosen appends what [WithValue] makes of a lock's value (value.go). Both sides know that
// value, so nothing is added that nobody asked for.
func (c *lockConfig) appendChosen(to []byte) []byte {
	to = append(to, c.value...)
	if c.named && c.owner != "" {
		to = append(append(to, '|'), c.owner...)
	}
	return to
}

// appendRandom appends 130 random bits as 26 characters of base32, as rand.Text returns them.
func appendRandom(to []byte) []byte {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	var random [26]byte
	_, _ = rand.Read(random[:]) // which never fails
	for _, b := range random {
		to = append(to, digits[b%32])
	}
	return to
}
