package asynq_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"

	redasynq "github.com/redquorum/redquorum/contrib/asynq"
	"github.com/redquorum/redquorum/redlock"
)

func Example() {
	var endpoints []string // yours are redis://a:6379 and so on
	for range 3 {
		server := miniredis.NewMiniRedis()
		if err := server.Start(); err != nil {
			panic(err)
		}
		defer server.Close()
		endpoints = append(endpoints, "redis://"+server.Addr())
	}
	locker, err := redlock.New(endpoints)
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
