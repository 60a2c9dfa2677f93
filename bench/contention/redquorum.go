package contention

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// OpenRedquorum opens this library: a Locker with its defaults, and the TTL of the setup.
func OpenRedquorum(ctx context.Context, setup Setup) (Mutex, error) {
	m, err := open(ctx, setup)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// OpenPermits opens a semaphore of this library, with the permits of the setup.
func OpenPermits(ctx context.Context, setup Setup) (Mutex, error) {
	m, err := open(ctx, setup)
	if err != nil {
		return nil, err
	}
	semaphore, err := m.locker.Semaphore(setup.Name, setup.Permits)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return &permits{m, semaphore}, nil
}

func open(ctx context.Context, setup Setup) (*redquorum, error) {
	options := []redlock.Option{redlock.WithTTL(setup.TTL), redlock.WithPool(pool.WithDialer(setup.Dial))}
	if setup.Patience > 0 {
		options = append(options, redlock.WithNodeTimeout(setup.Patience))
	}
	locker, err := redlock.New(setup.Addresses, options...)
	if err != nil {
		return nil, err
	}
	if err := AwaitNodes(ctx, locker); err != nil {
		return nil, errors.Join(err, locker.Close())
	}
	return &redquorum{locker: locker, name: setup.Name}, nil
}

type redquorum struct {
	locker *redlock.Locker
	name   string
}

// AwaitNodes waits until every node of a Locker is connected and votes. A quorum would be enough to
// lock, but then a measurement would include dials and admissions.
func AwaitNodes(ctx context.Context, locker *redlock.Locker) error {
	down := func(node redlock.NodeStats) bool { return node.State != pool.Up || node.Barred != nil }
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for slices.ContainsFunc(locker.Stats().Nodes, down) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("contention: not all nodes vote: %w", ctx.Err())
		}
	}
	return nil
}

func (m *redquorum) Lock(ctx context.Context) (func(context.Context) error, error) {
	lock, err := m.locker.Lock(ctx, m.name)
	if err != nil {
		return nil, err
	}
	return lock.Unlock, nil
}

// permits is a semaphore.
type permits struct {
	*redquorum

	semaphore *redlock.Semaphore
}

func (p *permits) Lock(ctx context.Context) (func(context.Context) error, error) {
	permit, err := p.semaphore.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return permit.Unlock, nil
}

// RLock is Lock for readers.
func (m *redquorum) RLock(ctx context.Context) (func(context.Context) error, error) {
	lock, err := m.locker.RLock(ctx, m.name)
	if err != nil {
		return nil, err
	}
	return lock.Unlock, nil
}

// Counters returns those of the Locker's Stats that tell how a lock was acquired. A new counter of
// Stats needs a line here.
func (m *redquorum) Counters() map[string]uint64 {
	stats := m.locker.Stats()
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

func (m *redquorum) Close() error { return m.locker.Close() }
