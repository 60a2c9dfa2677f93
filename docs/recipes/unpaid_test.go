package recipes

import (
	"context"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

//recipe:begin

// placed is called with each order: half an hour later somebody looks whether it was paid.
func placed(ctx context.Context, orders *queue.Queue, id string) error {
	return orders.Enqueue(ctx, []string{id}, 30*time.Minute)
}

// cancelUnpaid runs on every machine, until ctx ends. An order that cannot be cancelled is tried
// again, after pauses that grow, and kept as a dead letter in the end.
func cancelUnpaid(ctx context.Context, orders *queue.Queue, cancel func(ctx context.Context, id string) error) error {
	return orders.Run(ctx, func(ctx context.Context, task queue.Task) error {
		return cancel(ctx, task.ID) // UPDATE … SET state = 'cancelled' WHERE id = $1 AND state = 'unpaid'
	}, queue.WithMaxAttempts(10), queue.WithBackoff(10*time.Second, time.Hour))
}

//recipe:end

func Example_unpaidOrders() {
	_, machine, stop := masters()
	defer stop()
	store, end := redlocktest.Masters(1) // yours is a redis-server of its own, with persistence
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	states := map[string]string{"1": "unpaid", "2": "paid", "3": "unpaid"}
	one := make(chan bool, 1) // guards states, as a database does a row
	looked, ended := make(chan string, len(states)), make(chan error)
	settle := func(_ context.Context, id string) error {
		one <- true
		defer func() { <-one }()
		if states[id] == "unpaid" {
			states[id] = "cancelled"
		}
		looked <- id
		return nil
	}
	var orders *queue.Queue
	for range 2 {
		var err error
		if orders, err = queue.New(machine(), store.Endpoints()[0], "orders"); err != nil {
			panic(err)
		}
		defer orders.Close()
		of := orders
		go func() { ended <- cancelUnpaid(ctx, of, settle) }()
	}
	for _, id := range []string{"1", "2", "3"} {
		if err := placed(ctx, orders, id); err != nil {
			panic(err)
		}
	}
	if err := orders.Enqueue(ctx, []string{"1", "2", "3"}, 0); err != nil { // as if half an hour had passed
		panic(err)
	}
	for range 3 {
		<-looked
	}
	cancel()
	fmt.Println("ended:", <-ended, <-ended)
	fmt.Println(states)
	// Output:
	// ended: <nil> <nil>
	// map[1:cancelled 2:paid 3:cancelled]
}
