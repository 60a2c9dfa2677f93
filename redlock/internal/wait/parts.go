package wait

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redquorum/redquorum/clock"
)

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
	return len(w.names) > 1 && w.overtaken >= partsAfter && w.clock.Now() >= w.partsFrom && w.Coordinators.QuorumIsUp()
}

// takeParts is an attempt by parts.
func (w *waiter) takeParts(ctx context.Context) (Attempt, error) {
	parts := make([]Attempt, len(w.names)) // by name
	order := make([]int, len(w.names))     // of the names: that of their keys
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(w.names[a], w.names[b]) })
	var began clock.Instant // when it got the first
	holding := ctx          // also ends when one of them is lost
	var failed error
	for n, i := range order {
		if parts[i], failed = w.takePart(ctx, holding, w.names[i], n > 0); failed != nil {
			order = order[:n]
			break
		}
		if n == 0 {
			began = w.clock.Now()
		}
		holding = parts[i].Guard(holding)
	}
	if failed == nil {
		var got Attempt
		if got, failed = w.call.Join(ctx, parts); failed == nil {
			return got, nil
		}
	}
	for _, i := range order {
		parts[i].Release()
	}
	w.overtaken, w.hops = 0, 0
	if now := w.clock.Now(); len(order) > 0 {
		w.partsFrom = now.Add(now.Sub(began))
	}
	return nil, failed
}

// takePart takes one name. If bounded, because it holds others already, its patience is limited.
func (w *waiter) takePart(ctx, holding context.Context, name string, bounded bool) (Attempt, error) {
	limited, cancel := context.WithCancel(holding)
	defer cancel()
	if bounded {
		patience := min(max(w.clock.Now().Sub(w.since), partsMin), partsMax)
		defer w.clock.AfterFunc(patience, cancel).Stop()
	}
	one := w.call.Part(name)
	wanted := one.Wanted()
	alone := w.newWaiter(one, &wanted, w.since)
	alone.queueName = w.queueName // whose callers wait for it
	part, err := alone.seek(limited)
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrClosed) {
		return part, err
	}
	// Its own patience ended, or a part was lost: report the state of the wait.
	if alone.last != nil && alone.last.Ended() == nil {
		return nil, alone.last
	}
	return nil, w.last
}
