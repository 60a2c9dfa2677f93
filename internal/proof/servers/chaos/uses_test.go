//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/internal/proof/history"
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

// The names that have readers.
var shared = numbered("shared", 4)

// The names that somebody has nearly always. They have no fencing tokens, so a lock may stand on a
// majority with the master whose clock is wrong.
var long = []string{"unrenewed0", "unrenewed1", "minhold0", "minhold1", "renewed"}

func numbered(name string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(name, i))
	}
	return names
}

var fenced = redlock.WithFencing()

// attempt is a way to acquire a lock.
type attempt func(ctx context.Context, c *client, rng *rand.Rand) (*redlock.Lock, error)

// These are methods of a Locker.
type (
	onName  func(*redlock.Locker, context.Context, string, ...redlock.LockOption) (*redlock.Lock, error)
	onNames func(*redlock.Locker, context.Context, []string, ...redlock.LockOption) (*redlock.Lock, error)
)

var uses = []use{
	lockUse("lock", 8, shortHold, one(mutexes, (*redlock.Locker).Lock, fenced)),
	lockUse("trylock", 2, shortHold, one(mutexes, (*redlock.Locker).TryLock, fenced, redlock.WithHistory())),
	lockUse("any", 1, shortHold, some(mutexes, 3, (*redlock.Locker).LockAny, fenced)),
	lockUse("all", 1, shortHold, some(mutexes[2:5], 2, (*redlock.Locker).LockAll, fenced)),
	lockUse("renewed", 1, 2*ttl, one(long[4:], (*redlock.Locker).Lock, redlock.WithHistory())),
	lockUse("unrenewed", 2, ttl, one(long[:2], (*redlock.Locker).Lock, redlock.WithoutRenewal())),
	lockUse("sneaking", 2, shortHold, func(ctx context.Context, c *client, rng *rand.Rand) (*redlock.Lock, error) {
		pause(ctx, upTo(rng, 40*time.Millisecond))
		return one(long, (*redlock.Locker).TryLock)(ctx, c, rng) // past those that wait
	}),
	lockUse("read", 8, 2*shortHold, one(shared, (*redlock.Locker).RLock, fenced)),
	lockUse("write", 2, shortHold, one(shared, (*redlock.Locker).Lock, fenced)),
	lockUse("permit", 2, 2*shortHold, permits(2)),
	lockUse("permit", 2, 2*shortHold, permits(3)),
	lockUse("permit", 2, ttl, permits(4)), // nearly always taken
	lockUse("minhold", 1, shortHold, one(long[2:4], (*redlock.Locker).Lock, redlock.WithMinHold(minHold), redlock.WithoutRenewal())),
	{"leader", 1, campaign},
	{"push", 1, push},
	{"pop", 1, pop},
	{"handle", 1, handle},
}

// one acquires one of the names.
func one(names []string, lock onName, opts ...redlock.LockOption) attempt {
	return func(ctx context.Context, c *client, rng *rand.Rand) (*redlock.Lock, error) {
		return lock(c.locker, ctx, names[rng.IntN(len(names))], opts...)
	}
}

// some acquires any or all of n of the names, given in any order.
func some(names []string, n int, lock onNames, opts ...redlock.LockOption) attempt {
	return func(ctx context.Context, c *client, rng *rand.Rand) (*redlock.Lock, error) {
		var chosen []string
		for _, i := range rng.Perm(len(names))[:n] {
			chosen = append(chosen, names[i])
		}
		return lock(c.locker, ctx, chosen, opts...)
	}
}

// permits is the use of a semaphore. The number is part of its name.
func permits(n int) attempt {
	return func(ctx context.Context, c *client, rng *rand.Rand) (*redlock.Lock, error) {
		s, err := c.locker.Semaphore(fmt.Sprint("permit", n), n)
		if err != nil {
			panic(err) // a bad name or number
		}
		if rng.IntN(4) == 0 {
			return s.TryAcquire(ctx, fenced)
		}
		return s.Acquire(ctx, fenced)
	}
}

// lockUse is a use that acquires and releases, for ever. Most calls have much time, and most
// holds are short.
func lockUse(kind string, workers int, longest time.Duration, acquire attempt) use {
	return use{kind: kind, workers: workers, run: func(ctx context.Context, c *client, rng *rand.Rand) {
		for ctx.Err() == nil {
			limit := 4 * time.Second
			if rng.IntN(20) == 0 {
				limit = upTo(rng, 20*time.Millisecond)
			}
			called := now()
			callCtx, cancel := context.WithTimeout(ctx, limit)
			lock, err := acquire(callCtx, c, rng)
			cancel()
			if err != nil {
				c.failed(kind, err)
				pause(ctx, upTo(rng, 10*time.Millisecond))
				continue
			}
			d := upTo(rng, longest)
			if rng.IntN(100) == 0 {
				d = upTo(rng, ttl)
			}
			c.hold(ctx, kind, called, lock, d)
		}
	}}
}

// campaign leads for a short time, again and again.
func campaign(ctx context.Context, c *client, rng *rand.Rand) {
	for ctx.Err() == nil {
		e, err := election.New(c.locker, "leader")
		if err != nil {
			panic(err) // a bad name
		}
		err = e.Run(ctx, func(ctx context.Context, term int64) error {
			h := c.holding("leader", "leader")
			h.Token = term
			h.lead(ctx, e, upTo(rng, 150*time.Millisecond))
			return errTermOver
		})
		if err != nil && !errors.Is(err, errTermOver) {
			c.failed("leader", err)
		}
	}
}

var errTermOver = errors.New("the term is over")

