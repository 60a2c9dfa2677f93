package redlock

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/random"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// A wake is why a waiter goes on.
type wake uint8

const (
	wakeHanded wake = iota // the pilot's vote is ours
	wakeDue                // time to ask again
	wakeEnded              // ctx or the Locker ended
)

// awaitRefused waits after a refusal of the pilot. A wait of some length makes up for the attempts
// before it.
func (w *waiter) awaitRefused(ctx context.Context, answer *wire.WaitReply) wake {
	began := w.locker.clock.Now()
	woke := w.awaitAfter(ctx, answer)
	if w.locker.clock.Now().Sub(began) > outageMax {
		// Not sooner: waiters that are handed a vote that they cannot use, because no quorum
		// answers or another name of their set is taken, hand it on at once, and would keep passing
		// it around in a circle.
		w.hops = 0
		w.outage.Reset()
		w.crowd.Reset()
	}
	return woke
}

// awaitHandOver waits for the message that the lock was handed over, for the end of the holder's
// time, or for the next poll: messages may be lost, or forbidden, or not sent by the holder.
func (w *waiter) awaitHandOver(ctx context.Context, left time.Duration) wake {
	pause := w.poll.Next()
	if left >= 0 && left < pause {
		pause = left + time.Millisecond + random.N(expirySpread)
	}
	return w.awaitWake(ctx, pause)
}

// noPause is the pause of a waiter for which another one of its process polls.
const noPause time.Duration = -1

// awaitWake waits for the message, or until a pause is over.
func (w *waiter) awaitWake(ctx context.Context, pause time.Duration) wake {
	l := w.locker
	var over <-chan struct{}
	if pause != noPause {
		alarm, timer := clock.After(l.clock, pause)
		defer timer.Stop()
		over = alarm
	}
	select {
	case <-w.wakeup.Handed:
		l.counts.woken.Add(1)
		return wakeHanded
	case <-w.wakeup.Again:
	case <-over:
	case <-ctx.Done():
		return wakeEnded
	case <-l.life.closing:
		return wakeEnded
	}
	return wakeDue
}
