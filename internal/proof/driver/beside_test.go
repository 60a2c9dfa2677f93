package driver_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

// besides are what may happen beside the actors.
var besides = []besidePlan{
	{electing, elects},
	{queueing, queues},
	{spoiling, spoils},
	{foreigners, foreign},
}

const (
	electing   = "an election"
	queueing   = "a queue"
	spoiling   = "others write beside the locks"
	foreigners = "clients of another library"
)

// unasked are the beginnings of keys beside a lock, into which others may write anything.
var unasked = []string{"redquorum:wait:", "redquorum:waits:", "redquorum:others:", "redquorum:intent:", "redquorum:permits:", "redquorum:permit:wait:"}

// spoilt reports whether a key may be there because others wrote it.
func spoilt(key string) bool {
	return slices.ContainsFunc(append(unasked, "redquorum:readers:"), func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// spoils writes at one master into keys beside those of locks. No script may fail on them, and
// nobody may take them for more than they are. A spoilt counter of tokens needs the other masters,
// and that their clocks are right (docs/fencing.md).
func spoils(r *run, rng *rand.Rand) {
	if r.plan.forgets || r.plan.unsettled() {
		return
	}
	at := rng.IntN(r.plan.masters)
	m, alone := r.masters[at], r.plan.wrong < 0 || r.plan.wrong == at
	write := func(m master, command, key string, args ...any) {
		_, _ = m.do(command, append([]any{key}, args...)...) //nolint:errcheck // it may be down, or have another type there
	}
	for r.goesOn() {
		name := pick(rng, "hot", "hot", "warm0", "wild0", "kept0", "sem1", "sem2", "sem3")
		key, text := pick(rng, unasked...)+name, pick(rng, "", "text", "-1", "1e300", "9007199254740991", "5 5", "1024")
		if text == "1024" && (r.plan.masters <= 2 || r.plan.steady() && !r.plan.onlyBreaks(at)) {
			text = "" // a number counts that a quorum tells, or that no quorum is without
		}
		switch luck := rng.IntN(8); {
		case luck == 0:
			write(m, "ZADD", "redquorum:readers:"+name, 9007199254740991, "theirs")
		case luck == 1 && len(r.plan.faults) == 0 && r.plan.masters > 2 && alone:
			write(m, "SET", "redquorum:fence:"+name, text)
			if rng.IntN(2) == 0 { // or another type
				write(m, "DEL", "redquorum:fence:"+name)
				write(m, "ZADD", "redquorum:fence:"+name, 1, "theirs")
			}
		case luck == 2:
			write(m, "DEL", key)
		case luck == 3:
			write(m, "SET", key, text, "PX", 1+rng.IntN(2000))
		case luck == 4:
			write(m, "SET", key, text)
		case luck == 5: // at every master
			for _, one := range r.masters {
				write(one, "SET", "redquorum:permits:"+pick(rng, "sem1", "sem2", "sem3"), pick(rng, "", "text", "-1"))
			}
		default:
			write(m, "ZADD", key, rng.IntN(3)-1, pick(rng, "no colon", ":", "p:mine", "+p:theirs"))
		}
		r.pause(upTo(rng, 120*time.Millisecond))
	}
}

// until returns a context that ends with the storm.
func (r *run) until() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.base)
	go func() {
		defer cancel()
		select {
		case <-r.ending:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// elects has candidates that lead, resign and are closed, and one that watches.
func elects(r *run, rng *rand.Rand) {
	ctx, cancel := r.until()
	defer cancel()
	for what, err := range map[string]error{
		"no Locker": second(election.New(nil, "leader")),
		"no name":   second(election.New(r.clients[0].current().locker, "")),
		"no ID":     second(election.New(r.clients[0].current().locker, "leader", election.WithID(""))),
	} {
		r.promise("mistakes of an election are ErrInvalid", is(err, election.ErrInvalid), "%s: %v", what, err)
	}
	var all sync.WaitGroup
	for i := range 2 + rng.IntN(2) {
		seed := rng.Uint64()
		all.Go(func() { r.candidate(ctx, fmt.Sprint("candidate ", i), rand.New(rand.NewPCG(seed, 0))) })
	}
	all.Go(func() { r.watches(ctx) })
	all.Wait()
}

// candidate campaigns until the storm ends, each time with the Locker that its client has then.
func (r *run) candidate(ctx context.Context, who string, rng *rand.Rand) {
	for r.goesOn() {
		life := r.clients[rng.IntN(len(r.clients))].current()
		e, err := election.New(life.locker, "leader", election.WithID(who), election.WithLockOptions(r.plan.office()...))
		r.promise("New takes what is valid", err == nil, "election.New: %v", err)
		var led clock.Instant // since when, the last time
		var value string      // of its lock then
		err = e.Run(ctx, func(ctx context.Context, term int64) error {
			led, value = r.clock.Now(), r.valueOf(who)
			return r.leads(ctx, who, e, life, term, rng)
		})
		r.note(who, "Run: %v", err)
		closed, lied := life.closed.Load(), r.plan.suffers(straying) // as if it forbade the record
		r.promise("errors of Election.Run", err == nil || is(err, errEnough) || closed && is(err, redlock.ErrClosed) || lied && is(err, redlock.ErrNoQuorum), "%s: Run: %v", who, err)
		r.promise("Run returns nil at the end", err != nil || ctx.Err() != nil || closed, "%s: Run returned nil, and its context goes on", who)
		if rng.IntN(4) == 0 {
			began := r.clock.Now()
			// A lock whose maximum hold ends as lead returns is released in the background.
			gaveUp := is(err, errEnough) && (r.plan.term == 0 || r.since(led) < r.plan.term/2)
			err := e.Resign(ctx)
			r.promise("Resign again tells of the release", err != nil || !gaveUp || r.leftBy(value) <= r.plan.masters/2,
				"%s: Resign after Run, and %d of %d masters keep its lock", who, r.leftBy(value), r.plan.masters)
			r.promise("Resign without a term", err == nil || closed || is(err, redlock.ErrNoQuorum, redlock.ErrLost) || ctx.Err() != nil,
				"%s: Resign after Run: %v", who, err)
			r.promise("Resign in time", r.since(began) <= life.client.plan.nodeTimeout(r.plan.maxTTL)+r.slack || ctx.Err() != nil, "%s: Resign took %v", who, r.since(began))
		}
		r.pause(upTo(rng, 50*time.Millisecond))
	}
}

var errEnough = errors.New("enough")

// valueOf returns the value of the lock of a candidate who has just got it: most masters have that.
// One may have another, if it handed the lock to a place on the list that the candidate had left.
func (r *run) valueOf(who string) (most string) {
	if !r.look {
		return ""
	}
	masters := make(map[string]int)
	for _, m := range r.masters {
		if value, _, found := m.get("leader"); found && strings.HasSuffix(value, "|"+who) {
			if masters[value]++; masters[value] > masters[most] {
				most = value
			}
		}
	}
	return most
}

// leftBy counts the masters that have the lock of a candidate who gave it up, and could not take
// the release for another answer, or have an earlier state again.
func (r *run) leftBy(value string) (kept int) {
	if !r.look || r.plan.unsettled() || r.plan.suffers(straying) {
		return 0
	}
	for i, m := range r.masters {
		if now, _, found := m.get("leader"); found && now == value && !r.plan.hasSnapshotOf(i) {
			kept++
		}
	}
	return kept
}

// leads leads for a while.
func (r *run) leads(ctx context.Context, who string, e *election.Election, life *life, term int64, rng *rand.Rand) error {
	h := &history.Hold{Who: who, How: "leads", Names: []string{"leader"}, Token: r.ordered(term), Value: fmt.Sprint(who, term), Since: r.clock.Now(), From: r.clock.Now(), To: history.Held}
	h.Late = ctx.Err() != nil
	r.mu.Lock()
	r.holds = append(r.holds, h)
	r.mu.Unlock()
	r.note(who, "leads, term %d", term)
	leads := e.IsLeader()
	r.promise("IsLeader while lead runs", leads || ctx.Err() != nil || r.plan.sleeps, "%s leads (%v), IsLeader: %t", who, ctx.Err(), leads)
	asked := r.clock.Now()
	told, err := e.Leader(ctx)
	r.promise("the leader knows itself", ctx.Err() != nil || err == nil && told.Term == term && told.ID == who && told.Until > 0 && told.Until <= r.plan.maxTTL, "%s leads, Leader: %+v, %v", who, told, err)
	ends := asked.Add(told.Until)
	again := e.Run(ctx, func(context.Context, int64) error { return nil })
	r.promise("an Election runs once", is(again, election.ErrRunning), "%s leads, and Run again: %v", who, again)
	r.onRecord(ctx, who, term, ends, rng)
	if rng.IntN(4) == 0 { // from outside of lead, for which Resign waits
		after := upTo(rng, 50*time.Millisecond)
		r.watchers.Go(func() {
			time.Sleep(after)
			err := e.Resign(r.base)
			r.promise("Resign from outside", err == nil || is(err, redlock.ErrNoQuorum, redlock.ErrLost, redlock.ErrClosed), "%s: Resign: %v", who, err)
		})
	}
	resigns := rng.IntN(4) == 0
	select {
	case <-ctx.Done():
		h.To = max(r.clock.Now(), h.From)
		cause := context.Cause(ctx)
		if is(cause, election.ErrResigned) && r.plan.steady() && r.plan.term == 0 && r.look { // the lock is kept until lead returns
			time.Sleep(upTo(rng, 20*time.Millisecond))
			if !life.closed.Load() && !life.unlocked.Load() { // which do not wait for lead
				h.To = r.clock.Now()
			}
		}
		r.reachIf("a term that was lost", is(cause, redlock.ErrLost))
		r.promise("the cause of the end of a term", is(cause, redlock.ErrLost, redlock.ErrReleased, election.ErrResigned, context.Canceled, redlock.ErrClosed),
			"%s: the context of lead ended: %v", who, cause)
		if resigns {
			began, err := r.clock.Now(), e.Resign(ctx)
			r.promise("Resign in lead", err == nil && r.since(began) <= r.slack, "%s: Resign: %v, when its term is over", who, err)
		}
		return nil
	case <-time.After(upTo(rng, 200*time.Millisecond)):
	}
	if most := r.plan.term; most > 0 && !r.plan.sleeps && r.look {
		r.promise("a term ends with its longest hold", r.since(h.From) <= most, "%s leads for %v, of %v", who, r.since(h.From), most)
	}
	if resigns {
		err := e.Resign(ctx)
		h.To = r.clock.Now()
		r.promise("Resign in lead", err == nil && ctx.Err() != nil, "%s: Resign: %v, and the context of lead: %v", who, err, ctx.Err())
		r.reachIf("a leader that resigned", true)
		return nil
	}
	h.To = r.clock.Now()
	return errEnough
}

// onRecord looks whether any Locker tells of a leader from the beginning of its term.
func (r *run) onRecord(ctx context.Context, who string, term int64, ends clock.Instant, rng *rand.Rand) {
	life := r.clients[rng.IntN(len(r.clients))].current()
	e, err := election.New(life.locker, "leader")
	if err != nil || !r.plan.steady() || !r.look {
		return
	}
	asked := r.clock.Now()
	told, err := e.Leader(ctx)
	if err != nil || ctx.Err() != nil {
		return // a Locker that was just opened may know no master yet
	}
	r.promise("a leader is on record", told.Term >= term, "%s leads, and for %s it is %+v", who, life.client.plan.who, told)
	if told.Term != term {
		return
	}
	now, kept, seen := r.clock.Now(), time.Duration(0), 0
	for i, m := range r.masters {
		_, ttl, _ := m.get("leader")
		kept = max(kept, ttl)
		if ttl >= ends.Sub(now) && r.plan.whole(i) && slices.Contains(life.client.plan.list, i) {
			seen++
		}
	}
	// The masters keep the lock for longer than its holder relies on it. A client that does not see
	// enough of the holder's votes may count one that was only handed over, which ends soon.
	unseen := r.plan.forgets || (len(r.plan.faults) > 0 || len(life.client.plan.list) < r.plan.masters) && seen <= r.plan.masters/2
	lasts := unseen || told.Until+time.Millisecond > ends.Sub(now)
	said := lasts && (told.Until <= kept+now.Sub(asked)+time.Millisecond || ctx.Err() != nil)
	r.promise("how long a leadership lasts", told.ID == who && said, "%s leads for another %v, the masters keep that for %v, and for %s it is %+v", who, ends.Sub(now), kept, life.client.plan.who, told)
}

// watches watches who leads: terms grow.
func (r *run) watches(ctx context.Context) {
	life := r.clients[0].current()
	e, err := election.New(life.locker, "leader")
	if err != nil {
		return
	}
	last := int64(0)
	for leader := range e.Watch(ctx) {
		if leader.Term == 0 {
			continue
		}
		r.promise("Watch tells terms in order", leader.Term >= last, "Watch told %d after %d", leader.Term, last)
		last = r.ordered(leader.Term)
	}
	r.promise("Watch until its end", ctx.Err() != nil || life.closed.Load(), "Watch ended by itself")
}

// queues has workers of one queue that pop tasks, run them, and are closed.
func queues(r *run, rng *rand.Rand) {
	if r.store == "" {
		return
	}
	q := &tasks{run: r, ended: make(map[string]bool), popped: make(map[string]bool)}
	ctx, cancel := r.until()
	defer cancel()
	var all sync.WaitGroup
	for i := range 3 {
		who, seed := fmt.Sprint("worker ", i), rng.Uint64()
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 1))
			for r.goesOn() {
				q.works(ctx, who, rng)
			}
		})
	}
	all.Wait()
	q.judge()
}