// lead is [client.hold] for a leader.
func (h *holding) lead(ctx context.Context, e *election.Election, d time.Duration) {
	led := clock.Instant(0) // the last time
	for at, till := now(), now().Add(d); ; at = now() {
		leader, err := e.Leader(ctx)
		leads := err == nil && leader.Term == h.Token && leader.Until > 0
		switch {
		case led == 0:
			h.Since, h.From, h.Late = at, at, !leads
			h.until(at.Add(leader.Until))
			if !leads {
				return
			}
		case !leads:
			h.until(led)
			return
		case at >= till:
			h.until(at)
			return
		}
		led = at
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

// call tells of a call, and how it ended.
func (c *client) call(told call, do func(told *call) error) {
	id := c.ids.Add(1)
	told.At = now()
	c.write(record{ID: id, Call: &told})
	err := do(&told)
	told.Returned, told.Uncertain = now(), err != nil
	c.write(record{ID: id, Call: &told})
	c.queueFailed(string(told.Function), err)
}

func push(ctx context.Context, c *client, rng *rand.Rand) {
	queues := map[string]*queue.Queue{popped: c.queue(popped), handled: c.queue(handled)}
	defer queues[popped].Close()
	defer queues[handled].Close()
	for n := 0; ctx.Err() == nil; {
		told := call{Function: history.Enqueue, Queue: popped}
		if rng.IntN(3) == 0 {
			told.Queue = handled
		}
		for range 1 + rng.IntN(fullBatch) {
			n++
			told.Tasks = append(told.Tasks, fmt.Sprintf("%d-%d", c.ID, n))
		}
		c.call(told, func(*call) error {
			return queues[told.Queue].Enqueue(ctx, told.Tasks, upTo(rng, 50*time.Millisecond))
		})
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
func (c *client) popOnce(ctx context.Context, q *queue.Queue) (n int) {
	c.call(call{Function: history.Dequeue, Queue: popped}, func(told *call) error {
		tasks, err := q.Pop(ctx, fullBatch)
		for _, task := range tasks {
			told.Tasks = append(told.Tasks, task.ID)
		}
		n = len(tasks)
		return err
	})
	return n
}

func handle(ctx context.Context, c *client, _ *rand.Rand) {
	q := c.queue(handled)
	defer q.Close()
	err := q.Run(ctx, func(ctx context.Context, task queue.Task) error {
		h := c.holding("handle", handled+"/"+task.ID)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		h.From = now()
		h.Since = h.From
		h.until(h.From)
		pause(ctx, shortHold/2)
		if end := now(); ctx.Err() == nil && end.Sub(h.From) <= lease/2 { // otherwise its timer may be late
			h.until(end)
		}
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

// voterKey says on each master that its memory counts: the value is the number of the master. It
// goes with the memory, and comes back when everything that was forgotten has expired.
const voterKey = "chaos:voter"

const foreignWorkers = 3

// foreign is a client of the algorithm as it is published: SET NX PX on all masters, and DEL if the
// value is still the same. It holds few connections, each for one call at a time.
type foreign struct {
	*client
	nodes []*foreignNode
}

type foreignNode struct {
	voter string
	conns redis.Pool
}

func newForeignNode(url string, n int) *foreignNode {
	return &foreignNode{voter: fmt.Sprint(n), conns: redis.Pool{MaxIdle: 1, Dial: func() (redis.Conn, error) {
		return redis.DialURL(url, redis.DialConnectTimeout(nodeTimeout), redis.DialReadTimeout(nodeTimeout), redis.DialWriteTimeout(nodeTimeout))
	}}}
}

func (c *client) runForeign(ctx context.Context) {
	var workers sync.WaitGroup
	for i := range foreignWorkers {
		f := &foreign{client: c}
		for n, address := range c.Nodes {
			f.nodes = append(f.nodes, newForeignNode(address, n))
		}
		rng := rand.New(rand.NewPCG(c.Seed, uint64(i)))
		workers.Go(func() {
			for ctx.Err() == nil {
				f.once(ctx, rng, mutexes[rng.IntN(2)])
				pause(ctx, upTo(rng, 20*time.Millisecond))
			}
		})
	}
	workers.Wait()
}

// once tries to lock, holds and releases.
func (f *foreign) once(ctx context.Context, rng *rand.Rand, name string) {
	h := f.holding("foreign", name)
	h.Value = fmt.Sprintf("foreign-%d-%d", f.ID, rng.Uint64())
	h.Since = now()
	valid := h.Since.Add(ttl - drift().Of(ttl))
	votes := f.each(func(n *foreignNode) bool { return n.set(name, h.Value) })
	h.From = now()
	if votes > len(f.nodes)/2 && h.From < valid {
		h.until(valid)
		pause(ctx, upTo(rng, shortHold))
		h.until(min(now(), valid))
	}
	f.each(func(n *foreignNode) bool { return n.unset(name, h.Value) })
}

// each asks all nodes and returns how many said yes.
func (f *foreign) each(ask func(n *foreignNode) bool) int {
	var yes atomic.Int64
	var all sync.WaitGroup
	for _, n := range f.nodes {
		all.Go(func() {
			if ask(n) {
				yes.Add(1)
			}
		})
	}
	all.Wait()
	return int(yes.Load())
}

// set asks for the lock, and afterwards whether the vote counts.
func (n *foreignNode) set(name, value string) bool {
	granted, err := redis.String(n.do("SET", name, value, "NX", "PX", ttl.Milliseconds()))
	if err != nil || granted != "OK" {
		return false
	}
	voter, err := redis.String(n.do("GET", voterKey))
	return err == nil && voter == n.voter
}

func (n *foreignNode) unset(name, value string) bool {
	const script = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`
	_, err := n.do("EVAL", script, 1, name, value)
	return err == nil
}

func (n *foreignNode) do(command string, args ...any) (any, error) {
	conn := n.conns.Get()
	defer conn.Close()
	return conn.Do(command, args...)
}
