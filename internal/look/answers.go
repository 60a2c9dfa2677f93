package look

import "time"

// Inspection is what a node knows of a lock.
type Inspection struct {
	Held    bool          // the node holds something, perhaps with an empty value
	Value   string        // empty if the node holds nothing
	TTL     time.Duration // negative if it does not expire
	Fence   int64         // the fencing counter; 0 if there is none, or it is not a number
	Waiting int           // processes on the wait list
	Waiters []string      // the owners of the oldest of them, with when they began
	Terms   int           // of an election, on record
	Readers []Reader      // if readers hold the lock: those that are alive
}

// Reader is a reader that a node knows.
type Reader struct {
	Value string
	TTL   time.Duration
}

// Permits is what a node knows of a semaphore.
type Permits struct {
	Waiting int          // processes on the wait list
	Waiters []string     // the owners of the oldest of them, with when they began
	Slots   []Inspection // as many as the node knows; none if it knows no number
}

// Answer is what one node said.
type Answer[T any] struct {
	Endpoint string // without user and password
	Told     T
	Answered bool  // otherwise Told is empty
	Err      error // why the node did not answer, or why its answer does not count; nil if it does
}

// Answers are those of all nodes, in the order of the Stats.
type Answers[T any] struct {
	Nodes  []Answer[T]
	Quorum int // how many nodes make a quorum
}

// Cluster is one version of the list of a cluster's members.
type Cluster struct {
	ID      string
	Version int64
	MaxTTL  time.Duration
	Members []Member
	Next    time.Duration // until another change is possible
}

// Member is one master of a cluster.
type Member struct {
	ID         string
	Endpoint   string
	ServerName string
	Listed     bool
	Up         bool
	Voting     bool
	Version    int64
	Err        error
}

// Progress is told what a change of the members waits for, and how long that takes at least.
type Progress = func(waits string, left time.Duration)
