package redsync

import (
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/redlock"
)

// Errors to branch on with errors.Is.
var (
	// ErrFailed means that Lock gave up: ctx ended during the wait, or a try was granted too late
	// to be of use.
	ErrFailed = errors.New("redsync: lock not acquired")

	// ErrExtendFailed means that the validity had ended, or was over when the extension was
	// granted.
	ErrExtendFailed = errors.New("redsync: lock not extended")

	// ErrLockAlreadyExpired means that Unlock found no lock to release.
	ErrLockAlreadyExpired = errors.New("redsync: lock had expired before it was released")
)

// ErrTaken means that a quorum of masters answered, and refused. Of Lock, somebody else holds the
// lock. Of Extend and Valid, these masters do not have our lock: somebody else's, or none. Of
// Unlock, they have somebody else's. It matches [redlock.ErrTaken].
type ErrTaken struct {
	// Nodes are the masters that refused, by their index in the endpoints of the Locker. Of Lock,
	// they are all masters that did not fail: a Locker decides once a quorum has refused, and does
	// not tell which.
	Nodes []int
}

// Error returns the nodes.
func (err ErrTaken) Error() string { return fmt.Sprintf("redsync: taken on nodes %v", err.Nodes) }

// Unwrap returns [redlock.ErrTaken].
func (err ErrTaken) Unwrap() error { return redlock.ErrTaken }

// ErrNodeTaken means that one master refused, while there was no quorum.
type ErrNodeTaken struct {
	Node int // index in the endpoints of the Locker
}

// Error returns the node.
func (err ErrNodeTaken) Error() string { return fmt.Sprintf("redsync: taken on node %d", err.Node) }

// A RedisError means that one master failed, or that ctx ended before it had answered.
type RedisError struct {
	Node int   // index in the endpoints of the Locker
	Err  error // a *[redlock.NodeError] if the master failed
}

// Error returns the node and its error.
func (err RedisError) Error() string { return fmt.Sprintf("redsync: node %d: %v", err.Node, err.Err) }

// Unwrap returns the error of the node.
func (err RedisError) Unwrap() error { return err.Err }
