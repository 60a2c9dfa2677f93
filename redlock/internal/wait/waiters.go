// Package wait is how a call waits for a lock that is taken. The calls for one name in a process
// form a queue (queue.go), and only the first seeks the lock among the masters: a waiter
// (waiter.go). It stands on the list of one node, the coordinator (coordinator.go), and is woken by
// a message (subscription.go) or by time (pause.go); one that is overtaken takes a place at every
// node (places.go), and a set takes its names one after the other (parts.go). What our own releases
// told of waiters elsewhere is on record (record.go).
//
// It knows nothing of what a lock is made of: a [Call] makes an [Attempt] under a value of its own,
// and that asks, wins or undoes.
package wait

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members"
	"github.com/redquorum/redquorum/redlock/internal/round"
)

// ErrClosed means that the Locker was closed.
var ErrClosed = errors.New("redlock: locker closed")

// Waiters has all who wait in one Locker.
type Waiters struct {
	Queue         Queue
	Crowds        Crowds
	Record        Record
	Pending       Pending
	Sightings     Sightings
	Coordinators  *Coordinators
	Subscriptions *Subscriptions
	Counts        Counts

	clock   clock.Clock
	members Members
	rounds  *round.Rounds
	closing <-chan struct{}
}

// Members says who the nodes are, which may become more, and whose votes count.
type Members interface {
	Nodes() []*pipeline.Node
	View() *members.View
	LongestTTL() time.Duration
}

// Counts are the figures of a Locker about waiting.
type Counts struct {
	Waits, Woken, Polls atomic.Uint64
	Waiting             atomic.Int64
	Begun               Begun // of those that wait now
}

// Begun has the beginnings of what is under way.
type Begun struct {
	mu  sync.Mutex
	all list.List // of clock.Instant, in the order in which they were added
}

// Add adds a beginning. The function that it returns is to be called at the end, once.
func (b *Begun) Add(at clock.Instant) (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.all.PushBack(at)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.all.Remove(one)
	}
}

// Oldest returns for how long what began first is under way; 0 if nothing is.
func (b *Begun) Oldest(now clock.Instant) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := now // what was added later may have begun a moment earlier
	for one := b.all.Front(); one != nil; one = one.Next() {
		first = min(first, one.Value.(clock.Instant))
	}
	return now.Sub(first)
}

// NewWaiters returns those who wait at some nodes. Channel is the prefix of the channel that wakes
// this process; closing ends all waiting.
func NewWaiters(clk clock.Clock, ms Members, rounds *round.Rounds, channel string, closing <-chan struct{}) *Waiters {
	ws := &Waiters{
		clock: clk, members: ms, rounds: rounds, closing: closing,
		Coordinators: NewCoordinators(clk, ms), Subscriptions: NewSubscriptions(clk, ms, channel, closing),
	}
	ws.Record.clock = clk
	return ws
}

// Acquire gets a call its lock. The call joins the wait queue of its names; at the front it seeks
// the lock: with a round like that of TryLock, and if the lock is taken, as a waiter.
func (ws *Waiters) Acquire(ctx context.Context, c Call) (Attempt, error) {
	since, wanted := ws.clock.Now(), c.Wanted()
	ticket := ws.Queue.Join(wanted.Queue)
	defer ws.Queue.Leave(wanted.Queue, ticket)
	if ticket != nil {
		return ws.newWaiter(c, &wanted, since).awaitTurn(ctx, ticket)
	}
	got, w, err := ws.acquireAtOnce(ctx, c, &wanted, since)
	if w != nil {
		return w.awaitTurn(ctx, nil)
	}
	return got, err
}

// AcquireTogether is Acquire for a reader. Readers do not queue within the Locker: each has its own
// place at the coordinator, because all of them can be served at once.
func (ws *Waiters) AcquireTogether(ctx context.Context, c Call) (Attempt, error) {
	wanted := c.Wanted()
	got, w, err := ws.acquireAtOnce(ctx, c, &wanted, ws.clock.Now())
	if w == nil {
		return got, err
	}
	w.readers = ws.Crowds.Join(wanted.Prefix+wanted.Names[0], w.wakeup)
	got, err = w.awaitTurn(ctx, nil)
	w.readers.Leave(err == nil && !w.handed)
	return got, err
}

// acquireAtOnce makes an attempt without waiting, unless our last release has given the lock to
// somebody else. It returns a waiter if the caller has to wait.
func (ws *Waiters) acquireAtOnce(ctx context.Context, c Call, wanted *Wanted, since clock.Instant) (Attempt, *waiter, error) {
	if len(wanted.Names) == 1 {
		ws.Pending.Await(ctx, ws.closing, ws.clock, wanted.Prefix+wanted.Names[0])
	}
	if ws.Record.Contended(wanted.Prefix, wanted.Names) {
		return nil, ws.newWaiter(c, wanted, since), nil
	}
	got, r, err := c.Try(ctx, true)
	var failure Failure
	if !errors.As(err, &failure) || failure.Ended() != nil {
		return got, nil, err
	}
	w := ws.newWaiter(c, wanted, since)
	w.refused = failure
	if w.slots > 0 {
		w.learn(r)
	}
	return nil, w, nil
}

// Sleep waits for a time, and reports false if ctx or the Locker ended first.
func (ws *Waiters) Sleep(ctx context.Context, pause time.Duration) bool {
	over, timer := clock.After(ws.clock, pause)
	defer timer.Stop()
	select {
	case <-over:
		return true
	case <-ctx.Done():
	case <-ws.closing:
	}
	return false
}

// WhyEnded returns why a wait ended early: the Locker was closed, or ctx ended.
func (ws *Waiters) WhyEnded(ctx context.Context) error {
	select {
	case <-ws.closing:
		return ErrClosed
	default:
		return round.EndOf(ctx)
	}
}
