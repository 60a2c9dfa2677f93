package redlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/look"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/schedule"
	"github.com/redquorum/redquorum/redlock/internal/wait"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Locker acquires locks from Redis masters: those of its list, and the members of their cluster.
// Its methods may be called from any goroutine. It must not be copied.
type Locker struct {
	config   config
	owns     bool // Close closes the nodes
	clock    clock.Clock
	members  *members.Membership // whose votes count
	rounds   round.Rounds
	waiters  *wait.Waiters // who waits
	events   *events       // nil without hooks and logger
	expiry   schedule.Schedule[*Lock]
	renewals schedule.Schedule[*Lock]
	renewing sync.Mutex // taken by renew before the mutexes of a batch of locks
	counts   counts
	losses   losses // that the log was told

	unanswered unanswered
	life       life
	history    history
}

type counts struct {
	acquired, taken, noQuorum, noValidity, renewed, lost atomic.Uint64
	handedOver, split, secondRounds                      atomic.Uint64
	parts                                                atomic.Int64
}

func (c *counts) notAcquired(reason error) {
	switch {
	case errors.Is(reason, ErrTaken):
		c.taken.Add(1)
	case errors.Is(reason, ErrNoQuorum):
		c.noQuorum.Add(1)
	case errors.Is(reason, ErrNoValidity):
		c.noValidity.Add(1)
	}
}

// Losses come all at once, when the nodes have other things to do. So a Locker tells of the first
// few of them, and the next entry says how many it left out.
const (
	lossesAtOnce = 8
	lossesPer    = time.Minute
)

// losses counts the entries of lost locks.
type losses struct {
	mu      sync.Mutex // guards the fields below; never held over a call to a node
	from    clock.Instant
	entries int // since then
	skipped int // since the last entry
}

// take reports whether there may be an entry now, and how many there were none of since the last.
func (s *losses) take(now clock.Instant) (skipped int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries == 0 || now.Sub(s.from) >= lossesPer {
		s.from, s.entries = now, 0
	}
	if s.entries == lossesAtOnce {
		s.skipped++
		return 0, false
	}
	skipped = s.skipped
	s.entries, s.skipped = s.entries+1, 0
	return skipped, true
}

// nodes returns the nodes: those of the list, and then those of members that it lacks.
func (l *Locker) nodes() []*pipeline.Node { return l.members.Nodes() }

func (l *Locker) trace(ctx context.Context, kind OperationKind, name string) (context.Context, span) {
	if l.config.tracer == nil || ctx == nil {
		return ctx, nil
	}
	return l.config.tracer.Start(ctx, Operation{kind, name})
}

// life counts what is under way in a Locker. It ends once the Locker is closed and nothing is under
// way.
type life struct {
	running atomic.Int64  // calls and rounds under way, and lifeOver once the Locker is closed
	closing chan struct{} // closed by close
	idle    chan struct{} // closed when running was lifeOver
	over    sync.Once     // closes idle

	mu      sync.Mutex    // guards the fields below; never held over a call to a node
	closed  bool          // as running says; for what must happen in one step with it
	guarded int           // locks of Do whose function may be running
	rest    chan struct{} // closed when closed is set and guarded is 0

	ended       chan struct{} // closed when the first Close is over
	undelivered error         // what each Close returns; written before ended is closed
}

// lifeOver exceeds any number of calls under way; adding it closes the Locker.
const lifeOver = 1 << 62

func (l *life) init() {
	l.closing, l.idle, l.rest, l.ended = make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
}

// close sets closed, and reports whether it was not set before. If so, the caller has entered.
func (l *life) close() (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.closed = true
	l.running.Add(lifeOver + 1) // 1 until all releases are under way, and count themselves
	if l.guarded == 0 {
		close(l.rest)
	}
	close(l.closing)
	return true
}

// enter counts a call, and reports false once the Locker is closed. Every call that entered must
// leave.
func (l *life) enter() bool {
	if l.running.Add(1) > lifeOver {
		l.leave()
		return false
	}
	return true
}

// few reports whether there is one call, and at most the releases before it whose last votes are
// out.
func (l *life) few() bool { return l.running.Load() <= 3 }

func (l *life) isClosed() bool { return l.running.Load() >= lifeOver }

// enterRound counts a round in the background, which is sent even while the Locker is closing: a
// release must be.
func (l *life) enterRound() { l.running.Add(1) }

func (l *life) leave() {
	if l.running.Add(-1) == lifeOver {
		l.over.Do(func() { close(l.idle) }) // once, although a late Unlock of a lost lock may follow
	}
}

// leaveGuarded is called when a function of Do has returned and its lock's release is under way.
func (l *life) leaveGuarded() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.guarded--; l.guarded == 0 && l.closed {
		close(l.rest)
	}
}

