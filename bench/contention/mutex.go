package contention

import (
	"context"
	"net"
	"time"
)

// Mutex is one way to lock one name, connected to all servers. Many goroutines call Lock at once.
type Mutex interface {
	// Lock waits until the caller has the name or ctx ends. The function it returns releases the
	// name.
	Lock(ctx context.Context) (unlock func(context.Context) error, err error)

	// Counters returns what the implementation has counted of its own work since it was opened, or
	// nil if it counts nothing.
	Counters() map[string]uint64

	// Close returns once everything that was granted is released, or was given up.
	Close() error
}

// ReadLocker is a [Mutex] that many may hold at once to read. Its Lock is the writers'.
type ReadLocker interface {
	Mutex

	// RLock is like Lock. Until it is released, others may read but not write.
	RLock(ctx context.Context) (unlock func(context.Context) error, err error)
}

// Setup is what a Mutex is made with.
type Setup struct {
	Addresses  []string // host:port of the servers
	Name       string   // what it locks
	Goroutines int      // how many will call it, at most
	Permits    int      // how many may hold it at once, for a semaphore
	TTL        time.Duration
	Patience   time.Duration // as in [Scenario]

	// Dial makes every connection to a server, and counts the commands that are written.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Opener makes a Mutex. It returns once the connections that can be made in advance are up.
type Opener func(ctx context.Context, setup Setup) (Mutex, error)
