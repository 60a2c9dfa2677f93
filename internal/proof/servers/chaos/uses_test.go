//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

// use is one way to use the library.
type use struct {
	kind    string
	workers int // in each process
	run     func(ctx context.Context, c *client, rng *rand.Rand)
}

const shortHold = 4 * time.Millisecond

// The names of mutexes. Foreign clients share the first two, and sets are of the next three.
var mutexes = numbered("mutex", 16)

func numbered(name string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(name, i))
	}
	return names
}

// The names that have readers.
var shared = numbered("shared", 4)

var fenced = redlock.WithFencing()

// The names that somebody has nearly always. They have no fencing tokens, so a lock may stand on a
// majority with the master whose clock is wrong.
var long = []string{"unrenewed0", "unrenewed1", "minhold0", "minhold1", "renewed"}

var uses = []use{
	lockUse("lock", 8, shortHold, func(c *client) attempt {
		return func(ctx context.Context, rng *rand.Rand) (*redlock.Lock, error) {
			return c.locker.Lock(ctx, oneOf(rng, mutexes), fenced)
		}
	}),
	lockUse("trylock", 2, shortHold, func(c *client) attempt {
		return func(ctx context.Context, rng *rand.Rand) (*redlock.Lock, error) {
			return c.locker.TryLock(ctx, oneOf(rng, mutexes), fenced)
		}
	}),
	lockUse("any", 1, shortHold, func(c *client) attempt {
		return func(ctx context.Context, rng *rand.Rand) (*redlock.Lock, error) {
			return c.locker.LockAny(ctx, some(rng, mutexes, 3), fenced)
		}
	}),
	lockUse("all", 1, shortHold, func(c *client) attempt {
		return func(ctx context.Context, rng *rand.Rand) (*redlock.Lock, error) {
			return c.locker.LockAll(ctx, some(rng, mutexes[2:5], 2), fenced)
		}
	}),
	lockUse("renewed", 1, 2*ttl, func(c *client) attempt {
		return func(ctx context.Context, _ *rand.Rand) (*redlock.Lock, error) { return c.locker.Lock(ctx, long[4]) }
	}),
	lockUse("unrenewed", 2, ttl, func(c *client) attempt {
		return func(ctx context.Context, rng *rand.Rand) (*redlock.Lock, error) {
			return c.locker.Lock(ctx, oneOf(rng, long[:2]), redlock.WithoutRenewal())
		}
	}),
	lockUse("sneaking", 2, shortHold, func(c *client) attempt { // past those that wait
		return func(ctx context.Context, rng *rand.Rand) (*redlock.Lock, error) {
			pause(ctx, upTo(rng, 40*time.Millisecond))
			return c.locker.TryLock(ctx, oneOf(rng, long))
		}
	}),
	lockUse("read", 8, 2*shortHold, func(c *client) attempt {
		return func(ctx context.Context, rng *rand.Rand) (*redlock.Lock, error) {
			return c.locker.RLock(ctx, oneOf(rng, shared), fenced)
		}
	}),
	lockUse("write", 2, shortHold, func(c *client) attempt {
		return func(ctx context.Context, rng *rand.Rand) (*redlock.Lock, error) {
			return c.locker.Lock(ctx, oneOf(rng, shared), fenced)
		}
	}),
	lockUse("permit", 2, 2*shortHold, permits(2)),
	lockUse("permit", 2, 2*shortHold, permits(3)),
	lockUse("permit", 2, ttl, permits(4)), // nearly always taken
	lockUse("minhold", 1, shortHold, func(c *client) attempt {
		return func(ctx context.Context, rng *rand.Rand) (*redlock.Lock, error) {
			return c.locker.Lock(ctx, oneOf(rng, long[2:4]), redlock.WithMinHold(minHold), redlock.WithoutRenewal())
		}
	}),
	{"leader", 1, campaign},
	{"push", 1, push},
	{"pop", 1, pop},
	{"handle", 1, handle},
}

func oneOf(rng *rand.Rand, names []string) string { return names[rng.IntN(len(names))] }

// some returns n of the names, in any order.
func some(rng *rand.Rand, names []string, n int) (chosen []string) {
	for _, i := range rng.Perm(len(names))[:n] {
		chosen = append(chosen, names[i])
	}
	return chosen
}

// permits is the use of a semaphore. The number is part of its name.
func permits(n int) func(c *client) attempt {
	return func(c *client) attempt {
		s, err := c.locker.Semaphore(fmt.Sprint("permit", n), n)
		if err != nil {
			panic(err) // a bad name or number
		}
		return func(ctx context.Context, rng *rand.Rand) (*redlock.Lock, error) {
			if rng.IntN(4) == 0 {
				return s.TryAcquire(ctx, fenced)
			}
			return s.Acquire(ctx, fenced)
		}
	}
}

