package redlock_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// spin tries to have a lock until the simulation has had enough, and never waits for it.
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

// watchParts looks for names that a set has while it waits for the rest, until done is closed: they
// are not free.
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

// quorumHolds reports whether a quorum of nodes has one value under a name.
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

// watch is told whether a quorum holds a name.
func (j *judge) watch(name string, holds bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r := j.record(name); holds && r.holders == 0 && slices.ContainsFunc(r.waiting, (*wait).forSet) {
		r.free = j.clock.Now()
	}
}

// Beside clients who spin, those who wait take places at every node, again and again, while
// messages are lost and nodes fail: the locks are exclusive, the tokens in order, no lock is free
// for long, and nothing is left.
func TestSimulatedWaitersBesideSpinners(t *testing.T) {
	for _, seed := range seeds(t, 5, 5_000) {
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

// Sets of names beside names that are locked all the time take their names one after the other,
// while messages are lost, nodes fail and Lockers are closed: with the same to show.
func TestSimulatedSetsBesideBusyNames(t *testing.T) {
	for _, seed := range seeds(t, 5, 5_000) {
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
