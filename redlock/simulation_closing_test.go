package redlock_test

import (
	"math/rand/v2"
	"strings"
	"time"
)

// breaks breaks and heals nodes in turn.
func breaks(u *users, rng *rand.Rand) {
	for u.goesOn() {
		for i, server := range u.servers {
			switch rng.IntN(4) {
			case 0:
				u.whole[i].Store(-1)
				server.Kill()
				u.dead[i] = true
			case 1:
				u.whole[i].Store(-1)
				server.Mute(true)
			}
		}
		u.pause(upTo(rng, 15*time.Second))
		u.heals()
		u.pause(upTo(rng, 5*time.Second))
	}
}

// heals heals all nodes.
func (u *users) heals() {
	for i, server := range u.servers {
		if u.dead[i] {
			server.Restart(true)
			u.dead[i] = false
		}
		server.Mute(false)
		if u.whole[i].Load() < 0 {
			u.whole[i].Store(int64(u.clock.Now()))
		}
	}
}

// neglects holds a lock and does not unlock it when it is lost. Its Locker is closed soon after, by
// a caller that does not know of the loss either.
func neglects(u *users, c *client) {
	lock, t := c.got()
	if lock == nil {
		return
	}
	select {
	case <-lock.Done():
		c.over(t, lock)
		time.Sleep(upTo(c.rng, 20*time.Millisecond))
		u.closes(c)
	case <-time.After(u.simulation.hold(c.rng)):
		c.unlock(t, lock)
	}
}

// closes replaces the Locker of a client. A second later no key of it is left on any node that
// works now and has worked since a second before the call.
func (u *users) closes(c *client) {
	began := u.clock.Now()
	owner := c.process.owner()
	c.process.replace()
	time.Sleep(time.Second)
	for i, server := range u.servers {
		since := u.whole[i].Load()
		if since < 0 || since > int64(began.Add(-time.Second)) {
			continue
		}
		for _, name := range u.names {
			if value, ttl, _ := server.Get(name); strings.HasSuffix(value, owner) {
				u.judge.fail("node %d still has %q = %q, for %v", i, name, value, ttl)
			}
		}
	}
}
