package contention

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Mutex is one way to lock, connected to all servers. Many goroutines call Lock at once.
type Mutex interface {
	// Lock waits until the caller has the name or ctx ends.
	Lock(ctx context.Context, name string) (Unlocker, error)

	// Close returns once everything that was granted is released, or was given up.
	Close() error
}

// Unlocker releases what Lock acquired.
type Unlocker interface {
	Unlock(ctx context.Context) error
}

// ReadLocker is a [Mutex] that many may hold at once to read. Its Lock is the writers'.
type ReadLocker interface {
	Mutex

	// RLock is like Lock. Until it is released, others may read but not write.
	RLock(ctx context.Context, name string) (Unlocker, error)
}

// Setup is what a Mutex is made with.
type Setup struct {
	Addresses  []string // host:port of the servers
	Goroutines int      // how many will call it, at most
	Permits    int      // how many may hold it at once, for a semaphore
	TTL        time.Duration
	Patience   time.Duration // as in [Scenario]

	// Dial makes every connection to a server, and counts the commands that are written.
	Dial func(ctx context.Context, network, address string) (net.Conn, error) `json:"-"`
}

// Opener makes a Mutex. It returns once the connections that can be made in advance are up.
type Opener func(ctx context.Context, setup Setup) (Mutex, error)

// OpenRedquorum opens this library: a Locker with its defaults, and the TTL of the setup.
func OpenRedquorum(ctx context.Context, setup Setup) (Mutex, error) { return open(ctx, setup) }

// OpenPermits opens semaphores of this library, with the permits of the setup.
func OpenPermits(ctx context.Context, setup Setup) (Mutex, error) {
	m, err := open(ctx, setup)
	return &semaphores{m, setup.Permits}, err
}

func open(ctx context.Context, setup Setup) (*Redquorum, error) {
	options := []redlock.Option{redlock.WithTTL(setup.TTL), redlock.WithPool(pool.WithDialer(setup.Dial))}
	if setup.Patience > 0 {
		options = append(options, redlock.WithNodeTimeout(setup.Patience))
	}
	return NewRedquorum(ctx, setup.Addresses, options...)
}

// Redquorum is this library.
type Redquorum struct{ *redlock.Locker }

// NewRedquorum returns a Locker whose nodes are all connected and vote. A quorum would be enough to
// lock, but then a measurement would include dials and admissions.
func NewRedquorum(ctx context.Context, addresses []string, opts ...redlock.Option) (*Redquorum, error) {
	locker, err := redlock.New(addresses, opts...)
	if err != nil {
		return nil, err
	}
	down := func(node redlock.NodeStats) bool { return node.State != pool.Up || node.Barred != nil }
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for slices.ContainsFunc(locker.Stats().Nodes, down) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("contention: not all nodes vote: %w", ctx.Err()), locker.Close())
		}
	}
	return &Redquorum{locker}, nil
}

// Lock is Locker.Lock.
func (m *Redquorum) Lock(ctx context.Context, name string) (Unlocker, error) {
	return unlocker(m.Locker.Lock(ctx, name))
}

// RLock is Locker.RLock.
func (m *Redquorum) RLock(ctx context.Context, name string) (Unlocker, error) {
	return unlocker(m.Locker.RLock(ctx, name))
}

// unlocker keeps a nil lock from being an Unlocker.
func unlocker(lock *redlock.Lock, err error) (Unlocker, error) {
	if err != nil {
		return nil, err
	}
	return lock, nil
}

// Counters returns those of the Locker's Stats that tell how a lock was acquired. A new counter of
// Stats needs a line here.
func (m *Redquorum) Counters() map[string]uint64 {
	stats := m.Stats()
	return map[string]uint64{
		"acquired":    stats.Acquired,
		"taken":       stats.Taken,
		"no-quorum":   stats.NoQuorum,
		"no-validity": stats.NoValidity,
		"lost":        stats.Lost,
		"waits":       stats.Waits,
		"handed-over": stats.HandedOver,
		"woken":       stats.Woken,
		"polls":       stats.Polls,
		"split":       stats.Split,
	}
}

// semaphores have so many permits.
type semaphores struct {
	*Redquorum
	permits int
}

func (s *semaphores) Lock(ctx context.Context, name string) (Unlocker, error) {
	semaphore, err := s.Semaphore(name, s.permits)
	if err != nil {
		return nil, err
	}
	permit, err := semaphore.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return permit, nil
}
