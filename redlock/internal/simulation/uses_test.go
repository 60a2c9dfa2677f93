package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/redlock"
)

// use is one operation of a client with some lock.
type use func(c *client)

var lockUses = []use{tries, lockSets, does, locks, locks, locks, locks, locks, locks, locks}

// work performs one random use after another until the simulation ends.
func (c *client) work(uses []use) {
	for c.sim().goesOn() {
		uses[c.rng.IntN(len(uses))](c)
		if c.rng.IntN(3) == 0 {
			time.Sleep(upTo(c.rng, 30*time.Millisecond))
		}
	}
}

// lock waits for a name.
func (c *client) lock(name string) (*redlock.Lock, *history.Hold) {
	return c.waits([]string{name}, func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) {
		return l.Lock(ctx, name, c.opts()...)
	})
}

// tryLock does not wait for it.
func (c *client) tryLock(name string) (*redlock.Lock, *history.Hold) {
	return c.tries([]string{name}, func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) {
		return l.TryLock(ctx, name, c.opts()...)
	})
}

func locks(c *client) { c.hold(c.lock(c.name())) }
func tries(c *client) { c.hold(c.tryLock(c.name())) }

func lockSets(c *client) {
	names := c.some()
	c.hold(c.waits(names, func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) {
		return l.LockAll(ctx, names, c.opts()...)
	}))
}

func does(c *client) {
	ctx, cancel := c.patience()
	defer cancel()
	s, l, since := c.sim(), c.process.current(), c.sim().Clock.Now()
	run, name := false, c.name()
	err := l.Do(ctx, name, func(ctx context.Context, lock *redlock.Lock) error {
		run = true
		t := s.judge.got(c.who, since, lock)
		select {
		case <-ctx.Done():
		case <-time.After(upTo(c.rng, 20*time.Millisecond)):
		}
		c.over(lock, t)
		return nil
	}, c.opts()...)
	if !run {
		c.judgeEnd(ctx, l, err)
	}
}

// reads reads a name, and waits for it half of the time.
func reads(c *client) {
	name, call, read := c.name(), c.tries, (*redlock.Locker).TryRLock
	if c.rng.IntN(2) == 0 {
		call, read = c.waits, (*redlock.Locker).RLock
	}
	lock, t := call([]string{name}, func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) {
		return read(l, ctx, name, c.opts()...)
	})
	if t != nil {
		t.Shared = true // who judges reads it when all have ended
	}
	if lock != nil && c.rng.IntN(4) == 0 {
		c.overWhenDone(lock, t)
		_ = lock.Verify(c.sim().base)              //nolint:errcheck // nodes may be away
		_ = lock.Extend(c.sim().base, time.Second) //nolint:errcheck // nodes may be away
	}
	c.hold(lock, t)
}

// bursts locks many names at once, and unlocks at once what it got: the nodes get batches of
// releases, and of acquisitions if they are fenced, between SETs and beside the calls of others.
func bursts(c *client) {
	ctx, cancel := c.patience()
	defer cancel()
	s, l, since, opts := c.sim(), c.process.current(), c.sim().Clock.Now(), c.opts()
	together := make(chan struct{}) // timers of one instant would fire in any order
	time.AfterFunc(upTo(c.rng, 20*time.Millisecond), func() { close(together) })
	var all sync.WaitGroup
	for i, at := range c.rng.Perm(len(s.names))[:1+c.rng.IntN(len(s.names))] {
		one := &client{c.process, fmt.Sprintf("%s.%d", c.who, i), rand.New(rand.NewPCG(c.rng.Uint64(), c.rng.Uint64()))}
		all.Go(func() {
			var extra []redlock.LockOption
			if one.rng.IntN(2) == 0 {
				extra = append(extra, redlock.WithFencing())
			}
			lock, err := l.TryLock(ctx, s.names[at], append(extra, opts...)...)
			if err != nil {
				return
			}
			t := s.judge.got(one.who, since, lock)
			one.overWhenDone(lock, t)
			<-together
			one.unlock(lock, t)
		})
	}
	all.Wait()
}

