package queue_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

// servers starts embedded servers, so that the examples run anywhere: three masters for the lock,
// and a store. Yours are redis://a:6379 and so on.
func servers() (masters []string, store string, stop func()) {
	var endpoints []string
	var running []*miniredis.Miniredis
	for range 4 {
		server := miniredis.NewMiniRedis()
		if err := server.Start(); err != nil {
			panic(err)
		}
		running = append(running, server)
		endpoints = append(endpoints, "redis://"+server.Addr())
	}
	return endpoints[:3], endpoints[3], func() {
		for _, server := range running {
			server.Close()
		}
	}
}

func Example() {
	masters, store, stop := servers()
	defer stop()
	locker, err := redlock.New(masters)
	if err != nil {
		panic(err)
	}
	defer locker.Close()
	mails, err := queue.New(locker, store, "mails")
	if err != nil {
		panic(err)
	}
	defer mails.Close()

	ctx := context.Background()
	must(mails.Enqueue(ctx, []string{"welcome/42"}, 0))
	must(mails.Enqueue(ctx, []string{"digest/42"}, 24*time.Hour))
	must(mails.Enqueue(ctx, []string{"digest/42"}, 48*time.Hour)) // moves the one entry

	tasks, err := mails.Pop(ctx, 10)
	must(err)
	for _, task := range tasks {
		fmt.Println("due:", task.ID)
	}
	n, err := mails.Len(ctx)
	must(err)
	fmt.Println("left:", n)
	// Output:
	// due: welcome/42
	// left: 1
}

func ExampleQueue_Run() {
	masters, store, stop := servers()
	defer stop()
	locker, err := redlock.New(masters)
	if err != nil {
		panic(err)
	}
	defer locker.Close()
	mails, err := queue.New(locker, store, "mails")
	if err != nil {
		panic(err)
	}
	defer mails.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(mails.Enqueue(ctx, []string{"second"}, 2*time.Second))
	must(mails.Enqueue(ctx, []string{"first"}, 0))

	attempts := 0
	err = mails.Run(ctx, func(_ context.Context, task queue.Task) error {
		if attempts++; attempts == 1 {
			fmt.Println(task.ID, "failed") // it is due again in 10 ms
			return fmt.Errorf("mail server away")
		}
		fmt.Println(task.ID, "sent")
		if attempts == 3 {
			cancel() // Run ends
		}
		return nil
	}, queue.WithConcurrency(1), queue.WithRetryDelay(10*time.Millisecond), queue.WithPoll(10*time.Millisecond))
	fmt.Println(err)
	// Output:
	// first failed
	// first sent
	// second sent
	// <nil>
}

func ExampleQueue_Dequeue() {
	masters, store, stop := servers()
	defer stop()
	locker, err := redlock.New(masters)
	if err != nil {
		panic(err)
	}
	defer locker.Close()
	reminders, err := queue.New(locker, store, "reminders")
	if err != nil {
		panic(err)
	}
	defer reminders.Close()

	ctx := context.Background()
	must(reminders.Enqueue(ctx, []string{"invoice/7"}, 0))
	seen, err := reminders.Top(ctx, 1)
	must(err)
	must(reminders.Enqueue(ctx, []string{"invoice/7"}, time.Hour)) // meanwhile it is postponed

	removed, err := reminders.Dequeue(ctx, seen[0].ID, seen[0].Score)
	fmt.Println("removed:", removed, err)
	// Output: removed: false <nil>
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
