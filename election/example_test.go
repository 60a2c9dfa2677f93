package election_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/election"
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
	scheduler, err := election.New(locker, "scheduler", election.WithID("host-1"))
	if err != nil {
		panic(err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // yours: until SIGTERM
	defer cancel()
	err = scheduler.Run(ctx, func(ctx context.Context, term int64) error {
		leader, err := scheduler.Leader(ctx)
		if err != nil {
			return err
		}
		fmt.Println(leader.ID, "leads:", scheduler.IsLeader(), leader.Term == term)
		// Work here until ctx ends. Returning earlier ends Run.
		return nil
	})
	fmt.Println(err, scheduler.IsLeader())
	// Output:
	// host-1 leads: true true
	// <nil> false
}

func ExampleElection_Watch() {
	masters, stop := redlocktest.Masters(3)
	defer stop()
	locker, err := redlock.New(masters.Endpoints())
	if err != nil {
		panic(err)
	}
	defer locker.Close()
	scheduler, err := election.New(locker, "scheduler", election.WithID("host-1"))
	if err != nil {
		panic(err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	running := make(chan error)
	go func() {
		running <- scheduler.Run(ctx, func(ctx context.Context, _ int64) error {
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	for leader := range scheduler.Watch(ctx) {
		if leader.Term != 0 { // 0: nobody leads
			fmt.Println(leader.ID, "leads")
			break
		}
	}
	cancel()
	fmt.Println(<-running)
	// Output:
	// host-1 leads
	// <nil>
}