// taskAttempts is how often a task of the queue is begun at most.
const taskAttempts = 3

// tasks are those of a queue.
type tasks struct {
	*run
	made atomic.Int64

	mu    sync.Mutex
	added []string        // for certain
	ended map[string]bool // those that are gone, or may be

	popped map[string]bool // those that Pop returned
}

func (q *tasks) open(l *redlock.Locker, name string, opts ...queue.Option) (*queue.Queue, error) {
	return queue.New(l, q.store, name, append(opts, queue.WithPool(append([]pool.Option{pool.WithClock(q.clock)}, q.dial...)...))...)
}

// works opens the queue, adds tasks, and pops or runs some.
func (q *tasks) works(ctx context.Context, who string, rng *rand.Rand) {
	life := q.clients[rng.IntN(len(q.clients))].current()
	if rng.IntN(4) == 0 {
		q.tells(ctx, life)
		q.operates(ctx, life)
	}
	one, err := q.open(life.locker, "tasks")
	q.promise("New takes what is valid", err == nil, "queue.New: %v", err)
	for range rng.IntN(4) {
		id := fmt.Sprint("task", q.made.Add(1))
		limited, cancel := context.WithTimeout(ctx, time.Second)
		err := one.Add(limited, []queue.Item{{ID: id, Payload: []byte(id)}}, upTo(rng, 20*time.Millisecond))
		cancel()
		q.mu.Lock()
		if err == nil {
			q.added = append(q.added, id)
		}
		q.mu.Unlock()
		q.errs(ctx, "Enqueue", err, life)
	}
	if rng.IntN(2) == 0 {
		limited, cancel := context.WithTimeout(ctx, time.Second)
		popped, err := one.Pop(limited, 1+rng.IntN(3))
		cancel()
		q.errs(ctx, "Pop", err, life)
		for _, task := range popped {
			q.ends(who, task.ID, err == nil)
		}
	} else {
		q.runs(ctx, one, who, life, rng)
	}
	q.promise("closing a queue", one.Close() == nil, "%s: Close of the queue", who)
}

