package redlock

import (
	"context"
	"fmt"
	"sync"

	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// ForceUnlock deletes a lock on every node, whoever holds it, or hands it to the longest waiter. It
// is for an operator who knows that the holder is gone. A holder that is not gone learns of it at
// its next round, or with [WithoutRenewal] at the end of its validity, and believes until then that
// it holds the lock. ForceUnlock returns nil when a quorum of nodes has deleted the lock, handed it
// over or held nothing. Nodes that are away keep it until its TTL ends.
//
// If readers hold the lock, it ends for all of them. The name of a [Semaphore] is not that of its
// permits, which have one each ([Lock.Name]).
//
// The log of the nodes gets an entry of it: `redlock log` shows that.
func (l *Locker) ForceUnlock(ctx context.Context, name string) error {
	_, err := l.forceUnlock(ctx, name, "")
	return err
}

func (l *Locker) forceUnlock(ctx context.Context, name, why string) (f journal.Taken, err error) {
	cfg, err := l.config.lockConfig(ctx, name, nil)
	if err != nil {
		return f, err
	}
	if !l.life.enter() {
		return f, ErrClosed
	}
	defer l.life.leave()
	if ctx.Err() != nil {
		return f, fmt.Errorf("redlock: force-unlock %q: %w", name, round.EndOf(ctx))
	}
	key, timeout := l.config.keyPrefix+name, l.config.timeout(cfg.ttl)
	var mu sync.Mutex // guards seen and held; late replies still use them
	seen, held := f, map[string]int{}
	take := func(_ int, reply any) {
		mu.Lock()
		defer mu.Unlock()
		value, left := wire.ReadForced(reply)
		seen.Left = max(seen.Left, left)
		if held[value]++; value != "" && held[value] > held[seen.Value] {
			seen.Value = value
		}
	}
	r := l.rounds.New(&round.Spec{
		Request: wire.Force(key, l.config.grace(timeout)), Meaning: wire.Any, Rule: quorum.DecideHeld, Replies: take,
	})
	l.awaitVoters(ctx, l.clock.Now(), timeout)
	r.Send(l.clock.Now().Add(timeout), 0)
	v, ended := r.Wait(ctx)
	if v != quorum.Won {
		return f, l.failure(r, "force-unlock", name, ErrNoQuorum, ended)
	}
	mu.Lock()
	told := seen
	mu.Unlock()
	if told.Value != "" {
		holder, _ := ownerAndSince(told.Value)
		told.Unlogged = l.log(ctx, forcedEntry(key, holder, why))
	}
	return told, nil
}
