package redlock_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// shares reads and writes one random name after another until the simulation ends.
func (c *client) shares() {
	for c.process.sim.goesOn() {
		switch c.rng.IntN(8) {
		case 0:
			c.attempt()
		case 1:
			if lock, t := c.got(); lock != nil {
				c.keep(lock)
				c.unlock(t, lock)
			}
		default:
			c.read()
		}
		if c.rng.IntN(3) == 0 {
			time.Sleep(upTo(c.rng, 30*time.Millisecond))
		}
	}
}

// keep keeps a lock for a while, or until it is lost.
func (c *client) keep(lock *redlock.Lock) {
	select {
	case <-lock.Done():
	case <-time.After(c.process.sim.hold(c.rng)):
	}
}

// readOpts is opts without what readers refuse.
func (c *client) readOpts() (opts []redlock.LockOption) {
	if c.process.sim.fenced && c.rng.IntN(4) > 0 {
		opts = append(opts, redlock.WithFencing())
	}
	return opts
}

func (c *client) read() {
	ctx, cancel := c.patience()
	defer cancel()
	s, l := c.process.sim, c.process.current()
	since, name, waits := s.clock.Now(), c.name(), c.rng.IntN(2) == 0
	var lock *redlock.Lock
	var err error
	c.call("read %s, waits: %v", name, waits)
	if waits {
		w := s.judge.waits(name)
		lock, err = l.RLock(ctx, name, c.readOpts()...)
		s.judge.leaves(w)
	} else {
		lock, err = l.TryRLock(ctx, name, c.readOpts()...)
	}
	var failure *redlock.QuorumError
	switch {
	case err == nil:
		t := s.judge.got(c.who, since, lock)
		if c.rng.IntN(4) == 0 {
			c.overWhenDone(t, lock)
			_ = lock.Verify(s.base)              //nolint:errcheck // nodes may be away
			_ = lock.Extend(s.base, time.Second) //nolint:errcheck // nodes may be away
		}
		c.keep(lock)
		c.unlock(t, lock)
	case errors.As(err, &failure) && !waits:
	default:
		c.judgeWait(ctx, l, err)
	}
}

// intentLife is for how long the intent of a writer that died keeps readers out.
const intentLife = 3 * time.Second

// Whatever the faults, and beside another library: no writer holds a lock beside anybody, tokens
// are in order, and nothing is left.
func TestSimulatedReadersExcludeWritersAndWritersEveryone(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 2, 10_000) {
		simulate(t, seed, func(s *simulation) {
			rng := s.rng
			s.nodes([]int{1, 2, 3, 3, 4, 5, 5}[rng.IntN(7)])
			for i := range 1 + rng.IntN(3) {
				s.names = append(s.names, fmt.Sprint("name", i))
			}
			s.faults = faults{
				losses: rng.IntN(4) > 0, outages: rng.IntN(3) > 0, restarts: rng.IntN(2) == 0,
				refusals: rng.IntN(3) == 0, closings: rng.IntN(2) == 0,
			}
			s.fenced, s.tasks, s.length = rng.IntN(2) == 0, 1+rng.IntN(3), time.Duration(unraced(2, 6))*time.Second
			s.mending = s.maxTTL + 3*time.Second
			s.judge = newJudge(s.clock, waitBound(s.latency)+intentLife)
			s.start(2+rng.IntN(4), randomOptions)
			beside := []func(){func() { s.weather(rng) }}
			if !s.faults.restarts && rng.IntN(2) == 0 {
				f := &foreigner{sim: s, rng: rand.New(rand.NewPCG(seed, 1<<40)), ttl: time.Second}
				beside = append(beside, f.run)
			}
			s.run((*client).shares, beside...)
			s.leavesNothing(3*time.Minute + time.Second)
		})
	}
}
