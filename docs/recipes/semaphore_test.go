package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/redlock"
)

//recipe:begin

// importFile lets at most three imports run at once, on all machines together. The next one waits,
// as long as ctx allows.
func importFile(ctx context.Context, locker *redlock.Locker, load func(context.Context) error) error {
	imports, err := locker.Semaphore("imports", 3) // the same number everywhere
	if err != nil {
		return err
	}
	permit, err := imports.Acquire(ctx)
	if err != nil {
		return err
	}
	defer permit.Unlock(ctx)
	return load(permit.Context(ctx))
}

//recipe:end

func Example_limitedConcurrency() {
	_, machine, stop := masters()
	defer stop()
	ctx := context.Background()

	running, finish, ended := make(chan bool), make(chan bool), make(chan error)
	load := func(context.Context) error {
		running <- true
		<-finish
		return nil
	}
	for range 5 {
		locker := machine()
		go func() { ended <- importFile(ctx, locker, load) }()
	}
	for range 3 {
		<-running
	}
	locker := machine()
	imports, err := locker.Semaphore("imports", 3)
	if err != nil {
		panic(err)
	}
	_, err = imports.TryAcquire(ctx)
	fmt.Println("three run, and a fourth is refused:", errors.Is(err, redlock.ErrTaken))
	for range 2 {
		finish <- true
		<-running
		fmt.Println("one ends, the next begins:", <-ended)
	}
	for range 3 {
		finish <- true
		fmt.Println("one ends:", <-ended)
	}
	// Output:
	// three run, and a fourth is refused: true
	// one ends, the next begins: <nil>
	// one ends, the next begins: <nil>
	// one ends: <nil>
	// one ends: <nil>
	// one ends: <nil>
}
