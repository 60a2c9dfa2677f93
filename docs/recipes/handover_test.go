package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

//recipe:begin

// task is what the web server puts into its queue of jobs.
type task struct{ Order, Lock string }

// accept runs in a web request: it answers at once if the order is being worked on, and leaves the
// work to a worker, with the lock.
func accept(ctx context.Context, locker *redlock.Locker, order string, enqueue func(task) error) error {
	lock, err := locker.TryLock(ctx, "order/"+order, redlock.WithMaxHold(time.Minute))
	if err != nil {
		return err // redlock.ErrTaken: 409 Conflict
	}
	if err := enqueue(task{order, lock.Value()}); err != nil {
		return errors.Join(err, lock.Unlock(ctx))
	}
	return nil // the lock is the worker's: do not use it any more, and do not unlock it
}

// work runs in a worker, on any machine.
func work(ctx context.Context, locker *redlock.Locker, t task, settle func(context.Context) error) error {
	lock, err := locker.Adopt(ctx, "order/"+t.Order, t.Lock)
	if err != nil {
		return err // redlock.ErrLost: it has waited for more than a minute, or was taken already
	}
	defer lock.Unlock(ctx)
	return settle(lock.Context(ctx))
}

//recipe:end

func Example_handOver() {
	_, machine, stop := masters()
	defer stop()
	ctx := context.Background()
	web, worker := machine(), machine()
	tasks := make(chan task, 1)
	enqueue := func(t task) error {
		tasks <- t
		return nil
	}

	fmt.Println("accepted:", accept(ctx, web, "42", enqueue))
	fmt.Println("again, meanwhile:", errors.Is(accept(ctx, web, "42", enqueue), redlock.ErrTaken))
	t := <-tasks
	err := work(ctx, worker, t, func(context.Context) error {
		fmt.Println("again, while a worker settles it:", errors.Is(accept(ctx, web, "42", enqueue), redlock.ErrTaken))
		return nil
	})
	fmt.Println("settled:", err)
	err = work(ctx, worker, t, func(context.Context) error { return nil })
	fmt.Println("the same task a second time:", errors.Is(err, redlock.ErrLost))
	fmt.Println("accepted:", accept(ctx, web, "42", enqueue))
	// Output:
	// accepted: <nil>
	// again, meanwhile: true
	// again, while a worker settles it: true
	// settled: <nil>
	// the same task a second time: true
	// accepted: <nil>
}
