package queue

import (
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/pool"
)

// Errors to branch on, with errors.Is. Errors of the lock ([redlock.ErrTaken],
// [redlock.ErrNoQuorum] and so on) and of the connection to the store (a [*pool.CallError]) are
// passed on, wrapped.
var (
	// ErrStale means that the store has seen a newer fencing token: the lock was lost while the
	// call was under way, and another holder has changed the queue since. The call has changed
	// nothing, unless the error is also a [*pool.CallError] with an unknown fate: then the
	// connection broke and an answer was lost. It matches [fence.ErrStale].
	ErrStale = fmt.Errorf("queue: refused: %w", fence.ErrStale)

	// ErrInvalid means a bad argument, also of the lock, which the text names. Nothing was changed.
	ErrInvalid = errors.New("queue: invalid argument")
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// isUnknown reports whether a failed call may have been executed.
func isUnknown(err error) bool {
	var call *pool.CallError
	return errors.As(err, &call) && call.Fate == pool.Unknown
}
