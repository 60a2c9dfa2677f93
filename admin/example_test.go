package admin_test

import (
	"context"
	"fmt"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// An operator finds out who holds a lock, and takes it away from that holder only.
func Example() {
	masters, stop := redlocktest.Masters(3) // your own masters: redis://a:6379 and so on
	defer stop()
	ctx := context.Background()
	locker, err := redlock.New(masters.Endpoints(), redlock.WithOwner("worker 7"))
	if err != nil {
		panic(err)
	}
	defer locker.Close()
	if _, err := locker.TryLock(ctx, "orders/42"); err != nil {
		panic(err)
	}

	operator, err := admin.New(masters.Endpoints())
	if err != nil {
		panic(err)
	}
	defer operator.Close()
	status, err := operator.Inspect(ctx, "orders/42")
	if err != nil {
		panic(err)
	}
	fmt.Println("held by", status.Owner)
	if err := operator.Because("worker 7 is gone").ForceUnlock(ctx, "orders/42", status.Value); err != nil {
		panic(err)
	}
	status, err = operator.Inspect(ctx, "orders/42")
	fmt.Println("free:", status.Free, err)
	// Output:
	// held by worker 7
	// free: true <nil>
}
