// Package fence is for the resources that a lock protects: it refuses those whose lock is no longer theirs.
//
// A holder that was paused beyond its validity does not know that another has the lock, and writes. Its fencing token
// (redlock.WithFencing, Lock.Fence) is smaller than that of the other. So a resource that remembers the largest token it has seen, and refuses
// smaller ones, is safe from it, without any assumption on time. [Gate] does this for a resource within one process; for
// databases, Redis and files see docs/fencing.md.
package fence

import (
	"errors"
	"fmt"
	"sync"
)

// ErrStale means that a token was refused: a larger one has been seen, so another has had the lock since.
var ErrStale = errors.New("fence: a newer token has been seen")

// ErrInvalid means a bad argument: what is no token, or no function.
var ErrInvalid = errors.New("fence: invalid argument")

// Gate remembers the largest token that it has seen. The zero value has seen none. Its methods may be called from any goroutine.
// It must not be copied after first use.
type Gate struct {
	mu     sync.Mutex // guards newest; held while Do runs its function
	newest int64
}

// Admit returns nil where the token is at least as large as all that were seen before, and remembers it. Otherwise it returns [ErrStale], or
// [ErrInvalid] for one below 1: zero is what a lock without fencing has.
//
// A write that follows is not protected from one with a newer token that comes between: where that matters, use [Gate.Do].
func (g *Gate) Admit(token int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.admitLocked(token)
}

// Do runs write if [Gate.Admit] lets the token pass, and returns its error. No other token passes while write runs, so it should be quick; it
// must not call the Gate.
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
	switch {
	case token < 1:
		return fmt.Errorf("%w: %d (a lock has one with WithFencing only)", ErrInvalid, token)
	case token < g.newest:
		return fmt.Errorf("%w: %d after %d", ErrStale, token, g.newest)
	}
	g.newest = token
	return nil
}

// Newest returns the largest token that was seen, 0 where there was none: what to store beside the resource when it is saved.
func (g *Gate) Newest() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.newest
}
