package pipeline

import (
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/internal/trouble"
)

var (
	// ErrClosed means that the node was closed.
	ErrClosed = errors.New("pool: node closed")

	// ErrTimeout means that no answer came by the call's deadline.
	ErrTimeout = trouble.Mark(trouble.Silent, errors.New("pool: no answer in time"))

	// ErrWithdrawn means that its caller has ended a call ([Node.Withdraw]).
	ErrWithdrawn = errors.New("pool: withdrawn")

	// ErrBusy means that a node's queue is full: it answers more slowly than it is asked.
	ErrBusy = errors.New("pool: too many calls without an answer")

	// ErrStalled means that a connection was given up because its oldest call went unanswered for
	// too long.
	ErrStalled = trouble.Mark(trouble.Silent, errors.New("pool: node stalled"))

	// ErrProtocol means that a node answered with something that is not Redis, or not an answer to
	// what it was asked.
	ErrProtocol = trouble.Mark(trouble.NotRedis, errors.New("pool: protocol error"))

	// ErrRefused means that the server that answers must not vote. The errors below that wrap it
	// say why.
	ErrRefused = errors.New("pool: refused")

	// ErrReplica means that the server is not a master: it replicates another one. It wraps
	// [ErrRefused].
	ErrReplica = trouble.Mark(trouble.Replica, fmt.Errorf("%w: a replica", ErrRefused))

	// ErrClusterMode means that the server is a cluster member, which may hand a key to another
	// member, or fail over. It wraps [ErrRefused].
	ErrClusterMode = trouble.Mark(trouble.Cluster, fmt.Errorf("%w: in cluster mode", ErrRefused))

	// ErrSentinelMode means that the server is a Sentinel, which stores nothing. It wraps
	// [ErrRefused].
	ErrSentinelMode = trouble.Mark(trouble.Sentinel, fmt.Errorf("%w: in sentinel mode", ErrRefused))

	// ErrEvicts means that the server drops keys when its memory is full, and with them locks that
	// are held (maxmemory with a policy other than noeviction). It wraps [ErrRefused].
	ErrEvicts = trouble.Mark(trouble.Evicts, fmt.Errorf("%w: it may evict locks", ErrRefused))

	// ErrDuplicate means that another node reaches the same server, which has only one vote, and
	// that vote counts there. It wraps [ErrRefused].
	ErrDuplicate = trouble.Mark(trouble.Twin, fmt.Errorf("%w: the same server as another node", ErrRefused))

	// ErrNoScripts means that the server cannot run scripts, or does not let this user run them.
	// What it granted could not be released. It wraps [ErrRefused].
	ErrNoScripts = trouble.Mark(trouble.NoScripts, fmt.Errorf("%w: scripts cannot be run", ErrRefused))

	// ErrAuth means that the server does not let us in: the user or the password is wrong or
	// missing. It does not wrap [ErrRefused], which is about the server, not about us.
	ErrAuth = errors.New("pool: access denied")

	// ErrQuarantined means that the server may have forgotten what it granted, and does not vote
	// until that has expired. It does not wrap [ErrRefused]: the server is fit to vote, and is
	// asked like the others.
	ErrQuarantined = trouble.Mark(trouble.Quarantined, errors.New("quarantined"))

	// ErrTorn means that the server has the marker of its memory, and has lost other keys.
	ErrTorn = trouble.Mark(trouble.Torn, fmt.Errorf("%w: it lost its list of members, and so a part of its keys", ErrQuarantined))

	// ErrEndpoint means that an endpoint, or an option of a node, cannot be used. Nothing was
	// dialed.
	ErrEndpoint = errors.New("pool: bad endpoint or option")
)

// Fate says what may have become of a failed call.
type Fate uint8

const (
	// Unknown: the call may have been executed, may still be executed, or may never be.
	Unknown Fate = iota
	// Unsent: no byte of the call left this process, and none will, so it was certainly not
	// executed. A kept call ([Call.Keep]) is the exception: it is sent when the node is back.
	Unsent
	// Refused: the server answered with an error and did not do what it was asked.
	Refused
)

// String returns the fate as a word.
func (f Fate) String() string {
	switch f {
	case Unsent:
		return "unsent"
	case Refused:
		return "refused"
	case Unknown:
		return "unknown"
	default:
		return fmt.Sprintf("Fate(%d)", uint8(f))
	}
}

// CallError is the error of a call: why it failed, and what may have become of it.
type CallError struct {
	Fate Fate
	Err  error // for [Refused], the server's words as a redis.Error
}

// Error returns the reason. It mentions the fate if that is in doubt.
func (e *CallError) Error() string {
	if e.Fate == Unknown {
		return e.Err.Error() + " (may have been executed)"
	}
	return e.Err.Error()
}

// Unwrap returns the reason.
func (e *CallError) Unwrap() error { return e.Err }

func fail(fate Fate, err error) *CallError { return &CallError{Fate: fate, Err: err} }
