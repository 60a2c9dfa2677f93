package redlocktest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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

func TestTheSecondOneWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.Start(t, 5)
		ours, theirs := c.Locker(t), c.Locker(t) // two processes
		first, err := ours.TryLock(t.Context(), "orders/42")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := theirs.TryLock(t.Context(), "orders/42"); !errors.Is(err, redlock.ErrTaken) {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Minute) // of work
			if err := first.Unlock(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		second, err := theirs.Lock(t.Context(), "orders/42") // waits
		if err != nil {
			t.Fatal(err)
		}
		if c.Holder("orders/42") != second.Value() {
			t.Fatal("the second one does not have it")
		}
	})
}

func TestAMasterThatForgotDoesNotVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.Start(t, 3)
		locker := c.Locker(t)
		c.Node(0).Restart() // empty
		c.Node(1).Stop()
		if _, err := locker.TryLock(t.Context(), "orders/42"); !errors.Is(err, redlock.ErrNoQuorum) {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + time.Second) // until what it may have forgotten has expired
		if _, err := locker.TryLock(t.Context(), "orders/42"); err != nil {
			t.Fatal(err)
		}
	})
}