// campaign leads for a short time, again and again.
func campaign(ctx context.Context, c *client, rng *rand.Rand) {
	for ctx.Err() == nil {
		e, err := election.New(c.locker, "leader")
		if err != nil {
			panic(err) // a bad name
		}
		called := now()
		err = e.Run(ctx, func(ctx context.Context, term int64) error {
			c.lead(ctx, e, event{ID: c.journal.ids.Add(1), Kind: "leader", Names: []string{"leader"}, Call: called, Token: term},
				upTo(rng, 150*time.Millisecond))
			return errTermOver
		})
		if err != nil && !errors.Is(err, errTermOver) {
			c.failed("leader", err)
		}
	}
}

var errTermOver = errors.New("the term is over")

// lead is [client.hold] for a leader.
func (c *client) lead(ctx context.Context, e *election.Election, h event, d time.Duration) {
	for at, till := now(), now().Add(d); ; at = now() {
		leader, err := e.Leader(ctx)
		leads := err == nil && leader.Term == h.Token && leader.Until > 0
		switch {
		case h.Type == "":
			h.Type, h.At, h.Begin, h.Until = gotEvent, at, at, at.Add(leader.Until)
			if !leads {
				h.Type = voidEvent
				c.journal.write(h)
				return
			}
			c.journal.write(h)
		case !leads:
			c.journal.write(event{Type: endEvent, ID: h.ID, At: h.At})
			return
		case at >= till:
			c.journal.write(event{Type: endEvent, ID: h.ID, At: at})
			return
		}
		h.At = at // it led then
		pause(ctx, 5*time.Millisecond)
	}
}

// The queues. Tasks of the first are popped, those of the second are handled.
const (
	popped  = "popped"
	handled = "handled"
)

const (
	lease     = 3 * time.Second
	fullBatch = 5
)

func (c *client) queue(name string) *queue.Queue {
	q, err := queue.New(c.locker, c.Store, name)
	if err != nil {
		panic(err) // a bad endpoint or name
	}
	return q
}

func push(ctx context.Context, c *client, rng *rand.Rand) {
	queues := map[string]*queue.Queue{popped: c.queue(popped), handled: c.queue(handled)}
	defer queues[popped].Close()
	defer queues[handled].Close()
	for n := 0; ctx.Err() == nil; {
		h := event{Type: pushEvent, ID: c.journal.ids.Add(1), At: now(), Names: []string{popped}}
		if rng.IntN(3) == 0 {
			h.Names[0] = handled
		}
		for range 1 + rng.IntN(fullBatch) {
			n++
			h.Tasks = append(h.Tasks, fmt.Sprintf("%d-%d", c.ID, n))
		}
		c.journal.write(h)
		err := queues[h.Names[0]].Enqueue(ctx, h.Tasks, upTo(rng, 50*time.Millisecond))
		c.journal.write(event{Type: pushedEvent, ID: h.ID, At: now(), Doubt: err != nil})
		c.queueFailed("push", err)
		pause(ctx, upTo(rng, 40*time.Millisecond))
	}
}

func pop(ctx context.Context, c *client, rng *rand.Rand) {
	q := c.queue(popped)
	defer q.Close()
	for ctx.Err() == nil {
		if tasks := c.popOnce(ctx, q); tasks == 0 {
			pause(ctx, upTo(rng, 60*time.Millisecond))
		}
	}
}

// popOnce pops, and returns how many tasks it got.
func (c *client) popOnce(ctx context.Context, q *queue.Queue) int {
	h := event{Type: popEvent, ID: c.journal.ids.Add(1), At: now(), Names: []string{popped}}
	c.journal.write(h)
	tasks, err := q.Pop(ctx, fullBatch)
	h.Type, h.At, h.Doubt = poppedEvent, now(), err != nil
	for _, task := range tasks {
		h.Tasks = append(h.Tasks, task.ID)
	}
	c.journal.write(h)
	c.queueFailed("pop", err)
	return len(tasks)
}

func handle(ctx context.Context, c *client, rng *rand.Rand) {
	q := c.queue(handled)
	defer q.Close()
	err := q.Run(ctx, func(ctx context.Context, task queue.Task) error {
		h := event{Type: gotEvent, ID: c.journal.ids.Add(1), At: now(), Kind: "handle", Names: []string{handled + "/" + task.ID}}
		h.Call, h.Begin, h.Until = h.At, h.At, h.At
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.journal.write(h)
		pause(ctx, shortHold/2)
		end := now()
		if ctx.Err() != nil || end.Sub(h.At) > lease/2 { // its timer may be late
			end = h.At
		}
		c.journal.write(event{Type: endEvent, ID: h.ID, At: end})
		return ctx.Err()
	}, queue.WithLease(lease), queue.WithRetryDelay(50*time.Millisecond), queue.WithReport(func(err error) { c.queueFailed("handle", err) }))
	c.queueFailed("handle", err)
}

// queueFailed is [client.failed] for what also comes from the store.
func (c *client) queueFailed(kind string, err error) {
	var call *pool.CallError
	if err != nil && !errors.Is(err, fence.ErrStale) && !errors.As(err, &call) {
		c.failed(kind, err)
	}
}
