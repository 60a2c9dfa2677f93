// Package ledger is what the masters keep of elections: the newest terms of each name.
package ledger

import "time"

// Kept is how many terms a node keeps of each name.
const Kept = 256

// Page is what was read.
type Page struct {
	Answers []Answer // in the order of the nodes
	Quorum  int      // how many nodes make a quorum
	Members int      // of which that is a majority; a client may not be connected to all of them
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
