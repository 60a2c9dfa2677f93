package pipeline

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed means that the node was closed.
	ErrClosed = errors.New("pool: node closed")

	// ErrTimeout means that no answer came by the call's deadline.
	ErrTimeout = errors.New("pool: no answer in time")

	// ErrBusy means that the queue of a node is full: it answers more slowly than it is asked.
	ErrBusy = errors.New("pool: too many calls without an answer")

	// ErrStalled means that a connection was given up because its oldest call had gone without an answer for too long.
	ErrStalled = errors.New("pool: node stalled")

	// ErrProtocol means that a node answered something that is not Redis, or not an answer to what it was asked.
	ErrProtocol = errors.New("pool: protocol error")

	// ErrRefused means that a server answers that must not have a vote. The errors below that wrap
	// it say why.
	ErrRefused = errors.New("pool: refused")

	// ErrReplica means that the server is no master: it repeats another one. It wraps [ErrRefused].
	ErrReplica = fmt.Errorf("%w: a replica", ErrRefused)

	// ErrClusterMode means that the server is a member of a cluster, which may hand a key to
	// another member, or fail over. It wraps [ErrRefused].
	ErrClusterMode = fmt.Errorf("%w: in cluster mode", ErrRefused)

	// ErrSentinelMode means that the server is a Sentinel, which stores nothing. It wraps
	// [ErrRefused].
	ErrSentinelMode = fmt.Errorf("%w: in sentinel mode", ErrRefused)

	// ErrDuplicate means that the server is another node's too, and has its one vote there. It
	// wraps [ErrRefused].
	ErrDuplicate = fmt.Errorf("%w: the same server as another node", ErrRefused)

	// ErrNoScripts means that the server cannot run scripts, or does not let this user run them:
	// what it granted could not be released. It wraps [ErrRefused].
	ErrNoScripts = fmt.Errorf("%w: scripts cannot be run", ErrRefused)

	// ErrAuth means that the server does not let us in: user or password are wrong or missing. It
	// does not wrap [ErrRefused], which is about the server and not about us.
	ErrAuth = errors.New("pool: not let in")

	// ErrQuarantined means that the server may have forgotten what it granted, and has no vote
	// until that has expired. It does not wrap [ErrRefused]: the server is fit for a vote, and is
	// asked like the others.
	ErrQuarantined = errors.New("quarantined")

	// ErrEndpoint means that an endpoint, or an option of a node, cannot be used. Nothing was dialed.
	ErrEndpoint = errors.New("pool: bad endpoint or option")
)

// Fate says what may have become of a call that failed.
type Fate uint8

const (
	// Unknown: the call may have been executed, may be executed yet, or never.
	Unknown Fate = iota
	// Unsent: no byte of the call left this process, and none will. It was certainly not executed. A kept call
	// ([Call.Keep]) is the exception: it is sent when the node is back.
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

// Error returns the reason; the fate is told where it is in doubt.
func (e *CallError) Error() string {
	if e.Fate == Unknown {
		return e.Err.Error() + " (may have been executed)"
	}
	return e.Err.Error()
}

// Unwrap returns the reason.
func (e *CallError) Unwrap() error { return e.Err }

func fail(fate Fate, err error) *CallError { return &CallError{Fate: fate, Err: err} }