// runs runs tasks for a while. Then its context ends, or the queue is closed under it.
func (q *tasks) runs(ctx context.Context, one *queue.Queue, who string, life *life, rng *rand.Rand) {
	limited, cancel := context.WithTimeout(ctx, 10*time.Millisecond+upTo(rng, 300*time.Millisecond))
	defer cancel()
	closes := rng.IntN(3) == 0
	if closes { // it runs until then
		limited = ctx
	}
	var closing atomic.Int64
	if closes {
		timer := time.AfterFunc(upTo(rng, 100*time.Millisecond), func() {
			closing.Store(int64(q.clock.Now()))
			_ = one.Close()
		})
		defer timer.Stop()
	}
	err := one.Run(limited, func(ctx context.Context, task queue.Task) error {
		h := &history.Hold{Who: who, How: "runs", Names: []string{task.ID}, Value: who + task.ID, Since: q.clock.Now(), From: q.clock.Now(), To: history.Held, Late: ctx.Err() != nil}
		q.run.mu.Lock()
		q.holds = append(q.holds, h)
		q.run.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
		h.To = q.clock.Now()
		q.promise("attempts are bounded", task.Attempt >= 1 && task.Attempt <= taskAttempts, "attempt %d of %s", task.Attempt, task.ID)
		q.promise("a payload stays with its task", string(task.Payload) == task.ID, "the payload of %s is %q", task.ID, task.Payload)
		q.mu.Lock()
		defer q.mu.Unlock()
		q.reachIf("a task that ran again", q.ended[task.ID])
		q.ended[task.ID] = true
		return ctx.Err()
	}, queue.WithConcurrency(2), queue.WithRetryDelay(10*time.Millisecond), queue.WithPoll(time.Minute),
		queue.WithMaxAttempts(taskAttempts))
	if at := closing.Load(); at != 0 && len(q.plan.faults) == 0 {
		took := q.since(clock.Instant(at))
		q.promise("Run ends with Close", took <= 500*time.Millisecond, "%s: Run returned %v after Close", who, took)
	}
	apart := err != nil && q.plan.clock != 0 && explained.MatchString(err.Error()) // docs/fencing.md
	q.promise("errors of Queue.Run", err == nil && limited.Err() != nil || err != nil && (closing.Load() != 0 || life.closed.Load() || len(q.plan.faults) > 0 || apart), "%s: queue.Run: %v", who, err)
}

