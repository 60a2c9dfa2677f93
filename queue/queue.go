// Package queue has a delayed queue that keeps one entry per task, on one Redis. Its writes are fenced by the lock of package redlock: a
// worker that was stopped beyond the validity of its lock, and goes on as if nothing had happened, is refused by the store.
//
// The data is a sorted set, "Queue:" and the name, of task ids by due time: Unix seconds by the clock of that Redis, with the
// microseconds behind the point. Every change is made under the lock of the same name, in a script that compares the lock's fencing token
// with the newest one that it has seen. That is all that the queue is safe by: it never asks whether the lock is still held. Anything that
// reads sorted sets can read it; what writes it in another way is not fenced.
//
// # What is delivered how often
//
// [Queue.Pop] removes tasks and returns them: never to two callers, whatever happens. A worker that dies has what it popped; so it may
// take tasks with it, if it dies after the store has removed them. [Queue.Run] keeps a task in the queue until its handler has succeeded:
// none is lost with a worker, and one whose worker died, or took longer than its lease, is run again.
//
// # The store
//
// The store needs no quorum and no other server. It forgets the newest fence only together with the queue; so it should have persistence,
// and must not evict (maxmemory-policy noeviction). It may be one of the masters of the lock only with a database of its own, or where the
// lock has a key prefix: the lock and the queue have the same name.
package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock"
)

// Limits of what is accepted.
const (
	maxName  = 2048
	maxID    = 1024
	maxIDs   = 10000                     // of one call that changes: some 10 ms of the store's time
	maxTasks = 2000                      // of one call that returns tasks: the connection takes 4,096 entries in a reply
	maxDelay = 50 * 365 * 24 * time.Hour // a score of then still has its microseconds
)

// Queue is a delayed queue. Its methods may be called from any goroutine; changes wait for the lock of the queue, which all its processes
// share. It must not be copied.
type Queue struct {
	locker *redlock.Locker
	name   string // of the sorted set and of the lock
	config config
	store  store

	mu       sync.Mutex // guards the fields below
	closed   bool
	releases sync.WaitGroup // locks that are being released in the background; none is added once closed is set
}

// Task is an entry of the queue.
type Task struct {
	ID    string
	Score float64 // when it is due: Unix seconds by the clock of the store, exact to the microsecond
}

// New returns the queue of that name (1 to 2,048 bytes) on the Redis at the endpoint: a redis://, rediss:// or unix:// URL, or host:port.
// It returns at once and dials in the background. All who share the queue need a Locker of the same masters and key prefix. The Locker stays the
// caller's, and is closed after the Queue. The error is [ErrInvalid]; passwords are never part of it.
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
	q := &Queue{locker: locker, name: "Queue:" + name, config: cfg}
	q.store = store{
		node: node, timeout: cfg.timeout, key: q.name,
		keys: []any{q.name, "redquorum:queue:fence:" + name, "redquorum:queue:last:" + name},
	}
	return q, nil
}

// Close closes the connection to the store, and waits until the locks of earlier calls are released. Calls that wait for the store end with
// [pool.ErrClosed], those that wait for the lock do when they have it. The Locker stays open.
func (q *Queue) Close() error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	err := q.store.node.Close()
	q.releases.Wait()
	return err
}

// lock waits for the lock of the queue.
func (q *Queue) lock(ctx context.Context, what string) (*redlock.Lock, error) {
	if ctx == nil {
		return nil, invalid("ctx is nil")
	}
	lock, err := q.locker.Lock(ctx, q.name, redlock.WithFencing())
	switch {
	case errors.Is(err, redlock.ErrInvalid): // the Locker's own defaults do not go with fencing
		return nil, invalid("%w", err)
	case err != nil:
		return nil, fmt.Errorf("queue: %s: %w", what, err)
	}
	return lock, nil
}

// unlock releases the lock. What becomes of that does not matter to the caller: what the store has answered is true, also where the lock
// was lost meanwhile.
func unlock(ctx context.Context, lock *redlock.Lock) {
	_ = lock.Unlock(ctx) //nolint:errcheck // see above; and a lock that could not be released expires
}

// unlockBehind releases the lock in the background, for a caller who must not lose a moment.
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
