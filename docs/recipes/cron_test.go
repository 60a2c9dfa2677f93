package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

//recipe:begin

// nightly is started on every machine, and does the job on one. It returns nil on the others.
func nightly(ctx context.Context, locker *redlock.Locker, job func(context.Context) error) error {
	lock, err := locker.TryLock(ctx, "nightly")
	if errors.Is(err, redlock.ErrTaken) {
		return nil // it runs elsewhere, or the last one has not ended yet
	}
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	return job(lock.Context(ctx)) // ends the moment the lock is no longer ours
}

//recipe:end

func Example_cronThatDoesNotOverlap() {
	_, machine, stop := masters()
	defer stop()
	ctx := context.Background()
	first, second := machine(), machine()

	err := nightly(ctx, first, func(ctx context.Context) error {
		fmt.Println("the first works")
		fmt.Println("the second is started meanwhile:", nightly(ctx, second, func(context.Context) error {
			fmt.Println("and works, too")
			return nil
		}))
		return ctx.Err()
	})
	fmt.Println("the first has done it:", err)
	// Output:
	// the first works
	// the second is started meanwhile: <nil>
	// the first has done it: <nil>
}

//recipe:begin

// minutely is started every minute on every machine, by clocks that differ by less than 5 s, and
// does the job once per minute.
func minutely(ctx context.Context, locker *redlock.Locker, job func(context.Context) error) error {
	lock, err := locker.TryLock(ctx, "minutely", redlock.WithMinHold(55*time.Second))
	if errors.Is(err, redlock.ErrTaken) {
		return nil // another machine has done it, or is at it
	}
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx) // the name stays taken for the rest of the 55 s
	return job(lock.Context(ctx))
}

//recipe:end

func Example_cronOncePerPeriod() {
	_, machine, stop := masters()
	defer stop()
	ctx := context.Background()
	job := func(name string) func(context.Context) error {
		return func(context.Context) error {
			fmt.Println(name, "works")
			return nil
		}
	}

	fmt.Println(minutely(ctx, machine(), job("the first")))
	fmt.Println(minutely(ctx, machine(), job("one whose clock is late")))
	// Output:
	// the first works
	// <nil>
	// <nil>
}
