package redlocktest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/redlock"
)

// Leases is what the code under test needs of a Locker.
type Leases interface {
	Lock(ctx context.Context, name string) (Lease, error)
}

// Lease is what it needs of a lock.
type Lease interface {
	Context(parent context.Context) context.Context
	Unlock(ctx context.Context) error
}

// Quorum is a Locker as Leases.
type Quorum struct{ *redlock.Locker }

// Lock waits for the lock.
func (q Quorum) Lock(ctx context.Context, name string) (Lease, error) {
	lock, err := q.Locker.Lock(ctx, name)
	if err != nil {
		return nil, err // not lock: a Lease with a nil *redlock.Lock in it is not nil
	}
	return lock, nil
}

// settle is the code under test.
func settle(ctx context.Context, leases Leases, order string) error {
	lock, err := leases.Lock(ctx, "orders/"+order)
	if err != nil {
		return fmt.Errorf("settle %s: %w", order, err)
	}
	defer lock.Unlock(ctx)
	return lock.Context(ctx).Err() // the work, which ends when the lock does
}

// mock grants every lock, or none.
type mock struct{ err error }

func (m mock) Lock(context.Context, string) (Lease, error) {
	if m.err != nil {
		return nil, m.err
	}
	return m, nil
}

func (m mock) Context(parent context.Context) context.Context { return parent }
func (m mock) Unlock(context.Context) error                   { return nil }

// Only a Locker makes a *redlock.Lock. Code that is to run without masters takes a small interface
// of its own, and in production an adapter.
func Example_mock() {
	ctx := context.Background()
	fmt.Println("granted:", settle(ctx, mock{}, "42"))
	fmt.Println("refused:", settle(ctx, mock{err: redlock.ErrNoQuorum}, "42"))

	locker, err := redlock.New([]string{"redis://127.0.0.1:1"}) // nobody is there
	if err != nil {
		panic(err)
	}
	defer locker.Close()
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	lease, err := Quorum{locker}.Lock(cancelled, "orders/42")
	fmt.Println("in production:", lease == nil, errors.Is(err, context.Canceled))
	// Output:
	// granted: <nil>
	// refused: settle 42: redlock: no quorum
	// in production: true true
}
