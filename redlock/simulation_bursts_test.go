package redlock_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// manyNames gives the clients names to lock at once.
func manyNames(u *users) {
	for i := range 12 {
		u.names = append(u.names, fmt.Sprint("burst", i))
	}
}

// bursts locks many names at once, and unlocks at once what it got: the nodes get batches of
// releases, and of acquisitions if they are fenced, between SETs and beside the calls of others.
func bursts(u *users, c *client) {
	ctx, cancel := c.patience()
	defer cancel()
	l, since, opts := c.process.current(), u.clock.Now(), c.opts()
	together := make(chan struct{}) // timers of one instant would fire in any order
	time.AfterFunc(upTo(c.rng, 20*time.Millisecond), func() { close(together) })
	var all sync.WaitGroup
	for i, at := range c.rng.Perm(len(u.names))[:1+c.rng.IntN(len(u.names))] {
		one := &client{c.process, fmt.Sprintf("%s.%d", c.who, i), rand.New(rand.NewPCG(c.rng.Uint64(), c.rng.Uint64()))}
		all.Go(func() {
			var extra []redlock.LockOption
			if one.rng.IntN(2) == 0 {
				extra = append(extra, redlock.WithFencing())
			}
			lock, err := l.TryLock(ctx, u.names[at], append(extra, opts...)...)
			if err != nil {
				return
			}
			t := u.judge.got(one.who, since, lock)
			one.overWhenDone(t, lock)
			<-together
			one.unlock(t, lock)
		})
	}
	all.Wait()
}
