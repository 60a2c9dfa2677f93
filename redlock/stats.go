package redlock

import (
	"time"

	"github.com/redquorum/redquorum/pool"
)

// Stats is what a Locker has done and the state of its nodes, at one moment.
type Stats struct {
	Held           int           // locks held now
	OldestHold     time.Duration // of the one that is held for longest, but for elections; 0 without one
	Acquired       uint64        // locks acquired, including those of Adopt
	Taken          uint64        // rounds for a lock that a quorum did not grant, those of waiters included
	NoQuorum       uint64        // rounds for a lock that too few nodes answered
	NoValidity     uint64        // rounds for a lock that won too late
	Renewed        uint64        // extensions that won
	Lost           uint64        // locks that ended without being released
	Waiting        int           // calls of Lock, RLock, LockAll, LockAny, Do and Acquire that wait now
	OldestWait     time.Duration // of the one that waits for longest, but for elections; 0 without one
	Waits          uint64        // how many such calls did not get the lock at once
	HandedOver     uint64        // votes that our releases gave to waiters, here or elsewhere
	Woken          uint64        // how often a vote that was handed over woke a waiter of ours
	Polls          uint64        // how often a waiter asked again without being woken
	Split          uint64        // rounds that some nodes granted, but a quorum of nodes did not
	SecondRounds   uint64        // rounds that raised masters to a fencing token
	HooksDropped   uint64        // calls of hooks dropped because too many were outstanding
	HistoryDropped uint64        // notes of WithHistory that were dropped, or that no quorum of nodes took
	Cluster        string        // by whose list of members votes count; empty while none is known
	Version        int64         // of that list; 0 while none is known
	Members        int           // masters of which a majority is a quorum; without a cluster, the endpoints
	Quorum         int           // how many votes make a quorum
	Nodes          []NodeStats   // in the order of the endpoints; then members that the Locker's list lacks
}

// NodeStats is the state of a node, and whether its vote counts.
type NodeStats struct {
	pool.Stats
	Unidentified bool // answers, but does not say who it is; its vote counts
	Listed       bool // in the Locker's own list; otherwise it is a member that the list lacks, or was one

	// Barred is why its vote does not count, pool.ErrQuarantined, pool.ErrDuplicate, ErrNotMember
	// or ErrOtherCluster; nil if it does.
	Barred error

	// Memory is what the node's memory marker says: "active", "new" or "lost"; empty if it is not
	// known, or may not be read.
	Memory string

	// QuarantinedFor is for how long its vote will not count, as far as is known; 0 if it counts.
	QuarantinedFor time.Duration
}

// Stats returns the current figures.
func (l *Locker) Stats() Stats {
	s := Stats{
		Held:         max(l.expiry.Len()-int(l.counts.parts.Load()), 0),
		OldestHold:   l.oldestHold(),
		OldestWait:   l.waiters.Counts.Begun.Oldest(l.clock.Now()),
		Acquired:     l.counts.acquired.Load(),
		Taken:        l.counts.taken.Load(),
		NoQuorum:     l.counts.noQuorum.Load(),
		NoValidity:   l.counts.noValidity.Load(),
		Renewed:      l.counts.renewed.Load(),
		Lost:         l.counts.lost.Load(),
		Waiting:      int(l.waiters.Counts.Waiting.Load()),
		Waits:        l.waiters.Counts.Waits.Load(),
		HandedOver:   l.counts.handedOver.Load(),
		Woken:        l.waiters.Counts.Woken.Load(),
		Polls:        l.waiters.Counts.Polls.Load(),
		Split:        l.counts.split.Load(),
		SecondRounds: l.counts.secondRounds.Load(),
	}
	view := l.members.View()
	if s.Members, s.Quorum = view.Size(), view.Need(); view.Roster != nil {
		s.Cluster, s.Version = view.Roster.Cluster, view.Roster.Version.Number
	}
	for i := range l.nodes() {
		s.Nodes = append(s.Nodes, l.nodeStats(i))
	}
	s.HistoryDropped = l.history.Dropped()
	if l.events != nil {
		s.HooksDropped = l.events.dropped.Load()
	}
	return s
}

// oldestHold looks at each lock: 100,000 of them take some milliseconds.
func (l *Locker) oldestHold() (oldest time.Duration) {
	now := l.clock.Now()
	for _, lock := range l.expiry.All() {
		lock.mu.Lock()
		if !lock.part && !lock.office && lock.state == held {
			oldest = max(oldest, now.Sub(lock.acquired))
		}
		lock.mu.Unlock()
	}
	return oldest
}

func (l *Locker) nodeStats(i int) NodeStats {
	s := NodeStats{Stats: pool.Stats(l.nodes()[i].Stats()), Barred: l.members.Why(i), Memory: l.members.Memory(i), QuarantinedFor: l.members.QuarantinedFor(i)}
	s.Listed = l.members.Listed(i)
	s.Unidentified = s.State == pool.Up && s.RunID == ""
	return s
}
