package wait

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/random"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// All of this file runs on the goroutine that called Lock, which alone has the waiter's fields.
// Others reach it by its wakeup, and answers of the coordinator are values that nobody changes.

// A key expires at its node up to a millisecond later than PTTL says. The waiters for that are
// spread out a little.
const expirySpread = 2 * time.Millisecond

// awaitRefused waits after a refusal of the coordinator. A wait of some length makes up for the
// attempts before it.
func (w *waiter) awaitRefused(ctx context.Context, answer *wire.WaitReply) wake {
	began := w.clock.Now()
	woke := w.awaitAfter(ctx, answer)
	if w.clock.Now().Sub(began) > outageMax {
		// Not sooner: waiters that are handed a vote that they cannot use, because no quorum
		// answers or another name of their set is taken, hand it on at once, and would keep passing
		// it around in a circle.
		w.hops = 0
		w.outage.Reset()
		w.crowd.Reset()
	}
	return woke
}

// awaitAfter waits after an answer of the coordinator, for as long as suits the holder that it
// names.
func (w *waiter) awaitAfter(ctx context.Context, answer *wire.WaitReply) wake {
	w.seeOthers(answer)
	switch answer.Holder {
	case wire.HolderOurs, wire.HolderForeignPolled, wire.HolderTurnPolled:
		return w.awaitTogether(ctx, answer.Left)
	case wire.HolderReaders:
		return w.awaitReaders(ctx, answer.Left)
	case wire.HolderTurn:
		return w.awaitWake(ctx, min(answer.Left+random.N(expirySpread), turnPoll/2+random.N(turnPoll)))
	case wire.HolderForeign:
	}
	now := w.clock.Now()
	if answer.Client != w.foreign {
		w.foreign, w.foreignSince = answer.Client, now
	}
	haste := max(hasteMin, now.Sub(w.foreignSince)/hasteShare)
	return w.awaitWake(ctx, untilExpiry(min(haste/2+random.N(haste), w.longest), answer.Left))
}

// awaitTogether is awaitHandOver, but only one of the readers of a Locker polls.
func (w *waiter) awaitTogether(ctx context.Context, left time.Duration) wake {
	if w.readers != nil && !w.readers.Polls() {
		return w.awaitWake(ctx, noPause)
	}
	return w.awaitHandOver(ctx, left)
}

// awaitHandOver waits for the message that the lock was handed over, for the end of the holder's
// time, or for the next poll: messages may be lost, or forbidden, or not sent by the holder.
func (w *waiter) awaitHandOver(ctx context.Context, left time.Duration) wake {
	return w.awaitWake(ctx, untilExpiry(w.poll.Next(), left))
}

// awaitReaders waits behind readers, until the writer announces itself again.
func (w *waiter) awaitReaders(ctx context.Context, left time.Duration) wake {
	if !w.announced {
		w.announced = true
		return wakeDue // at once
	}
	pause := w.poll.Next()
	if pause > IntentPoll {
		pause = IntentPoll/2 + random.N(IntentPoll/2)
	}
	return w.awaitWake(ctx, untilExpiry(pause, left))
}

// untilExpiry returns a pause, cut to when a key has expired that is left for a time; negative if
// it does not expire.
func untilExpiry(pause, left time.Duration) time.Duration {
	if left >= 0 && left < pause {
		return left + time.Millisecond + random.N(expirySpread)
	}
	return pause
}

// noPause is the pause of a waiter for which another one of its process polls.
const noPause time.Duration = -1

// awaitWake waits for the message, or until a pause is over.
func (w *waiter) awaitWake(ctx context.Context, pause time.Duration) wake {
	var over <-chan struct{}
	if pause != noPause {
		alarm, timer := clock.After(w.clock, pause)
		defer timer.Stop()
		over = alarm
	}
	select {
	case <-w.wakeup.Handed:
		w.Counts.Woken.Add(1)
		return wakeHanded
	case <-w.wakeup.Again:
	case <-over:
	case <-ctx.Done():
		return wakeEnded
	case <-w.closing:
		return wakeEnded
	}
	return wakeDue
}

// A writer that waits keeps new readers out of every node by an intent (announce.lua). It learns
// from its coordinator that readers have the lock, and announces itself there and at all other
// nodes, at once and again while it waits. The intent lives for three of these rounds, so that a
// writer that died keeps nobody out for long. So does an intent that arrives late, after its writer
// has left or got the lock. Nothing depends on intents but how long others wait:
// internal/proof/search/shared searches them at any time.
const (
	IntentLife = 3 * IntentPoll
	IntentPoll = time.Second
)

// Clients of other Redlock libraries hand nothing over and wake nobody: when one of them releases a
// lock, the lock is free for as long as they take to lock it again, a round trip. A waiter behind
// such a holder must poll for that moment. Only the oldest waiter on the list of a node does, so
// the load does not grow with their number. It asks all nodes at once (snatch), because after
// asking the coordinator first it would come a round trip too late at the others.
//
// others.lua makes sure that those clients get their turn as well.

const (
	// The oldest waiter polls this often at first, and less often the longer another library's
	// client holds the lock without a change.
	hasteMin   = 2 * time.Millisecond
	hasteShare = 8

	// During their turn it polls whether they have come.
	turnPoll = 20 * time.Millisecond
)

// placeOfOthers returns the place that clients of other libraries take on a list. Until one has
// been seen, they have none if a hand-over leaves enough nodes free for a quorum: free for a round
// trip, which is as good a chance as they give each other. So where there are no such clients, they
// cost nothing. With one or two nodes they could never be seen. There, after the lock was handed
// over without a gap for a second, it is left free for 25 ms, and then less and less often while
// nobody comes: in the end for 120 ms per minute.
func (w *waiter) placeOfOthers() string {
	view := w.members.View()
	switch {
	case w.seesOthers():
		return "others"
	case view.Need() == view.Size():
		return "anyone"
	default:
		return ""
	}
}

// seesOthers reports whether a client of another library was seen recently at the name that the
// waiter waits for.
func (w *waiter) seesOthers() bool {
	return w.Sightings.Has(w.names[w.target], w.clock.Now())
}

// seeOthers notes what an answer says about them.
func (w *waiter) seeOthers(answer *wire.WaitReply) {
	if h := answer.Holder; h == wire.HolderForeign || h == wire.HolderForeignPolled { // a turn says nothing about a client
		w.Sightings.Add(w.names[answer.Taken], w.clock.Now())
	}
}
