package survey

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// voteBound bounds the wait until it is known whose votes count.
const voteBound = 1500 * time.Millisecond

// AwaitVotes waits until it is known of every node that it votes, or will not vote soon, 1.5s at
// most. The Locker's mode is [redlock.QuarantineStrict].
func AwaitVotes(ctx context.Context, clk clock.Clock, locker *redlock.Locker) {
	ctx, cancel := context.WithTimeout(ctx, voteBound)
	defer cancel()
	pause := clock.Backoff{Shortest: 2 * time.Millisecond, Longest: 50 * time.Millisecond}
	for !areDecided(locker.Stats().Nodes) && clock.Sleep(ctx, clk, pause.Next()) {
		continue
	}
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

// Standing says whether a node votes, in a word, and why not.
func Standing(n *redlock.NodeStats) (state, why string) {
	switch {
	case n.State == pool.Connecting:
		return "connecting", ""
	case n.State == pool.Up && n.Barred == nil:
		return MemberVotes, ""
	case n.State == pool.Up:
		return MemberBarred, prose.Readable(n.Barred.Error())
	case n.Err != nil:
		return MemberDown, prose.Readable(n.Err.Error())
	default:
		return MemberDown, ""
	}
}
