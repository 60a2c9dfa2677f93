package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/internal/proof/exampletest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

func Example() {
	masters, stop := exampletest.Masters(5)
	defer stop()

	locker, err := redlock.New(masters.Endpoints(), redlock.WithTTL(10*time.Second))
	if err != nil {
		panic(err) // a bad endpoint or option; nothing has been dialed yet
	}
	defer locker.Close()

	settle := func(ctx context.Context, order string) error {
		lock, err := locker.Lock(ctx, "orders/"+order) // waits; ctx bounds the wait only
		if err != nil {
			return err
		}
		defer lock.Unlock(ctx)

		work := lock.Context(ctx) // ends the moment the lock is no longer ours
		fmt.Println("settling", order, "with the lock held:", work.Err() == nil)
		return nil
	}

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	fmt.Println(settle(ctx, "42"))
	// Output:
	// settling 42 with the lock held: true
	// <nil>
}

func ExampleLocker_TryLock() {
	masters, stop := exampletest.Masters(3)
	defer stop()
	locker, err := redlock.New(masters.Endpoints())
	if err != nil {
		panic(err)
	}
	defer locker.Close()

	ctx := context.Background()
	if err := locker.Ready(ctx); err != nil { // waits until a quorum answers: TryLock does not
		panic(err)
	}
	lock, err := locker.TryLock(ctx, "nightly-report")
	fmt.Println("first:", err)

	_, err = locker.TryLock(ctx, "nightly-report")
	fmt.Println("second is told that it is taken:", errors.Is(err, redlock.ErrTaken))

	fmt.Println("released:", lock.Unlock(ctx))
	// Output:
	// first: <nil>
	// second is told that it is taken: true
	// released: <nil>
}

func ExampleQuorumError() {
	masters, stop := exampletest.Masters(3)
	defer stop()
	locker, err := redlock.New(masters.Endpoints())
	if err != nil {
		panic(err)
	}
	defer locker.Close()
	if err := locker.Ready(context.Background()); err != nil {
		panic(err)
	}
	masters.Node(0).Stop()
	masters.Node(1).Stop()

	_, err = locker.TryLock(context.Background(), "a")
	var quorum *redlock.QuorumError
	if errors.As(err, &quorum) {
		fmt.Println("a quorum needs", quorum.Need)
		for _, node := range quorum.Nodes.Errors {
			fmt.Println("failed:", errors.As(node, new(*redlock.NodeError)))
		}
	}
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum))
	// Output:
	// a quorum needs 2
	// failed: true
	// failed: true
	// true
}

func ExampleLock_Extend() {
	masters, stop := exampletest.Masters(3)
	defer stop()
	locker, err := redlock.New(masters.Endpoints())
	if err != nil {
		panic(err)
	}
	defer locker.Close()

	ctx := context.Background()
	if err := locker.Ready(ctx); err != nil {
		panic(err)
	}
	lock, err := locker.TryLock(ctx, "import", redlock.WithTTL(20*time.Second))
	if err != nil {
		panic(err)
	}
	defer lock.Unlock(ctx)
	for range 3 { // before each step that must not run twice
		if err := lock.Extend(ctx, 30*time.Second); err != nil {
			fmt.Println("stop here:", err)
			return
		}
	}
	fmt.Println(lock.Remaining() > 29*time.Second)
	// Output: true
}

func ExampleWithMinHold() {
	masters, stop := exampletest.Masters(3)
	defer stop()
	locker, err := redlock.New(masters.Endpoints())
	if err != nil {
		panic(err)
	}
	defer locker.Close()

	ctx := context.Background()
	if err := locker.Ready(ctx); err != nil {
		panic(err)
	}
	minutely := func(machine string) { // at the full minute of each machine's clock
		lock, err := locker.TryLock(ctx, "minutely", redlock.WithMinHold(55*time.Second))
		if err != nil {
			fmt.Println(machine, "leaves it to others:", errors.Is(err, redlock.ErrTaken))
			return
		}
		fmt.Println(machine, "does the work")
		fmt.Println("released:", lock.Unlock(ctx)) // does not wait for the rest of the time
	}
	minutely("the first")
	minutely("the late one")
	// Output:
	// the first does the work
	// released: <nil>
	// the late one leaves it to others: true
}

func ExampleNewFromNodes() {
	masters, stop := exampletest.Masters(3)
	defer stop()
	var nodes []*pool.Node
	for _, endpoint := range masters.Endpoints() {
		node, err := pool.NewNode(endpoint, pool.WithClientName("billing"))
		if err != nil {
			panic(err)
		}
		defer node.Close()
		nodes = append(nodes, node)
	}
	orders, err := redlock.NewFromNodes(nodes, redlock.WithKeyPrefix("orders:"))
	if err != nil {
		panic(err)
	}
	defer orders.Close()
	stock, err := redlock.NewFromNodes(nodes, redlock.WithKeyPrefix("stock:"), redlock.WithTTL(20*time.Second))
	if err != nil {
		panic(err)
	}
	defer stock.Close()

	ctx := context.Background()
	if err := errors.Join(orders.Ready(ctx), stock.Ready(ctx)); err != nil {
		panic(err)
	}
	_, err = orders.TryLock(ctx, "42")
	fmt.Println(err)
	_, err = stock.TryLock(ctx, "42")
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
}
