package gocron_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	redgocron "github.com/redquorum/redquorum/contrib/gocron"
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
	if err := locker.Ready(context.Background()); err != nil {
		panic(err)
	}

	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(
		redgocron.New(locker, redlock.WithMinHold(30*time.Second))))
	if err != nil {
		panic(err)
	}
	done := make(chan struct{})
	_, err = scheduler.NewJob(
		gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
		gocron.NewTask(redgocron.Task(func(ctx context.Context) error {
			defer close(done)
			fmt.Println("runs with the lock held:", ctx.Err() == nil)
			return nil
		})),
		gocron.WithName("settle"),
	)
	if err != nil {
		panic(err)
	}
	scheduler.Start()
	<-done
	fmt.Println(scheduler.Shutdown())

	_, err = locker.TryLock(context.Background(), "settle")
	fmt.Println("again within 30 s:", err != nil)
	// Output:
	// runs with the lock held: true
	// <nil>
	// again within 30 s: true
}
