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

// shared is what all workers have.
type shared struct {
	config *config
	record *recorder
	store  fence.Gate // what the lock protects: it rejects tokens older than the newest it has seen

	stopAt  time.Duration // the first worker that gets the lock after this moment is stopped
	stopped atomic.Bool   // one was
	done    chan struct{} // closed when it has written
}

// worker acquires the lock again and again until its context ends, each time for a moment in which
// it writes to the store. It is a goroutine and has a Locker of its own, as a process would.
type worker struct {
	*shared
	number int // from 1
	locker *redlock.Locker
	cable  cable
}

func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.work(ctx)
		sleep(ctx, w.config.duration/300)
	}
}

func (w *worker) work(ctx context.Context) {
	h := hold{worker: w.number, asked: w.record.elapsed()}
	lock, err := w.locker.Lock(ctx, lockName)
	h.began = w.record.elapsed()
	switch {
	case err == nil:
	case ctx.Err() != nil: // the end of the demo cut it short, which says nothing
		w.record.notes(0, "", func(t *trace) { t.gaveUp = append(t.gaveUp, h) })
		return
	default:
		w.record.fault("worker %d: %v", w.number, err)
		return
	}
	if err := w.store.Admit(lock.Fence()); err != nil && lock.Remaining() > 0 {
		w.record.notes(0, "", func(t *trace) {
			t.wronged = true
			t.fault("worker %d: rejected by the store while it held the lock: %v", w.number, err)
		})
	}
	if h.began >= w.stopAt && w.stopped.CompareAndSwap(false, true) {
		w.stop(ctx, h, lock)
		return
	}
	shortest, longest := w.config.holds()
	sleep(lock.Context(ctx), shortest+rand.N(longest-shortest))
	w.release(ctx, h, lock)
}

// release records the end of the hold, and releases the lock unless it is lost. A release that no
// quorum confirmed is none of the worker's business: the lock had just enough votes and a node that
// gave one stopped before the release, or nodes were too slow.
func (w *worker) release(ctx context.Context, h hold, lock *redlock.Lock) {
	if _, lost := w.over(h, lock); lost {
		w.record.fault("worker %d lost the lock without being stopped", w.number)
		return
	}
	if err := lock.Unlock(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, redlock.ErrNoQuorum) {
		w.record.fault("worker %d: unlock: %v", w.number, err)
	}
}

// over records that the hold ends now, or ended when the lock was lost. It returns when, and
// whether it was lost.
func (w *worker) over(h hold, lock *redlock.Lock) (ended time.Duration, lost bool) {
	h.ended = w.record.elapsed()
	// Read after the clock: if validity is left now, the lock was held then.
	left := lock.Remaining()
	if lost = left <= 0; lost {
		h.ended = endOfLost(w.record.elapsed(), left)
	}
	h.ended = max(h.ended, h.began)
	w.record.notes(0, "", func(t *trace) { t.holds = append(t.holds, h) })
	return h.ended, lost
}

// endOfLost returns when the validity of a lost lock ended, which may be long before its holder
// noticed. Left is an earlier result of Lock.Remaining: zero or less.
func endOfLost(now, left time.Duration) time.Duration { return now + left }

// stop is what happens to a process that is stopped while it holds the lock: it cannot renew the
// lock, and does not see that it loses it. When it continues, it writes first and checks the lock
// after that, too late.
func (w *worker) stop(ctx context.Context, h hold, lock *redlock.Lock) {
	now, token := w.record.elapsed(), lock.Fence()
	w.record.notes(now, fmt.Sprintf("worker %d has the lock and is stopped: asleep, cut off from all nodes", w.number),
		func(t *trace) { t.stop = stoppage{worker: w.number, token: token, began: now} })
	w.cable.unplug()
	defer w.cable.plug()
	select {
	case <-lock.Done(): // for the record: the worker itself is asleep
	case <-ctx.Done():
	}
	ended, lost := w.over(h, lock)
	if !lost {
		w.cable.plug()
		_ = lock.Unlock(ctx) //nolint:errcheck // the demo was ended early; the lock ends by itself
		return
	}
	w.record.notes(ended, fmt.Sprintf("worker %d has lost the lock: its validity has ended", w.number),
		func(t *trace) { t.stop.lost = ended })
	// Sleep on until others have worked in its place.
	for ahead := false; !ahead; ahead = w.store.Newest() > token {
		if !sleep(ctx, w.config.ttl()/2) {
			return
		}
	}
	seen, refused, now := w.store.Newest(), w.store.Admit(token), w.record.elapsed()
	answer := "REJECTED"
	if refused == nil {
		answer = "ACCEPTED"
	}
	w.record.notes(now, fmt.Sprintf("worker %d wakes up and writes with its old token: %s", w.number, answer), func(t *trace) {
		t.stop.wrote, t.stop.seen, t.stop.passed, t.stop.err = now, seen, refused == nil, lock.Err()
	})
	close(w.done)
}

var errUnplugged = errors.New("unplugged")

// cable connects one worker's Locker with the nodes. Unplugging it closes its connections and
// prevents new ones.
type cable struct {
	mu        sync.Mutex // guards the fields below
	unplugged bool
	conns     []net.Conn // since it was plugged in, also those that were closed: a few
}

// dial is a dialer for pool.WithDialer.
func (c *cable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unplugged {
		return nil, errors.Join(errUnplugged, conn.Close())
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

func (c *cable) unplug() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unplugged = true
	for _, conn := range c.conns {
		_ = conn.Close() //nolint:errcheck // it ends either way
	}
	c.conns = nil
}

func (c *cable) plug() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unplugged = false
}
