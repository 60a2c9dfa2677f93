package fence

import (
	"fmt"
	"sync"
)

// RWGate is the [Gate] of a resource with readers and writers: of shared locks (RLock) and locks
// of the same name. It remembers the largest token of each, and refuses a lock once it has seen a
// later one that excludes it. The zero value has seen none. Its methods are safe for concurrent
// use. Do not copy it after first use.
//
// A reader's token is at least that of every writer before it, and below that of every writer after
// it. Readers may have equal tokens, and a reader may have that of the writer just before it. So a
// write passes if its token is at least that of every writer and above that of every reader, and a
// read passes if its token is at least that of every writer.
type RWGate struct {
	// order is held for writing by what admits writers, and for reading by what admits readers: so
	// write does not change while a reader is judged, and read does not while a writer is.
	order sync.RWMutex
	write int64 // guarded by order

	mu   sync.Mutex // taken inside order
	read int64      // guarded by mu
}

// AdmitWrite returns nil and remembers the token if that of a writer may pass. Otherwise it returns
// [ErrStale] or [ErrInvalid], as [Gate.Admit] does. A writer calls it before it reads, and writes
// with [RWGate.Write], because other tokens may come in between.
func (g *RWGate) AdmitWrite(token int64) error {
	g.order.Lock()
	defer g.order.Unlock()
	return g.admitWriteLocked(token)
}

// AdmitRead returns nil and remembers the token if that of a reader may pass. Otherwise it returns
// [ErrStale] or [ErrInvalid], as [Gate.Admit] does. What is read later may be of a later writer. If
// that matters, use [RWGate.Read].
func (g *RWGate) AdmitRead(token int64) error {
	g.order.RLock()
	defer g.order.RUnlock()
	return g.admitReadLocked(token)
}

// Write calls write if [RWGate.AdmitWrite] accepts the token, and returns its error. Nothing else
// passes while write runs, so write should be quick; it must not call the RWGate.
func (g *RWGate) Write(token int64, write func() error) error {
	if write == nil {
		return fmt.Errorf("%w: write is nil", ErrInvalid)
	}
	g.order.Lock()
	defer g.order.Unlock()
	if err := g.admitWriteLocked(token); err != nil {
		return err
	}
	return write()
}

// Read calls read if [RWGate.AdmitRead] accepts the token, and returns its error. Other readers
// pass while read runs, and writers wait for it, so read should be quick; it must not call the
// RWGate.
func (g *RWGate) Read(token int64, read func() error) error {
	if read == nil {
		return fmt.Errorf("%w: read is nil", ErrInvalid)
	}
	g.order.RLock()
	defer g.order.RUnlock()
	if err := g.admitReadLocked(token); err != nil {
		return err
	}
	return read()
}

func (g *RWGate) admitWriteLocked(token int64) error {
	if err := checkToken(token); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case token < g.write:
		return fmt.Errorf("%w: %d after %d", ErrStale, token, g.write)
	case token <= g.read:
		// A reader with the token of a writer comes after it: every later writer has a larger one.
		return fmt.Errorf("%w: %d of a writer after %d of a reader", ErrStale, token, g.read)
	}
	g.write = token
	return nil
}

func (g *RWGate) admitReadLocked(token int64) error {
	if err := checkToken(token); err != nil {
		return err
	}
	if token < g.write {
		return fmt.Errorf("%w: %d of a reader after %d of a writer", ErrStale, token, g.write)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.read = max(g.read, token)
	return nil
}

// Newest returns the largest tokens of writers and of readers that were seen, or 0 where there was
// none. They are what a restart must not forget: save them before anything is read or written
// behind them, with the call of Newest and the save under one mutex. [RWGate.Restore] takes them.
func (g *RWGate) Newest() (write, read int64) {
	g.order.RLock()
	defer g.order.RUnlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.write, g.read
}

// Restore makes the RWGate remember what [RWGate.Newest] returned before a restart. AdmitWrite and
// AdmitRead cannot do that: after a reader, they refuse the token of the writer before it. Restore
// never lowers a token. It returns [ErrInvalid] if one is negative.
func (g *RWGate) Restore(write, read int64) error {
	if write < 0 || read < 0 {
		return fmt.Errorf("%w: %d and %d are not what Newest returned", ErrInvalid, write, read)
	}
	g.order.Lock()
	defer g.order.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.write, g.read = max(g.write, write), max(g.read, read)
	return nil
}
