package cron_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	redcron "github.com/redquorum/redquorum/contrib/cron"
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

	settle := func(ctx context.Context) { fmt.Println("runs with the lock held:", ctx.Err() == nil) }
	told := make(chan error, 10)
	job := redcron.Once(locker, "settle", settle,
		redcron.WithLockOptions(redlock.WithMinHold(30*time.Second)),
		redcron.WithReport(func(name string, err error) { told <- err }))

	crontab := cron.New(cron.WithSeconds())
	if _, err := crontab.AddJob("* * * * * *", job); err != nil { // every second
		panic(err)
	}
	crontab.Start()
	fmt.Println("a second later:", errors.Is(<-told, redlock.ErrTaken))
	<-crontab.Stop().Done()
	// Output:
	// runs with the lock held: true
	// a second later: true
}
