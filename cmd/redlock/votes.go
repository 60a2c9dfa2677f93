package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// voteBound is how long it may take until it is known whose votes count.
const voteBound = 1500 * time.Millisecond

// awaitVotes waits until enough is known of whose votes count, for voteBound at most. The Locker's
// mode is QuarantineStrict.
func awaitVotes(ctx context.Context, clk clock.Clock, locker *redlock.Locker, enough func(nodes []redlock.NodeStats) bool) {
	ctx, cancel := context.WithTimeout(ctx, voteBound)
	defer cancel()
	pause := clock.Backoff{Shortest: 2 * time.Millisecond, Longest: 50 * time.Millisecond}
	for !enough(locker.Stats().Nodes) && clock.Sleep(ctx, clk, pause.Next()) {
		continue
	}
}

// allDecided reports of all nodes whether they vote, or will not soon.
func allDecided(nodes []redlock.NodeStats) bool {
	return !slices.ContainsFunc(nodes, func(n redlock.NodeStats) bool { return !isDecided(&n) })
}

// quorumDecided reports the same, or whether a quorum votes.
func quorumDecided(nodes []redlock.NodeStats) bool {
	votes := 0
	for i := range nodes {
		if doesVote(&nodes[i]) {
			votes++
		}
	}
	return votes > len(nodes)/2 || allDecided(nodes)
}

func isDecided(n *redlock.NodeStats) bool {
	switch n.State {
	case pool.Connecting:
		return false
	case pool.Up:
		return doesVote(n) || n.QuarantinedFor > 0 || errors.Is(n.Barred, pool.ErrDuplicate)
	case pool.Down, pool.Closed:
	}
	return true
}

func doesVote(n *redlock.NodeStats) bool { return n.State == pool.Up && n.Barred == nil }
