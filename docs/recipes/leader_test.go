package recipes

import (
	"context"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/redlock"
)

//recipe:begin

// lead campaigns until ctx ends, and runs the scheduler whenever this process is the leader.
func lead(ctx context.Context, locker *redlock.Locker, scheduler func(ctx context.Context, term int64) error) error {
	candidate, err := election.New(locker, "scheduler")
	if err != nil {
		return err
	}
	return candidate.Run(ctx, func(ctx context.Context, term int64) error {
		return scheduler(ctx, term) // ctx ends before another can lead: return then
	})
}

//recipe:end

func Example_leader() {
	_, machine, stop := masters()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	terms := make(chan int64)
	scheduler := func(ctx context.Context, term int64) error {
		terms <- term
		<-ctx.Done()
		return nil
	}
	ended := make(chan error)
	stops := make(chan context.CancelFunc, 2)
	start := func() {
		ctx, stop := context.WithCancel(ctx)
		stops <- stop
		locker := machine()
		go func() { ended <- lead(ctx, locker, scheduler) }()
	}
	start()
	first := <-terms
	start() // campaigns
	(<-stops)()
	fmt.Println("the first leader has ended:", <-ended)
	fmt.Println("the next one has a larger term:", <-terms > first)
	(<-stops)()
	fmt.Println("and has ended:", <-ended)
	// Output:
	// the first leader has ended: <nil>
	// the next one has a larger term: true
	// and has ended: <nil>
}
