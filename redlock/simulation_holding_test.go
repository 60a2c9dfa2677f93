package redlock_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// offer is a lock that one client holds and others may adopt.
type offer struct {
	name, value string
	tenure      *tenure
}

// offers are the open offers.
type offers struct {
	mu  sync.Mutex
	all []*offer
}

func (o *offers) add(f *offer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, f)
	if len(o.all) > 4 { // the oldest has ended
		o.all = o.all[1:]
	}
}

func (o *offers) pick(c *client) *offer {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.all) == 0 {
		return nil
	}
	return o.all[c.rng.IntN(len(o.all))]
}

// lends holds a lock that others may adopt in the meantime.
func lends(u *users, c *client) {
	ctx, cancel := c.patience()
	defer cancel()
	since := u.clock.Now()
	lock, err := c.process.current().TryLock(ctx, c.name(), c.opts()...)
	if err != nil {
		return
	}
	t := u.judge.got(c.who, since, lock)
	u.offers.add(&offer{name: lock.Name(), value: lock.Value(), tenure: t})
	select {
	case <-lock.Done():
	case <-time.After(upTo(c.rng, 200*time.Millisecond)):
	}
	c.unlock(t, lock)
}

// adopts takes over a lock that another client lends. If that succeeds, the lender's tenure ends
// with the start of the call; otherwise it continues.
func adopts(u *users, c *client) {
	f := u.offers.pick(c)
	if f == nil {
		return
	}
	ctx, cancel := c.patience()
	defer cancel()
	l, since := c.process.current(), u.clock.Now()
	u.judge.keeps(f.tenure, 0) // its minimum hold does not travel, whatever becomes of the adoption
	lock, err := l.Adopt(ctx, f.name, f.value, c.opts()...)
	var failure *redlock.QuorumError
	switch {
	case err == nil:
		u.judge.over(f.tenure, max(since, f.tenure.from))
		c.hold(lock, since)
	case errors.As(err, &failure):
	default:
		c.judgeWait(ctx, l, err)
	}
}

// got waits for a lock and returns nil if it gives up.
func (c *client) got() (*redlock.Lock, *tenure) {
	ctx, cancel := c.patience()
	defer cancel()
	s := c.process.sim
	since := s.clock.Now()
	lock, err := c.process.current().Lock(ctx, c.name(), c.opts()...)
	if err != nil {
		return nil, nil
	}
	return lock, s.judge.got(c.who, since, lock)
}

// extends holds a lock and changes its TTL several times.
func extends(u *users, c *client) {
	lock, t := c.got()
	if lock == nil {
		return
	}
	c.overWhenDone(t, lock)
	for range c.rng.IntN(5) {
		c.tries(lock)
		pause := upTo(c.rng, time.Second)
		if c.rng.IntN(2) == 0 {
			pause = 5 * time.Second // renewal alone deals with the outcome
			if u.small != nil {
				pause = smallMaxTTL / 2
			}
		}
		select {
		case <-lock.Done():
		case <-time.After(pause):
			continue
		}
		u.judgeLoss(c, lock)
		break
	}
	c.unlock(t, lock)
}

// judgeLoss fails if a renewed lock was lost without a reason. A lock that a blink ended is lost
// within the length of a blink after it.
func (u *users) judgeLoss(c *client, lock *redlock.Lock) {
	if !u.renewed || !errors.Is(lock.Err(), redlock.ErrLost) {
		return
	}
	for i := range u.servers {
		if since := u.whole[i].Load(); since < 0 || since > int64(u.clock.Now().Add(-blink)) {
			return
		}
	}
	u.judge.fail("%s lost a healthy lock: %v", c.who, lock.Err())
}

// blink is the longest time for which a node is mute.
const blink = time.Second

// blinks mutes nodes briefly, now and then all of them at once.
func blinks(u *users, rng *rand.Rand) {
	for u.goesOn() {
		for i, server := range u.servers {
			if rng.IntN(2) == 0 {
				u.whole[i].Store(-1)
				server.Mute(true)
			}
		}
		u.pause(upTo(rng, blink))
		u.heals()
		u.pause(upTo(rng, 2*time.Second))
	}
}

// tries sets another TTL or verifies the lock, under a context that may end at any moment.
func (c *client) tries(lock *redlock.Lock) {
	ctx, cancel := c.patience()
	defer cancel()
	u := c.process.sim
	if c.rng.IntN(3) == 0 {
		_ = lock.Verify(ctx) //nolint:errcheck // nodes may be away
		return
	}
	_ = lock.Extend(ctx, u.maxTTL>>c.rng.IntN(6)) //nolint:errcheck // nodes may be away
}

// unlocksAll releases all locks of a process. Done tells their holders at once, so the judge needs
// no exception.
func unlocksAll(u *users, c *client) {
	if c.rng.IntN(10) == 0 {
		_ = c.process.current().UnlockAll(u.base) //nolint:errcheck // there may be no quorum
	}
}
