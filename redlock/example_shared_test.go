package redlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/internal/proof/exampletest"
	"github.com/redquorum/redquorum/redlock"
)

func ExampleLocker_TryRLock() {
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
	one, err := locker.TryRLock(ctx, "catalog")
	fmt.Println("one reads:", err == nil && one.Shared())
	two, err := locker.TryRLock(ctx, "catalog")
	fmt.Println("another reads at the same time:", err == nil && two.Shared())

	_, err = locker.TryLock(ctx, "catalog")
	fmt.Println("a writer is told that it is taken:", errors.Is(err, redlock.ErrTaken))

	fmt.Println("released:", one.Unlock(ctx), two.Unlock(ctx))
	writer, err := locker.TryLock(ctx, "catalog")
	fmt.Println("the writer:", err == nil && !writer.Shared())
	// Output:
	// one reads: true
	// another reads at the same time: true
	// a writer is told that it is taken: true
	// released: <nil> <nil>
	// the writer: true
}

func ExampleLocker_RLock() {
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

func ExampleLock_Shared() {
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
	reader, err := locker.RLock(ctx, "catalog")
	if err != nil {
		panic(err)
	}
	fmt.Println(reader.Shared())
	writer, err := locker.Lock(ctx, "orders")
	if err != nil {
		panic(err)
	}
	fmt.Println(writer.Shared())
	// Output:
	// true
	// false
}
