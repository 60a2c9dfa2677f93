package redlock_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// spin tries a lock again and again until the simulation ends, and never waits for it.
func (c *client) spin() {
	s := c.process.sim
	for s.goesOn() {
		l, since := c.process.current(), s.clock.Now()
		lock, err := l.TryLock(s.base, c.name(), c.opts()...)
		var failure *redlock.QuorumError
		switch {
		case err == nil:
			c.hold(lock, since)
		case !errors.As(err, &failure):
			c.judgeWait(s.base, l, err)
		}
		time.Sleep(upTo(c.rng, time.Millisecond))
	}
}

// watchParts looks for names that a set holds while it waits for the rest, until done is closed:
// such names are not free.
func (s *simulation) watchParts(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(20 * time.Millisecond):
		}
		for _, name := range s.names {
			s.judge.watch(name, s.quorumHolds(name))
		}
	}
}

// quorumHolds reports whether a quorum of nodes holds the same value under a name.
func (s *simulation) quorumHolds(name string) bool {
	s.exchange.Lock()
	defer s.exchange.Unlock()
	votes := make(map[string]int)
	for _, server := range s.servers {
		if value, _, found := server.Get(name); found {
			if votes[value]++; votes[value] > len(s.servers)/2 {
				return true
			}
		}
	}
	return false
}

// watch records whether a quorum holds a name.
func (j *judge) watch(name string, holds bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r := j.record(name); holds && r.holders == 0 && slices.ContainsFunc(r.waiting, (*wait).forSet) {
		r.free = j.clock.Now()
	}
}

// Beside clients that spin, waiters take tickets at every node, again and again, while messages are
// lost and nodes fail: the locks are exclusive, the tokens in order, no lock is free for long, and
// no keys are left behind.
func TestSimulatedWaitersBesideSpinners(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 2, 5_000) {
		simulate(t, seed, func(s *simulation) {
			rng := s.rng
			s.nodes([]int{2, 3, 3, 4, 5, 5, 5, 5}[rng.IntN(8)])
			s.names = []string{"name0", "name1"}[:1+rng.IntN(2)]
			s.faults = faults{losses: rng.IntN(3) > 0, outages: rng.IntN(3) == 0, refusals: rng.IntN(4) == 0, closings: rng.IntN(3) == 0}
			s.faults.restarts = s.faults.outages && rng.IntN(2) == 0
			s.fenced, s.tasks, s.length = rng.IntN(2) == 0, 2, 5*time.Second
			s.hold = func(rng *rand.Rand) time.Duration { return upTo(rng, 10*time.Millisecond) }
			s.mending = s.maxTTL + 3*time.Second
			s.judge = newJudge(s.clock, waitBound(s.latency))
			s.start(3+rng.IntN(4), randomOptions)
			s.run(func(c *client) {
				if c.process.id%2 == 0 {
					c.spin()
					return
				}
				c.run()
			}, func() { s.weather(rng) })
			s.leavesNothing(3*time.Minute + time.Second)
		})
	}
}

// Beside names that are locked all the time, sets take their names one after the other, while
// messages are lost, nodes fail and Lockers are closed. The same must hold.
func TestSimulatedSetsBesideBusyNames(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 2, 5_000) {
		simulate(t, seed, func(s *simulation) {
			rng := s.rng
			s.nodes([]int{1, 2, 3, 3, 4, 5, 5, 5}[rng.IntN(8)])
			s.names = []string{"name0", "name1", "name2", "name3"}[:2+rng.IntN(3)]
			s.faults = faults{losses: rng.IntN(3) > 0, outages: rng.IntN(3) == 0, refusals: rng.IntN(4) == 0, closings: rng.IntN(3) == 0}
			s.faults.restarts = s.faults.outages && rng.IntN(2) == 0
			s.fenced, s.tasks, s.length = rng.IntN(2) == 0, 3, 5*time.Second
			s.hold = func(rng *rand.Rand) time.Duration { return upTo(rng, 20*time.Millisecond) }
			s.mending = s.maxTTL + 3*time.Second
			s.judge = newJudge(s.clock, waitBound(s.latency))
			s.start(3+rng.IntN(4), randomOptions)
			s.run(func(c *client) {
				for s.goesOn() {
					if c.rng.IntN(3) == 0 {
						c.set()
					} else {
						c.lock(c.name())
					}
				}
			}, func() { s.weather(rng) })
			s.leavesNothing(3*time.Minute + time.Second)
		})
	}
}
