package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// A lease is a lock whose holder is outside: it counts a TTL from the reply that granted it, and
// comes back to any process that reaches the masters. So nobody keeps a handle of it, and all that
// is done to it goes by its exact value, which the masters compare:
//
//	granted by TryLock, detached ──Extend (keep.lua)──▶ its keys live longer
//	                             └─Release (release.lua)──▶ its keys are gone, or a waiter's
//
// S42 (docs/safety.md): an extension only lengthens, and a release only deletes that value, which
// no other attempt ever has. So they may come in any order, twice, late, and from several processes
// at once: an extension that was confirmed holds until its end, unless the holder releases.

var errDetached = errors.New("it is a lease now, which its holder extends and releases")

// maxLife bounds the search for a TTL. No cluster keeps keys for so long.
const maxLife = 48 * time.Hour

// lifeOf returns the TTL of which valid is left a node timeout after the round began. The timeout
// and the drift are shares of that TTL, so it is found by going up to it; above maxLife it is any.
func (c *config) lifeOf(valid time.Duration) time.Duration {
	valid = min(max(valid, 0), maxLife)
	for ttl := ceilMillis(valid); ; {
		next := ceilMillis(valid + c.timeout(ttl) + c.drift.Of(ttl) + time.Millisecond)
		if next <= ttl || next > maxLife {
			return next
		}
		ttl = next
	}
}

// detach ends a held lock for this process, and leaves it at the nodes. What Unlock of it sends
// later is what it would have sent before.
func (l *Locker) detach(held any) bool {
	lock := held.(*Lock)
	lock.mu.Lock()
	defer lock.mu.Unlock()
	lock.expireLocked(l.clock.Now())
	if lock.err != nil {
		return false
	}
	lock.endLocked(released, releasedFor(errDetached))
	return true
}

// extendValue lengthens the lock that has the value. Like [Lock.Extend], it takes a quorum that
// says so, and the validity counts from before the first byte is sent.
func (l *Locker) extendValue(ctx context.Context, name, value string, ttl time.Duration) (left time.Duration, err error) {
	if _, err = l.config.lockConfig(ctx, name, []LockOption{WithTTL(ttl)}); err == nil {
		err = l.checkMaxTTL("TTL", ttl)
	}
	if err != nil {
		return 0, err
	}
	if !l.life.enter() {
		return 0, ErrClosed
	}
	defer l.life.leave()
	if ctx.Err() != nil {
		return 0, fmt.Errorf("redlock: extend %q: %w", name, round.EndOf(ctx))
	}
	began, timeout := l.clock.Now(), l.config.timeout(ttl)
	start := l.awaitVoters(ctx, began, timeout, ttl)
	r := l.rounds.New(&round.Spec{Request: wire.Keep(l.config.keyPrefix+name, value, ttl), Meaning: wire.Yes, Rule: quorum.DecideHeld})
	r.Send(began.Add(timeout), 0)
	v, ended := r.Wait(ctx)
	switch v {
	case quorum.Won:
		return l.config.drift.Validity(start, ttl).Sub(l.clock.Now()), nil
	case quorum.Denied:
		return 0, roundError(r, "extend", name, ErrLost, nil)
	case quorum.NoQuorum, quorum.Pending:
	}
	return 0, roundError(r, "extend", name, ErrNoQuorum, ended)
}

// releaseValue releases the lock that has the value. Like [Lock.Unlock], it outlives ctx.
func (l *Locker) releaseValue(ctx context.Context, name, value string, at []int) error {
	if _, err := l.config.lockConfig(ctx, name, nil); err != nil {
		return err
	}
	if !l.life.enter() {
		return ErrClosed
	}
	defer l.life.leave()
	timeout := l.config.timeout(l.config.lock.ttl)
	r := l.rounds.New(&round.Spec{
		Request: wire.Release(&wire.Claim{}, []string{l.config.keyPrefix + name}, value, l.config.grace(timeout), ""),
		Meaning: wire.Released, Rule: quorum.DecideHeld, Background: true,
	})
	var kept quorum.NodeSet
	for _, i := range at {
		kept.Add(i)
	}
	r.Send(l.clock.Now().Add(timeout), kept)
	r.Await()
	switch r.Verdict() {
	case quorum.Won:
		return nil
	case quorum.Denied:
		return roundError(r, "release", name, ErrLost, nil)
	case quorum.NoQuorum, quorum.Pending:
	}
	return roundError(r, "release", name, ErrNoQuorum, nil)
}