// await waits for a channel to be closed. It reports false if the instant comes, or ctx or the
// Locker ends, first.
func (l *Locker) await(ctx context.Context, changed <-chan struct{}, until clock.Instant) bool {
	late, timer := clock.After(l.clock, max(until.Sub(l.clock.Now()), 0))
	defer timer.Stop()
	select {
	case <-changed:
		return true
	case <-late:
	case <-ctx.Done():
	case <-l.life.closing:
	}
	return false
}

// awaitVoters waits until a quorum of nodes votes and a lock may last for life, or it is clear that
// this will not be for now. It waits for at most half a node timeout, so that the nodes that vote
// still have time to. It costs nothing if there is no need to wait. It returns the time, now if it
// has not waited.
func (l *Locker) awaitVoters(ctx context.Context, now clock.Instant, timeout, life time.Duration) clock.Instant {
	if l.members.View().Permits(life) {
		return now
	}
	until := now.Add(timeout / 2)
	for {
		changed := l.members.Undecided() // before the look: what changes in between is not missed
		if l.members.View().Permits(life) || changed == nil || !l.await(ctx, changed, until) {
			break
		}
	}
	return l.clock.Now()
}

// askEach asks every node and returns what they have answered by the timeout or the end of ctx, nil
// for those that have not. It returns an error if fewer than a quorum answered. A caller that has
// many questions does not wait long for the slowest nodes: see [look.Within].
func (l *Locker) askEach(ctx context.Context, request pipeline.Request, name string, timeout time.Duration) ([]any, *round.Round, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lag, bounded := look.Lag(ctx)
	var mu sync.Mutex
	var replies []any
	take := func(node int, reply any) {
		mu.Lock()
		defer mu.Unlock()
		replies[node] = reply
	}
	var r *round.Round
	var lags, enough atomic.Bool // the others are given their time; it is over
	over := func() {
		lags.Store(false) // first: an answer that comes now gives them time again
		if r.QuorumAnswered() {
			enough.Store(true)
			stop()
		}
	}
	rule := func(votes quorum.Tally) quorum.Verdict {
		if bounded && quorum.DecideAnswered(votes) == quorum.Won && lags.CompareAndSwap(false, true) {
			l.clock.AfterFunc(lag, over)
		}
		return awaitAll(votes)
	}
	r = l.rounds.New(&round.Spec{Request: request, Meaning: wire.Any, Rule: rule, Replies: take})
	replies = make([]any, len(r.Nodes()))
	deadline := l.clock.Now().Add(timeout)
	l.awaitVoters(ctx, l.clock.Now(), timeout, 0)
	r.Send(deadline, 0)
	v, ended := l.verdict(ctx, r)
	mu.Lock()
	defer mu.Unlock()
	if v == quorum.Won || (v == quorum.Pending && (enough.Load() || r.QuorumAnswered()) && !errors.Is(ended, ErrClosed)) {
		return slices.Clone(replies), r, nil
	}
	return slices.Clone(replies), r, roundError(r, "inspect", name, ErrNoQuorum, nil).endedBy(ended)
}

// verdict waits for a round that an operator began, and says why if ctx or the Locker ends first.
func (l *Locker) verdict(ctx context.Context, r *round.Round) (v quorum.Verdict, ended error) {
	ctx, cancel := l.untilClosed(ctx)
	defer cancel()
	if v, _ = r.Wait(ctx); v != quorum.Won && ctx.Err() != nil { //nolint:errcheck // told in full below
		ended = l.waiters.WhyEnded(ctx)
	}
	return v, ended
}

// awaitAll is DecideHeld, but undecided until all nodes have answered or failed.
func awaitAll(votes quorum.Tally) quorum.Verdict {
	if votes.Outstanding() > 0 {
		return quorum.Pending
	}
	return quorum.DecideHeld(votes)
}

// refusal returns why the cluster does not permit a lock, nil if it does: nodes would keep it for
// longer than a master that forgets, and a change of members, wait for.
func (l *Locker) refusal(lock *Lock) error {
	if err := l.members.View().Conflict; err != nil {
		return invalid("%w", err)
	}
	what := "TTL"
	if lock.minimum() > lock.ttl {
		what = "minimum hold"
	}
	return l.checkMaxTTL(what, lock.life())
}

// checkMaxTTL checks a time for which nodes keep a lock, by what it is called.
func (l *Locker) checkMaxTTL(what string, ttl time.Duration) error {
	ttl = ttl.Truncate(time.Millisecond) // as the nodes count it
	most := l.members.View().MaxTTL()
	switch r := l.members.View().Roster; {
	case ttl <= most:
		return nil
	case r != nil && ttl <= r.MaxTTL:
		return invalid("%s %v is above the cluster's maximum of %v, until all its members answer and know the new one of %v", what, ttl, most, r.MaxTTL)
	default:
		return invalid("%s %v is above the cluster's maximum of %v (`redlock members max-ttl %v` raises it)", what, ttl, most, ttl)
	}
}
