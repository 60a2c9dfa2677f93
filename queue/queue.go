// Package queue provides a delayed queue with one entry per task, on one Redis. Its writes are
// fenced by the lock of package redlock: if a worker was stopped beyond the validity of its lock
// and goes on as if nothing had happened, the store refuses it.
//
// The data is a sorted set of task ids by due time, with the key "Queue:" + name. Due times are
// Unix seconds by the clock of that Redis, with microseconds after the point. Every change is made
// under the lock with the name of that key, by a script that compares the lock's fencing token with
// the newest one that it has seen. The queue's safety rests on that alone: it never asks whether
// the lock is still held. Anything that reads sorted sets can read the queue; what writes to it in
// another way is not fenced. A member that somebody else added is a task if it has 1 to 1,024
// bytes. When another one is due, Pop and Run give it the score inf, with which it is never due.
//
// Attempts, payloads and dead letters are beside it, in keys of their own (redquorum:queue:…:name),
// for the tasks that have any. An entry whose score somebody else has changed has its attempts
// before it again. Whoever removes an entry with ZREM leaves its payload there, until the id is
// enqueued again, or given to [Queue.Remove].
//
// # What is delivered how often
//
// [Queue.Pop] removes tasks and returns them, never to two callers, whatever happens to callers,
// lock and messages. A worker that dies after the store has removed its tasks takes them with it.
// [Queue.Run] keeps a task in the queue until its handler has succeeded: no task is lost with a
// worker, and a task whose worker died, or took longer than its lease, runs again. All this is true
// of a store that keeps what it has answered.
//
// # The store
//
// The store needs neither a quorum nor another server. If it comes back as it was a while ago, from
// a snapshot or as a replica that was behind, it delivers again what it has delivered since, and
// has lost what was added. Where that must not be, it needs "appendonly yes" and "appendfsync
// always", and no failover. It must not evict (maxmemory-policy noeviction). It may be one of the
// masters of the lock only if it uses a database of its own, or if the lock has a key prefix:
// without one, the keys of the lock and of the queue are the same.
package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Limits of arguments.
const (
	maxName  = 2048
	maxID    = 1024
	maxIDs   = 10000                     // of one change: some 10 ms of the store's time
	maxTasks = 2000                      // in one reply, which may have 4,096 entries
	maxDelay = 50 * 365 * 24 * time.Hour // a score that far ahead still has exact microseconds

	maxPayload  = 64 << 10 // also in record.lua
	maxPayloads = 1 << 20  // of one change: the store's time again
	maxDead     = 10000    // also in settle.lua: some 100 MB of letters with payloads of 10 KB
)

// Queue is a delayed queue. Its methods are safe for concurrent use. Changes wait for the lock of
// the queue, which all its processes share. Do not copy it.
type Queue struct {
	locker *redlock.Locker
	name   string // of the sorted set and of the lock
	config config
	store  store

	closing <-chan struct{}                // closed by Close
	close   func()                         // closes closing
	atClose func(func()) (off func() bool) // has a function called when closing is closed

	mu       sync.Mutex // guards the fields below
	closed   bool
	releases sync.WaitGroup // locks being released in the background; none is added once closed
}

// Task is an entry of the queue.
type Task struct {
	ID      string
	Score   float64 // when it is due: Unix seconds by the store's clock, exact to the microsecond
	Attempt int     // how often Run has begun it, this time included; 0 if never
	Payload []byte  // what [Queue.Add] gave it; nil for none
}

// New returns the queue with that name (1 to 2,048 bytes) on the Redis at the endpoint: a redis://,
// rediss:// or unix:// URL, or host:port. It returns at once and dials in the background. All users
// of the queue need a Locker with the same masters and key prefix. The Locker stays the caller's;
// close it after the Queue. Errors match [ErrInvalid], and never contain a password.
func New(locker *redlock.Locker, endpoint, name string, opts ...Option) (*Queue, error) {
	cfg, err := newConfig(opts)
	switch {
	case err != nil:
		return nil, err
	case locker == nil:
		return nil, invalid("locker is nil")
	case name == "" || len(name) > maxName:
		return nil, invalid("name has %d bytes, not 1 to %d", len(name), maxName)
	}
	node, err := pipeline.NewNode(endpoint, cfg.pool...)
	if err != nil {
		return nil, invalid("%w", err)
	}
	life, end := context.WithCancel(context.Background())
	q := &Queue{
		locker: locker, name: "Queue:" + name, config: cfg, closing: life.Done(), close: end,
		atClose: func(f func()) (off func() bool) { return context.AfterFunc(life, f) },
	}
	q.store = store{
		node: node, timeout: cfg.timeout, key: q.name,
		keys: []string{
			q.name, "redquorum:queue:fence:" + name, "redquorum:queue:last:" + name, "redquorum:queue:task:" + name,
			"redquorum:queue:running:" + name, "redquorum:queue:dead:" + name, "redquorum:queue:letter:" + name,
		},
	}
	return q, nil
}

// Close closes the connection to the store, and waits until the locks of earlier calls are
// released. Calls that wait for the store or the lock end with [pool.ErrClosed]. The Locker stays
// open.
func (q *Queue) Close() error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.close()
	err := q.store.node.Close()
	q.releases.Wait()
	return err
}

// lock waits for the lock of the queue. The minimum hold of the Locker's other locks would make
// every Pop wait for it.
func (q *Queue) lock(ctx context.Context, what string) (*redlock.Lock, error) {
	if ctx == nil {
		return nil, invalid("ctx is nil")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer q.atClose(func() { cancel(pool.ErrClosed) })()
	lock, err := q.locker.Lock(ctx, q.name, redlock.WithFencing(), redlock.WithMinHold(0))
	switch {
	case err != nil && errors.Is(context.Cause(ctx), pool.ErrClosed):
		return nil, fmt.Errorf("queue: %s: %w", what, pool.ErrClosed)
	case errors.Is(err, redlock.ErrInvalid): // such as a TTL above the cluster's maximum
		return nil, invalid("%w", err)
	case err != nil:
		return nil, fmt.Errorf("queue: %s: %w", what, err)
	}
	return lock, nil
}

// unlock releases the lock. The caller does not care whether that succeeds: what the store has
// answered is true even if the lock was lost meanwhile.
func unlock(ctx context.Context, lock *redlock.Lock) {
	_ = lock.Unlock(ctx) //nolint:errcheck // see above; a lock that was not released expires
}

// unlockBehind releases the lock in the background, for a caller that must not lose a moment.
func (q *Queue) unlockBehind(ctx context.Context, lock *redlock.Lock) {
	q.mu.Lock()
	behind := !q.closed
	if behind {
		q.releases.Go(func() { unlock(ctx, lock) })
	}
	q.mu.Unlock()
	if !behind {
		unlock(ctx, lock)
	}
}

func checkIDs(ids []string) error {
	if len(ids) == 0 || len(ids) > maxIDs {
		return invalid("%d ids, not 1 to %d", len(ids), maxIDs)
	}
	for i, id := range ids {
		if id == "" || len(id) > maxID {
			return invalid("id %d has %d bytes, not 1 to %d", i+1, len(id), maxID)
		}
	}
	return nil
}

func checkCount(n int) error {
	if n < 1 || n > maxTasks {
		return invalid("%d tasks, not 1 to %d", n, maxTasks)
	}
	return nil
}
