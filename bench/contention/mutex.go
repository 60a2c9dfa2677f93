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

// Setup is what a Mutex is made with.
type Setup struct {
	Addresses  []string // host:port of the servers
	Goroutines int      // how many will call it, at most
	TTL        time.Duration

	// Dial makes every connection to a server, and counts the commands that are written.
	Dial func(ctx context.Context, network, address string) (net.Conn, error) `json:"-"`
}

// Opener makes a Mutex. It returns once the connections that can be made in advance are up.
type Opener func(ctx context.Context, setup Setup) (Mutex, error)

// OpenRedquorum opens this library: a Locker with its defaults, and the TTL of the setup.
func OpenRedquorum(ctx context.Context, setup Setup) (Mutex, error) {
	return NewRedquorum(ctx, setup.Addresses, redlock.WithTTL(setup.TTL), redlock.WithPool(pool.WithDialer(setup.Dial)))
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
	lock, err := m.Locker.Lock(ctx, name)
	if err != nil {
		return nil, err // not a nil lock, which would be an Unlocker
	}
	return lock, nil
}
