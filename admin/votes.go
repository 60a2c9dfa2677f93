package admin

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// voteBound bounds the wait until it is known whose votes count.
const voteBound = 1500 * time.Millisecond

// memberBound bounds the wait for members that the list lacks, behind that: a Locker dials them as
// soon as it knows them, if it may.
const memberBound = 300 * time.Millisecond

// AwaitVotes waits until it is known of every node that it votes, or will not vote soon, 1.5s at
// most. The Locker's mode is [redlock.QuarantineStrict], as that of [New] is.
func (o *Operator) AwaitVotes(ctx context.Context) {
	o.awaitStats(ctx, voteBound, func(s *redlock.Stats) bool { return areDecided(s.Nodes) })
}

// AwaitMembers is AwaitVotes for a Locker that dials the members that its list lacks, 1.8s at most.
func (o *Operator) AwaitMembers(ctx context.Context) {
	o.AwaitVotes(ctx)
	o.awaitStats(ctx, memberBound, func(s *redlock.Stats) bool {
		known := 0
		for i := range s.Nodes {
			if n := &s.Nodes[i]; !errors.Is(n.Barred, redlock.ErrNotMember) && !errors.Is(n.Barred, redlock.ErrOtherCluster) {
				known++
			}
		}
		return areDecided(s.Nodes) && (s.Cluster == "" || known >= s.Members)
	})
}

func (o *Operator) awaitStats(ctx context.Context, bound time.Duration, enough func(s *redlock.Stats) bool) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	pause := clock.Backoff{Shortest: 2 * time.Millisecond, Longest: 50 * time.Millisecond}
	for {
		if stats := o.locker.Stats(); enough(&stats) || !clock.Sleep(ctx, o.door.Clock, pause.Next()) {
			return
		}
	}
}

// HasLeft reports whether a node is that of a master that no list has: it was a member, and was
// removed, or was not added after all.
func HasLeft(n *redlock.NodeStats) bool {
	return !n.Listed && errors.Is(n.Barred, redlock.ErrNotMember)
}

// areDecided is isDecided of all nodes. While none votes, which of two clusters is meant may become
// clear when one more member has answered.
func areDecided(nodes []redlock.NodeStats) bool {
	return !slices.ContainsFunc(nodes, func(n redlock.NodeStats) bool {
		return !isDecided(&n) || errors.Is(n.Barred, redlock.ErrOtherCluster) && CountVotes(nodes) == 0
	})
}

func isDecided(n *redlock.NodeStats) bool {
	switch n.State {
	case pool.Connecting:
		return false
	case pool.Up:
		return Votes(n) || n.QuarantinedFor > 0 || errors.Is(n.Barred, pool.ErrDuplicate) ||
			errors.Is(n.Barred, redlock.ErrNotMember) || errors.Is(n.Barred, redlock.ErrOtherCluster)
	case pool.Down, pool.Closed:
	}
	return true
}

// Votes reports whether the vote of a node counts.
func Votes(n *redlock.NodeStats) bool { return n.State == pool.Up && n.Barred == nil }

// CountVotes returns how many of the nodes have a vote that counts.
func CountVotes(nodes []redlock.NodeStats) (n int) {
	for i := range nodes {
		if Votes(&nodes[i]) {
			n++
		}
	}
	return n
}
