// Package fence is for the resources that a lock protects: it refuses writers whose lock is no
// longer theirs.
//
// A holder that was paused beyond its validity does not know that another one has the lock, and
// writes. Its fencing token (redlock.WithFencing, Lock.Fence) is smaller than the other's. So a
// resource that remembers the largest token it has seen, and refuses smaller ones, is safe from it
// once it has seen the other's, without any assumption about time. Show the token before you read
// what your writes depend on. [Gate] does this for a resource within one process, and [RWGate] for
// one whose locks are shared by readers; for databases, Redis and files see docs/fencing.md.
package fence

import (
	"errors"
	"fmt"
	"sync"
)

// ErrStale means that a token was refused: a newer one has been seen, so another holder has had the
// lock since.
var ErrStale = errors.New("fence: a newer token has been seen")

// ErrInvalid means a bad argument: not a token, or no function.
var ErrInvalid = errors.New("fence: invalid argument")

// Gate remembers the largest token that it has seen. The zero value has seen none. Its methods are
// safe for concurrent use. Do not copy it after first use.
type Gate struct {
	mu     sync.Mutex // guards newest; held while Do runs its function
	newest int64
}

// Admit returns nil and remembers the token if it is at least as large as all that were seen
// before. Otherwise it returns [ErrStale], or [ErrInvalid] if the token is below 1: zero is the
// token of a lock without fencing.
//
// Call it before reading what a write will depend on: no older token is admitted from then on. A
// write after Admit is not protected from one with a newer token that comes in between: make it in
// [Gate.Do].
func (g *Gate) Admit(token int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.admitLocked(token)
}

// Do calls write if [Gate.Admit] accepts the token, and returns its error. No other token passes
// while write runs, so write should be quick; it must not call the Gate.
func (g *Gate) Do(token int64, write func() error) error {
	if write == nil {
		return fmt.Errorf("%w: write is nil", ErrInvalid)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.admitLocked(token); err != nil {
		return err
	}
	return write()
}

func (g *Gate) admitLocked(token int64) error {
	if err := checkToken(token); err != nil {
		return err
	}
	if token < g.newest {
		return fmt.Errorf("%w: %d after %d", ErrStale, token, g.newest)
	}
	g.newest = token
	return nil
}

func checkToken(token int64) error {
	if token < 1 {
		return fmt.Errorf("%w: %d is not a token (only locks with WithFencing have one)", ErrInvalid, token)
	}
	return nil
}

// Newest returns the largest token that was seen, or 0 if there was none. It is what a restart must
// not forget: save it before anything is read or written behind it, and [Gate.Admit] it at startup.
// Call Newest and save under one mutex, or the save of an older token may come last.
func (g *Gate) Newest() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.newest
}
