package redlock_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/redlock"
)

// permitTenure is the time during which a client had a permit, and the number of permits that it
// believed in. The judge sees it as a tenure of the slot.
type permitTenure struct {
	*tenure
	permits int
}

// permitTenures are those of each semaphore.
type permitTenures struct {
	mu     sync.Mutex
	byName map[string][]permitTenure
}

// permitsOf returns how many permits a semaphore has.
func permitsOf(name string) int { return 1 + int(name[len(name)-1]-'0') }

// semaphore returns a semaphore of the present Locker.
func (c *client) semaphore(name string, permits int) *redlock.Semaphore {
	s, err := c.process.current().Semaphore(name, permits)
	if err != nil {
		c.process.sim.judge.fail("%s: %v", c.who, err)
	}
	return s
}

// gotPermit judges a permit that a client got.
func (u *users) gotPermit(c *client, name string, permits int, lock *redlock.Lock, w *wait) *tenure {
	t := u.judge.got(c.who, w.since, lock)
	u.permits.mu.Lock()
	defer u.permits.mu.Unlock()
	if u.permits.byName == nil {
		u.permits.byName = make(map[string][]permitTenure)
	}
	u.permits.byName[name] = append(u.permits.byName[name], permitTenure{t, permits})
	for slot := range permits {
		if lock.Name() == fmt.Sprint(name, "#", slot+1) {
			return t
		}
	}
	u.judge.fail("%s got %q of %d permits", c.who, lock.Name(), permits)
	return t
}

// judgePermits checks that no semaphore had more holders than permits, and that all who had one at
// the same time believed in the same number.
func (u *users) judgePermits() {
	for name, all := range u.permits.byName {
		wrong := crowded(all)
		for _, text := range wrong[:min(len(wrong), maxWrong)] {
			u.report("seed %d: %q: %s", u.seed, name, text)
		}
		u.judge.judged = append(u.judge.judged, judged{name, history.Semaphore, permitHistory(name, all), len(wrong) > 0})
	}
}

// crowded returns what is wrong with the tenures of a semaphore's permits.
func crowded(all []permitTenure) (wrong []string) {
	slices.SortStableFunc(all, func(a, b permitTenure) int { return int(a.from - b.from) })
	for i, t := range all {
		holders := 1
		for _, earlier := range all[:i] {
			if earlier.to <= t.from {
				continue
			}
			if holders++; earlier.permits != t.permits {
				wrong = append(wrong, fmt.Sprintf("%s got one of %d permits at %v, %s had one of %d until %v",
					t.who, t.permits, time.Duration(t.from), earlier.who, earlier.permits, time.Duration(earlier.to)))
			}
		}
		if holders > t.permits {
			wrong = append(wrong, fmt.Sprintf("%s was holder %d of %d permits at %v", t.who, holders, t.permits, time.Duration(t.from)))
		}
	}
	return wrong
}

func acquiresPermits(u *users, c *client) {
	name := c.name()
	u.acquirePermit(c, name, permitsOf(name), false)
}

func extendsPermits(u *users, c *client) {
	name := c.name()
	u.acquirePermit(c, name, permitsOf(name), true)
}

// acquiresOtherNumbers asks for a permit of another number: as long as somebody has one, in vain.
func acquiresOtherNumbers(u *users, c *client) {
	if c.rng.IntN(4) == 0 {
		name := c.name()
		u.acquirePermit(c, name, permitsOf(name)+1, false)
	}
}

func (u *users) acquirePermit(c *client, name string, permits int, extends bool) {
	ctx, cancel := c.patience()
	defer cancel()
	l, s := c.process.current(), c.semaphore(name, permits)
	w := u.judge.waits(name)
	lock, err := s.Acquire(ctx, c.opts()...)
	u.judge.leaves(w)
	switch {
	case err == nil:
	case u.numbers && errors.Is(err, redlock.ErrInvalid):
		return
	default:
		c.judgeWait(ctx, l, err)
		return
	}
	t := u.gotPermit(c, name, permits, lock, w)
	if extends {
		c.overWhenDone(t, lock)
		for range c.rng.IntN(4) {
			c.tries(lock)
			time.Sleep(upTo(c.rng, 300*time.Millisecond))
		}
		u.judgeLoss(c, lock)
	} else {
		select {
		case <-lock.Done():
		case <-time.After(u.simulation.hold(c.rng)):
		}
	}
	c.unlock(t, lock)
}

func triesPermits(u *users, c *client) {
	ctx, cancel := c.patience()
	defer cancel()
	name := c.name()
	l, s := c.process.current(), c.semaphore(name, permitsOf(name))
	w := &wait{since: u.clock.Now()}
	lock, err := s.TryAcquire(ctx, c.opts()...)
	var failure *redlock.QuorumError
	switch {
	case err == nil:
		t := u.gotPermit(c, name, permitsOf(name), lock, w)
		select {
		case <-lock.Done():
		case <-time.After(u.simulation.hold(c.rng)):
		}
		c.unlock(t, lock)
	case errors.As(err, &failure), u.numbers && errors.Is(err, redlock.ErrInvalid):
	default:
		c.judgeWait(ctx, l, err)
	}
}

// locksSlots locks a mutex of the name of a slot, which excludes the permit.
func locksSlots(_ *users, c *client) {
	name := c.name()
	c.lock(fmt.Sprint(name, "#", 1+c.rng.IntN(permitsOf(name))))
}
