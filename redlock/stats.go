package redlock

import (
	"errors"
	"sync/atomic"

	"github.com/redquorum/redquorum/pool"
)

// Stats is what a Locker has done and how its nodes are, at one moment.
type Stats struct {
	Held       int         // locks held now
	Acquired   uint64      // rounds that won
	Taken      uint64      // rounds that a quorum did not grant
	NoQuorum   uint64      // rounds that too few nodes answered
	NoValidity uint64      // rounds that won too late
	Renewed    uint64      // extensions that won
	Lost       uint64      // locks that ended without our doing
	Nodes      []NodeStats // in the order of the endpoints
}

// NodeStats is how a node is, and whether its vote counts.
type NodeStats struct {
	pool.Stats
	Unidentified bool  // answers, and does not tell who it is; its vote counts
	Barred       error // why its vote does not count: quarantined, or the same server as another; nil where it does
}

type counts struct{ acquired, taken, noQuorum, noValidity, renewed, lost atomic.Uint64 }

func (c *counts) notAcquired(reason error) {
	switch {
	case errors.Is(reason, ErrTaken):
		c.taken.Add(1)
	case errors.Is(reason, ErrNoQuorum):
		c.noQuorum.Add(1)
	case errors.Is(reason, ErrNoValidity):
		c.noValidity.Add(1)
	}
}

// Stats returns the present figures.
func (l *Locker) Stats() Stats {
	s := Stats{
		Held:       l.expiry.len(),
		Acquired:   l.counts.acquired.Load(),
		Taken:      l.counts.taken.Load(),
		NoQuorum:   l.counts.noQuorum.Load(),
		NoValidity: l.counts.noValidity.Load(),
		Renewed:    l.counts.renewed.Load(),
		Lost:       l.counts.lost.Load(),
		Nodes:      make([]NodeStats, len(l.nodes)),
	}
	for i, node := range l.nodes {
		s.Nodes[i].Stats = node.Stats()
		s.Nodes[i].Unidentified = s.Nodes[i].State == pool.Up && s.Nodes[i].RunID == ""
		s.Nodes[i].Barred = l.barredVote(allNodes(len(l.nodes)), i)
	}
	return s
}

// hold makes the lock one of the held ones, and reports false when the Locker was closed meanwhile. Close sets closed and
// then collects the held ones, so it finds this one, or this finds it closed.
func (l *Locker) hold(lock *Lock) bool {
	l.expiry.add(lock, lock.until)
	if l.isClosed() {
		l.expiry.remove(lock)
		return false
	}
	lock.nodesForgot() // also those that did before the lock was on the agenda
	lock.mu.Lock()
	defer lock.mu.Unlock()
	if lock.state == held {
		lock.planRenewalLocked(lock.acquired, lock.ttl/renewalShare)
	}
	return true
}
