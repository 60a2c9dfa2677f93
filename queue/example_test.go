package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// servers starts embedded servers, so that the examples run anywhere: three masters for the lock,
// and a store. Yours are redis://a:6379 and so on.
func servers() (masters []string, store string, stop func()) {
	all, stop := redlocktest.Masters(4)
	endpoints := all.Endpoints()
	return endpoints[:3], endpoints[3], stop
}

// open returns a queue as Example does.
func open(name string) (q *queue.Queue, stop func()) {
	masters, store, end := servers()
	locker, err := redlock.New(masters)
	must(err)
	q, err = queue.New(locker, store, name)
	must(err)
	return q, func() {
		must(errors.Join(q.Close(), locker.Close()))
		end()
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
	mails, stop := open("mails")
	defer stop()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(mails.Enqueue(ctx, []string{"second"}, 2*time.Second))
	must(mails.Enqueue(ctx, []string{"first"}, 0))

	attempts := 0
	err := mails.Run(ctx, func(_ context.Context, task queue.Task) error {
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

func ExampleQueue_Dead() {
	orders, stop := open("orders")
	defer stop()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(orders.Add(ctx, []queue.Item{{ID: "4711", Payload: []byte("cancel if unpaid")}}, 0))
	err := orders.Run(ctx, func(_ context.Context, task queue.Task) error {
		fmt.Printf("attempt %d to %s\n", task.Attempt, task.Payload)
		return errors.New("the shop is closed")
	}, queue.WithMaxAttempts(2), queue.WithBackoff(time.Millisecond, time.Second), queue.WithFailed(func(err *queue.TaskError) {
		if err.Dead {
			cancel() // Run ends
		}
	}))
	must(err)

	ctx = context.Background()
	letters, err := orders.Dead(ctx, 10)
	must(err)
	for _, letter := range letters {
		fmt.Printf("%s is dead after %d attempts: %s\n", letter.ID, letter.Attempts, letter.Errors[0].Text)
	}
	n, err := orders.Retry(ctx, "4711")
	fmt.Println("put back:", n, err)
	// Output:
	// attempt 1 to cancel if unpaid
	// attempt 2 to cancel if unpaid
	// 4711 is dead after 2 attempts: the shop is closed
	// put back: 1 <nil>
}

func ExampleQueue_Dequeue() {
	reminders, stop := open("reminders")
	defer stop()

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
