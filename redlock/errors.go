package redlock

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/trouble"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wait"
)

// Errors to branch on with errors.Is.
var (
	// ErrTaken means that someone else holds the lock, or part of it, or that the time of its
	// [WithMinHold] is not over: a quorum of nodes answered, and did not grant. To a call that
	// waits, the node that it waits at may have said so.
	ErrTaken = round.ErrTaken

	// ErrNoQuorum means that too few nodes answered to decide anything. With [WithFencing] it may
	// also mean that no quorum is near one token.
	ErrNoQuorum = round.ErrNoQuorum

	// ErrNoValidity means that the lock was granted, but so late that too little of its time to
	// live was left. It was released.
	ErrNoValidity = errors.New("redlock: granted too late")

	// ErrLost means that we held the lock and no longer do, although we did not release it.
	ErrLost = errors.New("redlock: lock lost")

	// ErrReleased means that the lock was released by Unlock or Close.
	ErrReleased = errors.New("redlock: lock released")

	// ErrClosed means that the locker was closed.
	ErrClosed = wait.ErrClosed

	// ErrUndelivered means that Close gave up on releases that some nodes had not answered. What
	// these nodes hold of our locks is free at the end of its TTL.
	ErrUndelivered = errors.New("redlock: releases not delivered")

	// ErrInvalid means a bad argument, which the text names. Nothing was sent, unless only the
	// nodes know: the number of permits of a [Semaphore], a TTL above the cluster's maximum, nodes
	// of two clusters.
	ErrInvalid = errors.New("redlock: invalid argument")
)

// Why a lock that a quorum granted is not taken all the same.
var (
	errHanded = fmt.Errorf("%w: a release handed it to a waiter", ErrTaken)
	errFaster = fmt.Errorf("%w: another wait of the same call was faster", ErrTaken)
)

// Why a lock was lost.
var (
	errExpired = fmt.Errorf("%w: its validity has ended", ErrLost)
	errGone    = fmt.Errorf("%w: a quorum of nodes no longer has it", ErrLost)
	errMaxHold = fmt.Errorf("%w: its maximum hold has ended", ErrLost)
	errForgot  = fmt.Errorf("%w: a quorum of nodes has restarted or lost its keys", ErrLost)
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// QuorumError describes an operation that asked all nodes and did not get a quorum. Its votes are
// those that decided that, or that were in when its context ended: later ones change nothing. It
// wraps the sentinel ([ErrTaken], [ErrNoQuorum], [ErrNoValidity] or [ErrLost]), the error of a
// context that ended, and the errors of the nodes.
type QuorumError struct {
	// Op is "acquire", "adopt", "extend", "verify", "release", "inspect", "force-unlock", "init",
	// "ready", "members" or "record" (of package election).
	Op string

	Name    string       // of the lock, or of the semaphore; empty for "init", "ready", "members"
	Need    int          // votes that a quorum takes
	Granted int          // nodes that did what they were asked
	Refused int          // nodes that answered, but did not
	Nodes   []*NodeError // of the nodes that failed

	voting int   // nodes whose votes count; only of "ready"
	nodes  int   // how many there are; only of "ready"
	reason error // one of the sentinels
	ended  error // of the caller's context; nil unless it ended
}

// Error returns the operation, the votes and the error of each node, on one line, without
// passwords.
func (e *QuorumError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %s", e.reason, e.Op)
	if e.Name != "" {
		fmt.Fprintf(&b, " %q", e.Name)
	}
	switch {
	case errors.Is(e.reason, ErrTaken) && e.Granted+e.Refused < e.Need:
		b.WriteString(": refused by the master at which it waits")
	case e.Op != "ready":
		fmt.Fprintf(&b, ": %d granted, %d refused, %d needed", e.Granted, e.Refused, e.Need)
	case e.voting < e.Need:
		fmt.Fprintf(&b, ": %d of %d masters vote, %d needed", e.voting, e.nodes, e.Need)
	default:
		fmt.Fprintf(&b, ": %d of %d masters answered, %d needed", e.Granted, e.nodes, e.Need)
	}
	if e.ended != nil {
		fmt.Fprintf(&b, ": %v", e.ended)
	}
	said := map[string]bool{}
	for _, err := range e.Nodes {
		hint := trouble.Of(err.Err).Hint()
		if said[hint] { // what several need is said once
			hint = ""
		}
		said[hint] = true
		fmt.Fprintf(&b, "; %s: %v%s", err.Endpoint, err.Err, hint)
	}
	return b.String()
}

// Unwrap returns all errors that errors.Is and errors.As may match.
func (e *QuorumError) Unwrap() []error {
	errs := []error{e.reason}
	if e.ended != nil {
		errs = append(errs, e.ended)
	}
	for _, node := range e.Nodes {
		errs = append(errs, node)
	}
	return errs
}

// endedBy joins why a wait ended with its last failure. If the Locker was closed, or the number of
// permits is another, the last failure does not matter.
func (e *QuorumError) endedBy(why error) error {
	if errors.Is(why, ErrClosed) || errors.Is(why, ErrInvalid) {
		return why
	}
	told := *e
	told.ended = why
	return &told
}

// NodeError is the error of one node.
type NodeError struct {
	Endpoint string // without user and password
	Err      error  // a *pool.CallError, if the node was asked
}

// Error returns the endpoint and the reason, and what to do about it, as far as that can be known
// from the reason alone.
func (e *NodeError) Error() string {
	return e.Endpoint + ": " + e.Err.Error() + trouble.Of(e.Err).Hint()
}

// Unwrap returns the reason.
func (e *NodeError) Unwrap() error { return e.Err }

// roundError describes a round as it was decided or cut short, for the caller. Without a reason,
// the votes so far decide: for an attempt that ctx cut short, whether a quorum had answered, and
// had not granted.
func roundError(r *round.Round, op, name string, reason, ended error) *QuorumError {
	votes, errs := r.Outcome()
	if reason == nil {
		reason = ErrNoQuorum
		if need := quorum.Need(votes.Nodes); votes.Granted < need && votes.Granted+votes.Refused >= need {
			reason = ErrTaken
		}
	}
	return newQuorumError(op, name, r.Nodes(), votes, errs, reason, ended)
}

func newQuorumError(op, name string, nodes []*pipeline.Node, votes quorum.Tally, errs []error, reason, ended error) *QuorumError {
	e := &QuorumError{
		Op: op, Name: name, Need: quorum.Need(votes.Nodes), Granted: votes.Granted, Refused: votes.Refused,
		reason: reason, ended: ended,
	}
	for i, err := range errs {
		if err != nil {
			e.Nodes = append(e.Nodes, &NodeError{Endpoint: nodes[i].Endpoint(), Err: err})
		}
	}
	return e
}