// ends notes that a task is gone, or may be.
func (q *tasks) ends(who, id string, certain bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.promise("a task is popped once", !certain || !q.popped[id], "%s popped %s, which was gone", who, id)
	q.ended[id], q.popped[id] = true, q.popped[id] || certain
}

// errs judges the error of a change.
func (q *tasks) errs(ctx context.Context, call string, err error, life *life) {
	if err == nil {
		return
	}
	var unknown *pool.CallError
	q.promise("errors of a queue", ctx.Err() != nil || life.closed.Load() || errors.As(err, &unknown) ||
		is(err, redlock.ErrTaken, redlock.ErrNoQuorum, redlock.ErrLost, queue.ErrStale, context.DeadlineExceeded), "%s: %v", call, err)
}

// judge looks for tasks that were lost.
func (q *tasks) judge() {
	life := q.clients[0].current()
	one, err := q.open(life.locker, "tasks")
	if err != nil {
		return
	}
	defer one.Close()
	ctx, cancel := context.WithTimeout(q.base, 5*time.Second)
	defer cancel()
	counts, err := one.Count(ctx)
	n := counts.Waiting + counts.Due + counts.Running + counts.Dead
	q.mu.Lock()
	defer q.mu.Unlock()
	left := 0
	for _, id := range q.added {
		if !q.ended[id] {
			left++
		}
	}
	q.promise("no task is lost", err == nil && n >= left, "%d tasks are left at least, Count: %+v, %v", left, counts, err)
}
