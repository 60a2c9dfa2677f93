package redlock

import (
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// shunned are nodes that no waiter of this Locker takes as its pilot for a while, because they failed one or answered late: a node
// that is up and mute costs one of them a node timeout now and then, and a slow one does not slow down every hand-over.
type shunned struct {
	mu    sync.Mutex // guards the fields below
	nodes []shunning
	usual time.Duration // what a quorum takes; 0 while that is unknown
}

type shunning struct {
	until clock.Instant
	times int // in a row
}

// A node is shunned for the first time at once, and for longer each time that it turns out the same.
const (
	shunMin = 2 * time.Second
	shunMax = time.Minute

	// A pilot is late when it takes longer than this, and than several rounds.
	lateAfter  = 20 * time.Millisecond
	lateRounds = 4

	usualShare = 16 // of a longer round in what is usual
)

// took notes how long a quorum took. One that was quicker than usual counts at once; one that was not may have had to wait for
// the very node that is in question, and counts slowly.
func (s *shunned) took(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.usual == 0 || d < s.usual {
		s.usual = d
	} else {
		s.usual += (d - s.usual) / usualShare
	}
}

// judge takes how long a node took to answer, and reports whether it is to be passed over.
func (s *shunned) judge(node int, d time.Duration, answered bool, now clock.Instant) (late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := &s.nodes[node]
	if answered && (s.usual == 0 || d < lateAfter+lateRounds*s.usual) {
		n.times = 0
		return false
	}
	n.until = now.Add(min(shunMin<<n.times, shunMax))
	n.times = min(n.times+1, 8) // the shift stays small
	return true
}

// at returns the nodes that are shunned, a bit each.
func (s *shunned) at(now clock.Instant) (nodes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.nodes {
		if s.nodes[i].until > now {
			nodes |= 1 << i
		}
	}
	return nodes
}
