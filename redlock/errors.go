package redlock

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
)

// Facts to branch on, with errors.Is.
var (
	// ErrTaken means that someone else holds the lock, or part of it: a quorum of nodes answered, and did not grant.
	ErrTaken = errors.New("redlock: taken")

	// ErrNoQuorum means that too few nodes answered to decide anything.
	ErrNoQuorum = errors.New("redlock: no quorum")

	// ErrNoValidity means that the lock was granted, but so late that too little of its time to live was left. It was released.
	ErrNoValidity = errors.New("redlock: granted too late")

	// ErrLost means that the lock was ours and is no longer, without our doing.
	ErrLost = errors.New("redlock: lock lost")

	// ErrReleased means that the lock was released by Unlock or Close.
	ErrReleased = errors.New("redlock: lock released")

	// ErrClosed means that the locker was closed.
	ErrClosed = errors.New("redlock: locker closed")

	// ErrUndelivered means that Close gave releases up that some nodes had not answered. What these
	// nodes hold of our locks is free at the end of its TTL.
	ErrUndelivered = errors.New("redlock: releases not delivered")

	// ErrInvalid means a bad argument, which the text names. Nothing was sent.
	ErrInvalid = errors.New("redlock: invalid argument")
)

// Why a lock was lost.
var (
	errExpired = fmt.Errorf("%w: its validity has ended", ErrLost)
	errGone    = fmt.Errorf("%w: a quorum of nodes no longer has it", ErrLost)
	errMaxHold = fmt.Errorf("%w: held for its maximum", ErrLost)
	errForgot  = fmt.Errorf("%w: a quorum of nodes has restarted or lost its keys", ErrLost)
)

// errTwin is the vote of a node that is the same server as another.
var errTwin = &pipeline.CallError{Fate: pipeline.Unsent, Err: fmt.Errorf("%w: the same server as another node", pool.ErrRefused)}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// QuorumError tells what became of an operation that asked all nodes and did not get a quorum. It wraps the sentinel
// ([ErrTaken], [ErrNoQuorum], [ErrNoValidity] or [ErrLost]), the error of a context that ended, and the errors of the nodes.
type QuorumError struct {
	Op      string            // "acquire", "adopt", "extend", "verify", "release", "inspect", "force-unlock", "init" or "ready"
	Name    string            // of the lock; empty for "init" and "ready"
	Need    int               // votes that a quorum takes
	Granted int               // nodes that did what they were asked
	Refused int               // nodes that answered and did not
	Nodes   *multierror.Error // a *NodeError for each node that failed; nil where none did

	reason error // one of the sentinels
	ended  error // of the caller's context; nil while it has not ended
}

// Error tells the operation, the votes and what each node said, in one line, without passwords.
func (e *QuorumError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %s", e.reason, e.Op)
	if e.Name != "" {
		fmt.Fprintf(&b, " %q", e.Name)
	}
	fmt.Fprintf(&b, ": %d granted, %d refused, %d needed", e.Granted, e.Refused, e.Need)
	if e.ended != nil {
		fmt.Fprintf(&b, ": %v", e.ended)
	}
	for _, err := range e.Nodes.WrappedErrors() {
		fmt.Fprintf(&b, "; %v", err)
	}
	return b.String()
}

// Unwrap returns everything that errors.Is and errors.As may look for.
func (e *QuorumError) Unwrap() []error {
	errs := []error{e.reason}
	if e.ended != nil {
		errs = append(errs, e.ended)
	}
	if e.Nodes != nil {
		errs = append(errs, e.Nodes)
	}
	return errs
}

// NodeError is what one node had to say, or why it said nothing.
type NodeError struct {
	Endpoint string // without user and password
	Err      error  // a *pipeline.CallError, where the node was asked
}

// Error returns endpoint and reason.
func (e *NodeError) Error() string { return e.Endpoint + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *NodeError) Unwrap() error { return e.Err }

// untouched reports whether a call that failed has certainly changed nothing at its node.
func untouched(err error) bool {
	var call *pipeline.CallError
	return errors.As(err, &call) && call.Fate != pipeline.Unknown
}

// unbegun are the codes of errors that a server answers to a script before its first write, if at
// all.
var unbegun = []string{"READONLY", "OOM", "MISCONF", "NOREPLICAS", "LOADING", "BUSY", "MASTERDOWN", "NOSCRIPT", "NOAUTH"}

// midway reports whether a script that was answered with this error may have written before.
func midway(err error) bool {
	var call *pipeline.CallError
	if !errors.As(err, &call) || call.Fate != pipeline.Refused {
		return false
	}
	code, _, _ := strings.Cut(call.Err.Error(), " ")
	return !slices.Contains(unbegun, code)
}
