package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// masters starts embedded nodes, so the examples run anywhere. Yours are redis://a:6379,
// redis://b:6379 and so on.
func masters(n int) (endpoints []string, servers []*miniredis.Miniredis, stop func()) {
	for range n {
		server := miniredis.NewMiniRedis()
		if err := server.Start(); err != nil {
			panic(err)
		}
		servers = append(servers, server)
		endpoints = append(endpoints, "redis://"+server.Addr())
	}
	return endpoints, servers, func() {
		for _, server := range servers {
			server.Close()
		}
	}
}

func Example() {
	endpoints, _, stop := masters(5)
	defer stop()

	locker, err := redlock.New(endpoints, redlock.WithTTL(10*time.Second))
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
	endpoints, _, stop := masters(3)
	defer stop()
	locker, err := redlock.New(endpoints)
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
	endpoints, servers, stop := masters(3)
	defer stop()
	locker, err := redlock.New(endpoints)
	if err != nil {
		panic(err)
	}
	defer locker.Close()
	if err := locker.Init(context.Background(), false); err != nil { // waits until every node votes
		panic(err)
	}

	if err := locker.Ready(context.Background()); err != nil {
		panic(err)
	}
	servers[0].SetError("OOM command not allowed when used memory > 'maxmemory'.")
	servers[1].SetError("OOM command not allowed when used memory > 'maxmemory'.")

	_, err = locker.TryLock(context.Background(), "a")
	var quorum *redlock.QuorumError
	if errors.As(err, &quorum) {
		fmt.Println("a quorum needs", quorum.Need)
		for _, node := range quorum.Nodes.Errors {
			fmt.Println("out of memory:", strings.Contains(node.Error(), "OOM"))
		}
	}
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum))
	// Output:
	// a quorum needs 2
	// out of memory: true
	// out of memory: true
	// true
}

func ExampleLock_Extend() {
	endpoints, _, stop := masters(3)
	defer stop()
	locker, err := redlock.New(endpoints)
	if err != nil {
		panic(err)
	}
	defer locker.Close()

	ctx := context.Background()
	if err := locker.Ready(ctx); err != nil {
		panic(err)
	}
	lock, err := locker.TryLock(ctx, "import", redlock.WithTTL(2*time.Second))
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
	endpoints, _, stop := masters(3)
	defer stop()
	locker, err := redlock.New(endpoints)
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
	endpoints, _, stop := masters(3)
	defer stop()
	var nodes []*pool.Node
	for _, endpoint := range endpoints {
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
	stock, err := redlock.NewFromNodes(nodes, redlock.WithKeyPrefix("stock:"), redlock.WithTTL(2*time.Second))
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
