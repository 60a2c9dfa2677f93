package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redquorum/redquorum/redlock"
)

// Exit statuses. Those from 64 on are what sysexits.h and the shells mean by them, so that `redlock run` can be told
// from most commands that it runs.
const (
	exitFailed        = 1   // what was asked for did not come about
	exitUsage         = 64  // what was asked for makes no sense; nothing was done
	exitNoQuorum      = 69  // too few masters answered
	exitLost          = 70  // the lock was lost, and the command ended for it
	exitTaken         = 75  // somebody else holds the lock
	exitNotExecutable = 126 // the command is there, and cannot be run
	exitNotFound      = 127 // there is no such command
	exitSignal        = 128 // and the number of the signal
)

// usageError is an error of the person who typed the command.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// flagError is what cobra makes of a flag that it cannot read. It shows single letters along with what follows them.
func flagError(err error) error {
	if mayHoldPassword(err.Error()) {
		return usagef("a flag is wrong; it is not shown, as it may contain a password")
	}
	return usageError{err}
}

// mayHoldPassword reports whether a text may be or contain an endpoint with a password.
func mayHoldPassword(text string) bool {
	return strings.Contains(text, "://") || strings.Contains(text, "@")
}

// explain returns the text of an error for people: where masters have said why, in a line each.
// Those that have not, because the question was cut short, may be known to nodes.
func explain(err error, nodes ...redlock.NodeStats) string {
	said := strings.TrimPrefix(err.Error(), "redlock: ") // which errors of the library begin with
	failure, ok := errors.AsType[*redlock.QuorumError](err)
	if !ok || failure.Error() != err.Error() {
		return said
	}
	head := *failure
	head.Nodes = nil
	lines := []string{strings.TrimPrefix(head.Error(), "redlock: ")}
	told := map[string]bool{}
	for _, nodeErr := range failure.Nodes.WrappedErrors() {
		lines = append(lines, nodeErr.Error())
		if node, ok := errors.AsType[*redlock.NodeError](nodeErr); ok {
			told[node.Endpoint] = true
		}
	}
	for _, n := range nodes {
		if !told[n.Endpoint] && n.Barred != nil {
			lines = append(lines, (&redlock.NodeError{Endpoint: n.Endpoint, Err: n.Barred}).Error())
		}
	}
	return strings.Join(lines, "\n  ")
}

// statusError ends the program with a status of its own.
type statusError struct {
	status int
	err    error // nil: everything was said
}

func (e statusError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e statusError) Unwrap() error { return e.err }

func exitStatus(err error) int {
	var usage usageError
	var status statusError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &status):
		return status.status
	default:
		return exitFailed
	}
}
