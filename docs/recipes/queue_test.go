package recipes

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

//recipe:begin

// ship runs on every machine. Of all of them, one works on the queue, one task after the other, in
// the order in which they become due.
func ship(ctx context.Context, locker *redlock.Locker, store string, send func(context.Context, queue.Task) error) error {
	parcels, err := queue.New(locker, store, "parcels")
	if err != nil {
		return err
	}
	defer parcels.Close()
	candidate, err := election.New(locker, "parcels/worker")
	if err != nil {
		return err
	}
	return candidate.Run(ctx, func(ctx context.Context, _ int64) error {
		return parcels.Run(ctx, send, queue.WithConcurrency(1))
	})
}

//recipe:end

func Example_serializedQueue() {
	_, machine, stop := masters()
	defer stop()
	store := miniredis.NewMiniRedis() // yours is a redis-server of its own, with persistence
	if err := store.Start(); err != nil {
		panic(err)
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	shop := machine()
	parcels, err := queue.New(shop, store.Addr(), "parcels")
	if err != nil {
		panic(err)
	}
	defer parcels.Close()
	for _, id := range []string{"7", "8", "9"} {
		if err := parcels.Enqueue(ctx, []string{id}, 0); err != nil {
			panic(err)
		}
	}

	sent := make(chan string)
	ended := make(chan error)
	for range 3 {
		locker := machine()
		go func() {
			ended <- ship(ctx, locker, store.Addr(), func(_ context.Context, task queue.Task) error {
				sent <- task.ID
				return nil
			})
		}()
	}
	fmt.Println("sent:", <-sent, <-sent, <-sent)
	cancel()
	fmt.Println("ended:", <-ended, <-ended, <-ended)
	// Output:
	// sent: 7 8 9
	// ended: <nil> <nil> <nil>
}
