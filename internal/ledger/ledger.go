// Package ledger is how package election and `redlock inspect` reach the masters of a Locker. It
// keeps what elections need out of the public API of package redlock, which provides it.
package ledger

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// Of returns the ledger of a *redlock.Locker. Package redlock sets it.
var Of func(locker any) Ledger

// Ledger has a record of the terms of each name at the masters of a Locker.
type Ledger interface {
	// Clock returns the clock of the Locker.
	Clock() clock.Clock

	// Write records the term of a *redlock.Lock that has a fencing token. It returns nil once a
	// quorum of nodes has it. Writing a term twice keeps it for longer. Errors are those of a round
	// (a *redlock.QuorumError), and redlock.ErrClosed.
	Write(ctx context.Context, lock any) error

	// Read asks every node what it holds under the name, and for at most so many of the newest
	// terms above since. It fails if fewer than a quorum answered.
	Read(ctx context.Context, name string, since int64, most int) (Page, error)
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
