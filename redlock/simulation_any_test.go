package redlock_test

import (
	"errors"

	"github.com/redquorum/redquorum/redlock"
)

// locksAny locks any of two or three names, and waits for it most of the time.
func locksAny(u *users, c *client) {
	ctx, cancel := c.patience()
	defer cancel()
	var names []string
	for _, i := range c.rng.Perm(len(u.names))[:min(2+c.rng.IntN(2), len(u.names))] {
		names = append(names, u.names[i])
	}
	l, since := c.process.current(), u.clock.Now()
	acquire := l.LockAny
	if c.rng.IntN(3) == 0 {
		acquire = l.TryLockAny
	}
	lock, err := acquire(ctx, names, c.opts()...)
	var failure *redlock.QuorumError
	switch {
	case err == nil:
		c.hold(lock, since)
	case errors.As(err, &failure):
	default:
		c.judgeWait(ctx, l, err)
	}
}