// manyNames gives the clients names to lock at once.
func manyNames(s *simulation) {
	for i := range 12 {
		s.names = append(s.names, fmt.Sprint("burst", i))
	}
}

// extends holds a lock and changes its TTL several times.
func extends(c *client) {
	lock, t := c.lock(c.name())
	if lock == nil {
		return
	}
	c.overWhenDone(lock, t)
	for range c.rng.IntN(5) {
		c.changes(lock)
		pause := upTo(c.rng, time.Second)
		if c.rng.IntN(2) == 0 {
			pause = 5 * time.Second // renewal alone deals with the outcome
		}
		if c.keep(lock, pause) {
			c.judgeLoss(lock)
			break
		}
	}
	c.unlock(lock, t)
}

// blink is how long ago the last fault was when a renewed lock must live.
const blink = time.Second

// judgeLoss fails if a renewed lock was lost without a reason. A lock that a blink ended is lost
// within the length of a blink after it.
func (c *client) judgeLoss(lock *redlock.Lock) {
	s := c.sim()
	if !s.kind.renewed || !errors.Is(lock.Err(), redlock.ErrLost) {
		return
	}
	for i := range s.Servers {
		if since := s.whole[i].Load(); since < 0 || since > int64(s.Clock.Now().Add(-blink)) {
			return
		}
	}
	s.judge.fail("%s lost a healthy lock: %v", c.who, lock.Err())
}

// neglects holds a lock and does not unlock it when it is lost. Its Locker is closed soon after, by
// a caller that does not know of the loss either.
func neglects(c *client) {
	lock, t := c.lock(c.name())
	switch {
	case lock == nil:
	case c.keep(lock, c.sim().hold(c.rng)):
		c.over(lock, t)
		time.Sleep(upTo(c.rng, 20*time.Millisecond))
		c.closes()
	default:
		c.unlock(lock, t)
	}
}

// closes replaces the Locker of a client. A second later no key of it is left on any node that
// works now and has worked since a second before the call.
func (c *client) closes() {
	s, owner := c.sim(), c.process.owner()
	began := s.Clock.Now()
	c.process.replace()
	time.Sleep(time.Second)
	for i, server := range s.Servers {
		since := s.whole[i].Load()
		if since < 0 || since > int64(began.Add(-time.Second)) {
			continue
		}
		for _, name := range s.names {
			if value, ttl, _ := server.Get(name); strings.HasSuffix(value, owner) {
				s.judge.fail("node %d still has %q = %q, for %v", i, name, value, ttl)
			}
		}
	}
}

// permitsOf returns how many permits a semaphore has.
func permitsOf(name string) int { return 1 + int(name[len(name)-1]-'0') }

// permit acquires a permit, and returns nil if it gives up.
func (c *client) permit(name string, permits int, wait bool) (*redlock.Lock, *history.Hold) {
	call, acquire := c.tries, (*redlock.Semaphore).TryAcquire
	if wait {
		call, acquire = c.waits, (*redlock.Semaphore).Acquire
	}
	lock, t := call([]string{name}, func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) {
		s, err := l.Semaphore(name, permits)
		if err != nil {
			return nil, err
		}
		return acquire(s, ctx, c.opts()...)
	})
	if lock == nil {
		return nil, nil
	}
	t.Permits = permits
	var slot int
	if _, err := fmt.Sscanf(strings.TrimPrefix(lock.Name(), name), "#%d", &slot); err != nil || slot < 1 || slot > permits {
		c.sim().judge.fail("%s got %q of %d permits", c.who, lock.Name(), permits)
	}
	return lock, t
}

// ownPermit is one of as many as all believe in.
func (c *client) ownPermit(wait bool) (*redlock.Lock, *history.Hold) {
	name := c.name()
	return c.permit(name, permitsOf(name), wait)
}

func acquiresPermits(c *client) { c.hold(c.ownPermit(true)) }
func triesPermits(c *client)    { c.hold(c.ownPermit(false)) }

// acquiresOtherNumbers asks for a permit of another number: as long as somebody has one, in vain.
func acquiresOtherNumbers(c *client) {
	if c.rng.IntN(4) == 0 {
		name := c.name()
		c.hold(c.permit(name, permitsOf(name)+1, true))
	}
}
