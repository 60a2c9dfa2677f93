package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/redlock"
)

// worker acquires the lock again and again until its context ends, each time for a moment in which
// it writes to the store. It is a goroutine and has a Locker of its own, as a process would.
type worker struct {
	number int // from 1
	config *config
	locker *redlock.Locker
	cable  *cable
	store  *store
	order  *stopOrder
	record *recorder
}

// stopOrder stops the first worker that gets the lock after a given moment, and no other.
type stopOrder struct {
	at    time.Duration // since the start
	taken atomic.Bool
	done  chan struct{} // closed when the stopped worker has written
}

func (o *stopOrder) take(now time.Duration) bool {
	return now >= o.at && o.taken.CompareAndSwap(false, true)
}

func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.work(ctx)
		sleep(ctx, w.config.rest())
	}
}

func (w *worker) work(ctx context.Context) {
	w.record.asks(w.number)
	lock, err := w.locker.Lock(ctx, lockName)
	if err != nil {
		// Otherwise the end of the demo cut it short, which says nothing.
		if ctx.Err() == nil {
			w.record.failed(w.number, err)
		}
		return
	}
	began := w.record.begins(w.number)
	if _, passed := w.store.write(lock.Fence()); !passed && lock.Remaining() > 0 {
		w.record.wronged()
	}
	if w.order.take(began) {
		w.stop(ctx, lock)
	} else {
		w.use(ctx, lock)
	}
}

// use is the work that the lock protects. It ends when it is done, when the lock is lost, or with
// the demo.
func (w *worker) use(ctx context.Context, lock *redlock.Lock) {
	shortest, longest := w.config.holds()
	timer := time.NewTimer(shortest + rand.N(longest-shortest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-lock.Done():
	case <-ctx.Done():
	}
	w.release(ctx, lock)
}

// release records the end of the hold, and releases the lock unless it is lost.
func (w *worker) release(ctx context.Context, lock *redlock.Lock) {
	if w.recordEnd(lock) {
		return
	}
	switch err := lock.Unlock(ctx); {
	case err == nil, ctx.Err() != nil:
	case errors.Is(err, redlock.ErrNoQuorum):
		w.record.unconfirmed()
	default:
		w.record.failed(w.number, fmt.Errorf("unlock: %w", err))
	}
}

// recordEnd records that the hold ends now, or ended when the lock was lost, and reports whether it
// was lost.
func (w *worker) recordEnd(lock *redlock.Lock) (lost bool) {
	ended := w.record.elapsed()
	// Read after the clock: if validity is left now, the lock was held then.
	left := lock.Remaining()
	if lost = left <= 0; lost {
		ended = endOfLost(w.record.elapsed(), left)
	}
	w.record.ends(w.number, ended, lost)
	return lost
}

// endOfLost returns when the validity of a lost lock ended, which may be long before its holder
// noticed. Left is an earlier result of Lock.Remaining: zero or less.
func endOfLost(now, left time.Duration) time.Duration { return now + left }

// stop is what happens to a process that is stopped while it holds the lock: it cannot renew the
// lock, and does not see that it loses it. When it continues, it writes first and checks the lock
// after that, too late.
func (w *worker) stop(ctx context.Context, lock *redlock.Lock) {
	w.record.stopped(w.number, lock.Fence())
	w.cable.unplug()
	defer w.cable.plug()
	select {
	case <-lock.Done(): // for the record: the worker itself is asleep
	case <-ctx.Done():
	}
	if !w.recordEnd(lock) {
		w.cable.plug()
		_ = lock.Unlock(ctx) //nolint:errcheck // the demo was ended early; the lock ends by itself
		return
	}
	// Sleep on until others have worked in its place.
	if !sleep(ctx, w.config.ttl()/2) {
		return
	}
	for !w.store.ahead(lock.Fence()) {
		if !sleep(ctx, time.Millisecond) {
			return
		}
	}
	seen, passed := w.store.write(lock.Fence())
	w.record.wroteLate(seen, passed, lock.Err())
	close(w.order.done)
}

var errUnplugged = errors.New("unplugged")

// cable connects one worker's Locker with the nodes. Unplugging it closes its connections and
// prevents new ones.
type cable struct {
	mu        sync.Mutex // guards the fields below
	unplugged bool
	conns     map[net.Conn]struct{}
}

func newCable() *cable { return &cable{conns: map[net.Conn]struct{}{}} }

// dial is a dialer for pool.WithDialer.
func (c *cable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if c.isUnplugged() {
		return nil, errUnplugged
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unplugged {
		return nil, errors.Join(errUnplugged, conn.Close())
	}
	c.conns[conn] = struct{}{}
	return &cableConn{conn, c}, nil
}

func (c *cable) isUnplugged() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unplugged
}

func (c *cable) unplug() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unplugged = true
	for conn := range c.conns {
		_ = conn.Close() //nolint:errcheck // it ends either way
	}
	clear(c.conns)
}

func (c *cable) plug() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unplugged = false
}

// cableConn is removed from its cable when it is closed.
type cableConn struct {
	net.Conn
	cable *cable
}

func (c *cableConn) Close() error {
	c.cable.mu.Lock()
	delete(c.cable.conns, c.Conn)
	c.cable.mu.Unlock()
	return c.Conn.Close()
}

// store is what the lock protects: it remembers the largest fencing token it has seen, and rejects
// smaller ones.
type store struct{ gate fence.Gate }

// write stores something under a token, unless the token is stale. It returns the largest token
// seen before; if the write is rejected, the one that rejected it.
func (s *store) write(token int64) (seen int64, passed bool) {
	seen = s.gate.Newest()
	if err := s.gate.Admit(token); err != nil {
		return s.gate.Newest(), false
	}
	return seen, true
}

// ahead reports whether the store has seen a larger token.
func (s *store) ahead(token int64) bool { return token < s.gate.Newest() }
