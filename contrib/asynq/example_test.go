package asynq_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"

	redasynq "github.com/redquorum/redquorum/contrib/asynq"
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

	mux := asynq.NewServeMux() // for asynq.Server.Run
	mux.Use(redasynq.Unique(locker, func(task *asynq.Task) string {
		return task.Type() + "/" + string(task.Payload())
	}))
	task := asynq.NewTask("settle", []byte("42"))
	mux.HandleFunc("settle", func(ctx context.Context, task *asynq.Task) error {
		fmt.Println("settles", string(task.Payload()))
		err := mux.ProcessTask(context.Background(), task) // as another server would now
		fmt.Println("elsewhere it is taken:", errors.Is(err, redlock.ErrTaken))
		return nil
	})
	fmt.Println(mux.ProcessTask(context.Background(), task))
	// Output:
	// settles 42
	// elsewhere it is taken: true
	// <nil>
}
