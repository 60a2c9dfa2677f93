package queue

import (
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/pool"
)

// Facts to branch on, with errors.Is. The errors of the lock ([redlock.ErrTaken], [redlock.ErrNoQuorum] and so on) and of the
// connection to the store (a [*pool.CallError]) show as well.
var (
	// ErrStale means that the store has seen a newer fencing token: the lock was lost while the call was under way, and another has changed the
	// queue since. The call has changed nothing, unless the error is a [*pool.CallError] of unknown fate as well: then the connection broke and an
	// answer was lost. It is a [fence.ErrStale], too.
	ErrStale = fmt.Errorf("queue: refused: %w", fence.ErrStale)

	// ErrInvalid means a bad argument, which the text names. Nothing was sent.
	ErrInvalid = errors.New("queue: invalid argument")
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// isUnknown reports whether a call that failed may have been executed.
func isUnknown(err error) bool {
	var call *pool.CallError
	return errors.As(err, &call) && call.Fate == pool.Unknown
}
