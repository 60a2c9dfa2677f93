package redlock_test

import (
	"math/rand/v2"
	"time"
)

// faults are the kinds of faults that may happen in a simulation.
type faults struct {
	losses   bool // requests and replies are lost together with their connections
	outages  bool // nodes are muted, stopped or killed
	restarts bool // killed nodes come back without their keys
	refusals bool // servers forbid publish and subscribe for a while
	closings bool // Lockers are closed and replaced
}

// Phases of the weather: a storm of faults, then a calm in which the damage heals and the judge
// watches.
const (
	stormTime = 2 * time.Second
	calmTime  = 3 * time.Second
)

// weather breaks the nodes and heals them, in turn, until the simulation ends.
func (s *simulation) weather(rng *rand.Rand) {
	for s.goesOn() {
		s.judge.storm()
		for end := s.clock.Now().Add(stormTime); s.clock.Now() < end && s.goesOn(); {
			s.breakOne(rng)
			s.pause(upTo(rng, 60*time.Millisecond))
		}
		s.heal()
		s.judge.calmSince(s.clock.Now().Add(s.mending))
		s.pause(s.mending + calmTime)
	}
	s.heal()
}

// breakOne injects one random fault into a node or a process.
func (s *simulation) breakOne(rng *rand.Rand) {
	i := rng.IntN(len(s.servers))
	node := s.servers[i]
	switch kind := rng.IntN(16); {
	case kind < 2 && s.faults.losses:
		node.LoseRequests(1 + rng.IntN(2))
	case kind < 4 && s.faults.losses:
		node.LoseReplies(1 + rng.IntN(2))
	case kind < 5 && s.faults.losses:
		node.CutAfterWrite(1 + rng.IntN(5))
	case kind < 6 && s.faults.losses:
		node.CutReply(rng.IntN(20))
	case kind < 7 && s.faults.restarts:
		s.restart(i)
	case kind < 8:
		s.slowDown(i, upTo(rng, 20*time.Millisecond)+1)
	case kind < 9 && s.faults.outages:
		node.Mute(rng.IntN(2) == 0)
	case kind < 10 && s.faults.outages:
		node.MuteReplies(rng.IntN(2) == 0)
	case kind < 11 && s.faults.outages:
		node.Stop()
	case kind < 12 && s.faults.outages:
		node.Continue()
	case kind < 13 && (s.faults.outages || s.faults.restarts):
		s.restart(i)
	case kind < 14 && s.faults.refusals:
		node.RefuseWith("NOPERM this user has no permissions", [][]string{{"publish"}, {"subscribe"}, {"zadd", "zpopmin"}}[rng.IntN(3)]...)
	case kind < 15 && s.faults.refusals:
		node.RefuseWith("", "publish", "subscribe", "zadd", "zpopmin")
	case kind < 16 && s.faults.closings:
		s.processes[rng.IntN(len(s.processes))].replace()
	}
}

// restart kills a node, or brings it back.
func (s *simulation) restart(i int) {
	if s.dead[i] {
		s.revive(i)
		return
	}
	if s.faults.restarts && !s.maySpare(i) {
		return
	}
	s.servers[i].Kill()
	s.dead[i] = true
	if s.faults.restarts {
		s.revive(i) // before what it forgot expires elsewhere
	}
}

// maySpare reports whether a node may lose its keys now: the young nodes stay so few that the
// cluster cannot pass for one that was just started, and that the nodes that may have forgotten a
// lock are not a quorum.
func (s *simulation) maySpare(i int) bool {
	young := 1
	for k, at := range s.born {
		if k != i && at != 0 && s.clock.Now().Sub(at) < 2*s.maxTTL+2*time.Second {
			young++
		}
	}
	return young < (len(s.servers)+1)/2
}

func (s *simulation) revive(i int) {
	s.servers[i].Restart(!s.faults.restarts)
	s.dead[i], s.born[i] = false, s.clock.Now()
}

// slowDown makes a node's commands and replies take about d/2 each, and at least d/10: if they took
// no time at all, clients could pass votes to each other forever.
func (s *simulation) slowDown(i int, d time.Duration) {
	s.servers[i].DelayBetween(d/10, d/10+d, s.seed+uint64(i))
}

// heal ends all faults. Small delays remain.
func (s *simulation) heal() {
	for i, node := range s.servers {
		if s.dead[i] {
			s.revive(i)
		}
		node.LoseRequests(0)
		node.LoseReplies(0)
		node.CutAfterWrite(0)
		node.Continue()
		node.Mute(false)
		node.MuteReplies(false)
		if s.faults.refusals {
			node.RefuseWith("", "publish", "subscribe", "zadd", "zpopmin")
		}
		s.slowDown(i, s.latency)
	}
}
