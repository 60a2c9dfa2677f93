package election

import (
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/internal/trouble"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Errors to branch on, with errors.Is. Errors of the lock ([redlock.ErrNoQuorum],
// [redlock.ErrClosed] and so on) are passed on, wrapped.
var (
	// ErrInvalid means a bad argument, which the text names. Nothing was sent.
	ErrInvalid = errors.New("election: invalid argument")

	// ErrRunning means that this Election runs already.
	ErrRunning = errors.New("election: runs already")

	// ErrResigned is the cause of the end of lead's context after [Election.Resign].
	ErrResigned = errors.New("election: resigned")
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// isForbidden reports whether a quorum of masters answered that it does not do what it was asked,
// and not only for now.
func isForbidden(err error) bool {
	var failure *redlock.QuorumError
	if !errors.As(err, &failure) {
		return false
	}
	refused := 0
	for _, node := range failure.Nodes {
		var call *pool.CallError
		if !errors.As(node, &call) || call.Fate != pool.Refused {
			continue
		}
		if state := trouble.StateOf(call.Err); state == "" || state == trouble.NoPassword {
			refused++
		}
	}
	return refused >= failure.Need
}
