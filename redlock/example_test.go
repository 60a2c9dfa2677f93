package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

func Example() {
	masters, stop := redlocktest.Masters(5)
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

// newLocker returns a Locker of three masters that vote, and a function that ends them all.
func newLocker() (locker *redlock.Locker, ctx context.Context, end func()) {
	masters, stop := redlocktest.Masters(3)
	locker, err := redlock.New(masters.Endpoints())
	if err != nil {
		panic(err)
	}
	ctx = context.Background()
	if err := locker.Ready(ctx); err != nil {
		panic(err)
	}
	return locker, ctx, func() {
		_ = locker.Close()
		stop()
	}
}

func ExampleLocker_TryLock() {
	masters, stop := redlocktest.Masters(3)
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
	masters, stop := redlocktest.Masters(3)
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
		fmt.Println("too many failed:", len(quorum.Nodes) > 3-quorum.Need) // each with its endpoint and why
	}
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum))
	// Output:
	// a quorum needs 2
	// too many failed: true
	// true
}

func ExampleLock_Extend() {
	locker, ctx, end := newLocker()
	defer end()
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
	locker, ctx, end := newLocker()
	defer end()
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
	masters, stop := redlocktest.Masters(3)
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

func ExampleLocker_Semaphore() {
	locker, ctx, end := newLocker()
	defer end()
	imports, err := locker.Semaphore("imports", 2)
	if err != nil {
		panic(err)
	}
	var permits []*redlock.Lock
	for range 2 {
		permit, err := imports.Acquire(ctx) // waits; ctx bounds the wait only
		if err != nil {
			panic(err)
		}
		permits = append(permits, permit)
	}
	_, err = imports.TryAcquire(ctx)
	fmt.Println("a third at the same time:", !errors.Is(err, redlock.ErrTaken))

	fmt.Println("given back:", permits[0].Unlock(ctx) == nil)
	permit, err := imports.Acquire(ctx)
	fmt.Println("the next one:", err == nil && permit.Name() == permits[0].Name())
	// Output:
	// a third at the same time: false
	// given back: true
	// the next one: true
}

func ExampleLocker_LockAny() {
	locker, ctx, end := newLocker()
	defer end()
	printers := []string{"printer/1", "printer/2"}
	for range printers {
		lock, err := locker.LockAny(ctx, printers)
		if err != nil {
			panic(err)
		}
		defer lock.Unlock(ctx)
		fmt.Println("printing on", lock.Name())
	}
	// Output:
	// printing on printer/1
	// printing on printer/2
}

func ExampleLocker_TryRLock() {
	locker, ctx, end := newLocker()
	defer end()
	one, err := locker.TryRLock(ctx, "catalog")
	fmt.Println("one reads:", err == nil)
	two, err := locker.TryRLock(ctx, "catalog")
	fmt.Println("another reads at the same time:", err == nil)

	_, err = locker.TryLock(ctx, "catalog")
	fmt.Println("a writer is told that it is taken:", errors.Is(err, redlock.ErrTaken))

	fmt.Println("released:", one.Unlock(ctx), two.Unlock(ctx))
	_, err = locker.TryLock(ctx, "catalog")
	fmt.Println("the writer:", err == nil)
	// Output:
	// one reads: true
	// another reads at the same time: true
	// a writer is told that it is taken: true
	// released: <nil> <nil>
	// the writer: true
}

func ExampleLocker_RLock() {
	locker, ctx, end := newLocker()
	defer end()
	writer, err := locker.Lock(ctx, "catalog", redlock.WithFencing())
	if err != nil {
		panic(err)
	}
	read := make(chan *redlock.Lock)
	for range 2 {
		go func() {
			// Waits; ctx bounds the wait only.
			lock, err := locker.RLock(ctx, "catalog", redlock.WithFencing())
			if err != nil {
				panic(err)
			}
			read <- lock
		}()
	}
	fmt.Println("the writer is done:", writer.Unlock(ctx) == nil)
	one, two := <-read, <-read
	fmt.Println("both read:", one.Err() == nil && two.Err() == nil)
	fmt.Println("they know what it wrote:", one.Fence() >= writer.Fence() && two.Fence() >= writer.Fence())
	// Output:
	// the writer is done: true
	// both read: true
	// they know what it wrote: true
}
