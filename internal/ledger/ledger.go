// Package ledger is what the masters keep of elections, the newest terms of each name, and what
// election and queue must know of a Locker.
package ledger

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// Key opens the ledger of a *redlock.Locker to the packages of this module. No other can name it,
// so what they need is no part of the public API.
type Key struct{ _ byte }

// Ledger reaches the terms of each name at the masters of a Locker.
type Ledger struct {
	Clock   clock.Clock     // of the Locker
	Closing <-chan struct{} // closed when the Locker is

	// Write records a term of a name. It returns nil once a quorum of nodes has it. Writing a term
	// twice keeps it for longer. Errors are those of a round (a *redlock.QuorumError), and
	// redlock.ErrClosed.
	Write func(ctx context.Context, name string, term Entry) error

	// Read asks every node what it holds under the name, and for at most so many of the newest
	// terms above since. It fails if fewer than a quorum answered.
	Read func(ctx context.Context, name string, since int64, most int) (Page, error)
}

// Kept is how many terms a node keeps of each name.
const Kept = 256

// Page is what was read.
type Page struct {
	Answers []Answer // in the order of the nodes
	Quorum  int      // how many nodes make a quorum
}

// Answer is what a node said.
type Answer struct {
	Counts  bool          // the node answered and votes; otherwise the rest is empty
	Value   string        // what it holds under the name; empty for nothing
	TTL     time.Duration // of that; negative if it does not expire
	Entries []Entry       // in the order of the terms
}

// Entry is a recorded term.
type Entry struct {
	Term  int64  // the fencing token of the lock
	Value string // of the lock
}
