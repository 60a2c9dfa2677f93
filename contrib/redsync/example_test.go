package redsync_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/contrib/redsync" // was: github.com/go-redsync/redsync/v4
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

func Example() {
	masters, stop := redlocktest.Masters(3)
	defer stop()
	locker, err := redlock.New(masters.Endpoints())
	if err != nil {
		panic(err)
	}
	defer locker.Close()

	rs := redsync.New(locker) // was: redsync.New(pools...)

	mutex := rs.NewMutex("orders/42", redsync.WithExpiry(10*time.Second))
	if err := mutex.Lock(); err != nil {
		panic(err)
	}
	var taken *redsync.ErrTaken
	fmt.Println("taken:", errors.As(rs.NewMutex("orders/42").TryLock(), &taken))

	ok, err := mutex.Extend()
	fmt.Println("extended:", ok, err)
	ok, err = mutex.Unlock()
	fmt.Println("unlocked:", ok, err)
	ok, err = mutex.Unlock()
	fmt.Println("again:", ok, errors.Is(err, redsync.ErrLockAlreadyExpired))
	// Output:
	// taken: true
	// extended: true <nil>
	// unlocked: true <nil>
	// again: false true
}
