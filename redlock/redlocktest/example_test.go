package redlocktest_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// The tests of this file are what a user of the library writes, with no helpers and no test
// library. The package comment and docs/testing.md quote them.

func TestWorkStopsWhenItsLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.Start(t, 5)
		locker := c.Locker(t)
		lock, err := locker.Lock(t.Context(), "orders/42")
		if err != nil {
			t.Fatal(err)
		}
		c.Expire("orders/42") // as if its time had ended
		<-lock.Done()         // at the next renewal, after a third of the TTL
		if !errors.Is(lock.Err(), redlock.ErrLost) {
			t.Fatal(lock.Err())
		}
	})
}

func TestWithoutAQuorumNothingIsLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.Start(t, 5)
		locker := c.Locker(t)
		for i := range 3 {
			c.Node(i).Stop()
		}
		if _, err := locker.TryLock(t.Context(), "orders/42"); !errors.Is(err, redlock.ErrNoQuorum) {
			t.Fatal(err)
		}
		c.Node(0).Start()
		if _, err := locker.TryLock(t.Context(), "orders/42"); err != nil {
			t.Fatal(err)
		}
	})
}
