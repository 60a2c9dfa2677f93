package redlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/internal/proof/exampletest"
	"github.com/redquorum/redquorum/redlock"
)

func ExampleLocker_Semaphore() {
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
