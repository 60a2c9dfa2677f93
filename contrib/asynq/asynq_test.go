package asynq_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	redasynq "github.com/redquorum/redquorum/contrib/asynq"
	"github.com/redquorum/redquorum/internal/proof/docs"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// patience bounds every wait for something that takes milliseconds.
const patience = 60 * time.Second

var errHandler = errors.New("the handler's error")

func byPayload(task *asynq.Task) string { return string(task.Payload()) }

// serve starts a server whose tasks go through the middleware.
func serve(t *testing.T, store asynq.RedisConnOpt, middleware asynq.MiddlewareFunc, handler asynq.HandlerFunc) {
	t.Helper()
	server := asynq.NewServer(store, asynq.Config{
		Concurrency: 4, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: 5 * time.Millisecond, DelayedTaskCheckInterval: 5 * time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
		IsFailure:      func(err error) bool { return !errors.Is(err, redlock.ErrTaken) },
	})
	mux := asynq.NewServeMux()
	mux.Use(middleware)
	mux.HandleFunc("mail", handler)
	require.NoError(t, server.Start(mux))
	t.Cleanup(server.Shutdown)
}

// enqueue adds a task, and returns what adds another.
func enqueue(t *testing.T, store asynq.RedisConnOpt) (another func()) {
	t.Helper()
	client := asynq.NewClient(store)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	another = func() {
		_, err := client.Enqueue(asynq.NewTask("mail", []byte("orders")))
		assert.NoError(t, err)
	}
	another()
	return another
}

func TestTasksOfOneKeyAreProcessedOneAtATimeWhileAMasterIsKilled(t *testing.T) {
	store := asynq.RedisClientOpt{Addr: redistest.StartOne(t).Addr()}
	another := enqueue(t, store)
	for range 5 { // so that there are always some to choose from
		another()
	}
	var processed sync.Map
	cluster.RequireOneAtATime(t, 3, 15, func(locker *redlock.Locker, run func(context.Context)) {
		serve(t, store, redasynq.Unique(locker, byPayload), func(ctx context.Context, task *asynq.Task) error {
			run(ctx)
			_, before := processed.LoadOrStore(task.ResultWriter().TaskID(), true)
			assert.False(t, before, "a task was processed twice")
			another()
			return nil
		})
	})
}

func TestATaskThatLosesItsLockIsProcessedAgain(t *testing.T) {
	c := cluster.Start(t, 3)
	store := asynq.RedisClientOpt{Addr: redistest.StartOne(t).Addr()}
	locker := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(time.Second), redlock.WithNodeTimeout(500*time.Millisecond))
	var attempts atomic.Int32
	again := make(chan struct{})
	serve(t, store, redasynq.Unique(locker, byPayload), func(ctx context.Context, _ *asynq.Task) error {
		if attempts.Add(1) == 1 {
			assert.NoError(t, admin.Of(locker).ForceUnlock(ctx, "orders"))
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
			return nil
		}
		close(again)
		return nil
	})
	enqueue(t, store)
	select {
	case <-again:
	case <-time.After(patience):
		t.Fatal("the task was taken for done")
	}
}

// asynq archives a task whose last attempt has failed. So that attempt waits, also while no quorum
// answers, until the deadline of the task.
func TestTheLastAttemptWaitsForTheLock(t *testing.T) {
	for name, c := range map[string]struct {
		failures int // of the handler, before the attempt that finds the lock taken
		noQuorum bool
		expires  bool // the deadline, before the lock is free
	}{
		"the only attempt":    {},
		"after real failures": {failures: 2},
		"without a quorum":    {noQuorum: true},
		"until its deadline":  {expires: true},
	} {
		t.Run(name, func(t *testing.T) { requireLastAttemptWaits(t, c.failures, c.noQuorum, c.expires) })
	}
}

func requireLastAttemptWaits(t *testing.T, failures int, noQuorum, expires bool) {
	t.Helper()
	c := cluster.Start(t, 3)
	store := asynq.RedisClientOpt{Addr: redistest.StartOne(t).Addr()}
	waits, ended := make(chan struct{}, 1), make(chan error, 1)
	locker := cluster.NewConnected(t, c.URLs(), redlock.WithHooks(redlock.Hooks{Waiting: func(string) { waits <- struct{}{} }}))
	other := cluster.NewConnected(t, c.URLs())
	take := func() *redlock.Lock {
		lock, err := other.TryLock(t.Context(), "orders")
		assert.NoError(t, err)
		return lock
	}
	var theirs *redlock.Lock
	if failures == 0 && !noQuorum {
		theirs = take()
	}
	if noQuorum {
		require.NoError(t, c.Masters[0].Stop())
		require.NoError(t, c.Masters[1].Stop())
	}
	unique := redasynq.Unique(locker, byPayload)
	last := func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			retried, _ := asynq.GetRetryCount(ctx)
			if retried == failures && failures > 0 {
				theirs = take()
			}
			err := unique(next).ProcessTask(ctx, task)
			if retried == failures {
				ended <- err
			}
			return err
		})
	}
	serve(t, store, last, func(ctx context.Context, _ *asynq.Task) error {
		if retried, _ := asynq.GetRetryCount(ctx); retried < failures {
			return errHandler
		}
		return nil
	})
	client := asynq.NewClient(store)
	defer client.Close()
	timeout := asynq.Timeout(patience)
	if expires {
		timeout = asynq.Timeout(time.Second)
	}
	_, err := client.Enqueue(asynq.NewTask("mail", []byte("orders")), asynq.MaxRetry(failures), timeout)
	require.NoError(t, err)
	select {
	case <-waits:
	case err := <-ended:
		t.Fatal("did not wait, and is archived: ", err)
	}
	switch {
	case expires:
		err := <-ended
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrTaken)
		return
	case noQuorum:
		require.NoError(t, c.Masters[0].Continue())
		require.NoError(t, c.Masters[1].Continue())
	default:
		require.NoError(t, theirs.Unlock(t.Context()))
	}
	require.NoError(t, <-ended)
}

// process runs a handler behind the middleware, without asynq.
func process(middleware asynq.MiddlewareFunc, handler asynq.HandlerFunc) error {
	return middleware(handler).ProcessTask(context.Background(), asynq.NewTask("mail", []byte("orders")))
}

func TestTheErrorTellsOfTheHandlerAndOfTheLock(t *testing.T) {
	c := cluster.Start(t, 3)
	locker := cluster.NewConnected(t, c.URLs())
	unique := redasynq.Unique(locker, byPayload)

	require.NoError(t, process(unique, func(context.Context, *asynq.Task) error { return nil }))
	require.ErrorIs(t, process(unique, func(context.Context, *asynq.Task) error { return errHandler }), errHandler)
	require.NoError(t, process(unique, func(context.Context, *asynq.Task) error {
		assert.ErrorIs(t, process(unique, func(context.Context, *asynq.Task) error {
			t.Error("processed twice at the same time")
			return nil
		}), redlock.ErrTaken)
		return nil
	}))
	err := process(unique, func(ctx context.Context, _ *asynq.Task) error {
		assert.NoError(t, admin.Of(locker).ForceUnlock(ctx, "orders"))
		return errHandler
	})
	require.ErrorIs(t, err, errHandler)
	require.ErrorIs(t, err, redlock.ErrLost)
}

func TestATaskThatWasProcessedIsNotProcessedAgainBecauseItsReleaseFailed(t *testing.T) {
	c := cluster.Start(t, 3)
	locker := cluster.NewConnected(t, c.URLs())
	require.NoError(t, process(redasynq.Unique(locker, byPayload), func(context.Context, *asynq.Task) error {
		assert.NoError(t, c.Masters[0].Kill())
		assert.NoError(t, c.Masters[1].Kill())
		return nil
	}))
}

func TestATaskIsNotProcessedWithoutAQuorum(t *testing.T) {
	c := cluster.Start(t, 3)
	locker := cluster.NewConnected(t, c.URLs())
	require.NoError(t, c.Masters[0].Kill())
	require.NoError(t, c.Masters[1].Kill())
	require.ErrorIs(t, process(redasynq.Unique(locker, byPayload), func(context.Context, *asynq.Task) error {
		t.Error("processed")
		return nil
	}), redlock.ErrNoQuorum)
}

func TestAHandlerThatPanicsReleasesItsLock(t *testing.T) {
	c := cluster.Start(t, 3)
	locker := cluster.NewConnected(t, c.URLs())
	assert.PanicsWithValue(t, "no", func() {
		err := process(redasynq.Unique(locker, byPayload), func(context.Context, *asynq.Task) error { panic("no") })
		t.Error(err)
	})
	cluster.RequireClean(t, c.Masters...)
}

func TestWithAMinimumHoldADuplicateIsNotProcessedSoonAfter(t *testing.T) {
	c := cluster.Start(t, 3)
	locker := cluster.NewConnected(t, c.URLs())
	unique := redasynq.Unique(locker, byPayload, redlock.WithMinHold(time.Minute))
	processed := 0
	handler := func(context.Context, *asynq.Task) error { processed++; return nil }
	require.NoError(t, process(unique, handler))
	require.ErrorIs(t, process(unique, handler), redlock.ErrTaken)
	assert.Equal(t, 1, processed)
}

func TestBadArgumentsAreErrorsOfTheTask(t *testing.T) {
	c := cluster.Start(t, 1)
	locker := cluster.NewConnected(t, c.URLs())
	for _, middleware := range []asynq.MiddlewareFunc{
		redasynq.Unique(nil, byPayload),
		redasynq.Unique(locker, nil),
		redasynq.Unique(locker, func(*asynq.Task) string { return "" }),
		redasynq.Unique(locker, byPayload, redlock.WithTTL(time.Hour)),
	} {
		require.ErrorIs(t, process(middleware, func(context.Context, *asynq.Task) error {
			t.Error("processed")
			return nil
		}), redlock.ErrInvalid)
	}
}

func TestTheCodeOfTheReadmeCompiles(t *testing.T) {
	docs.RequireReadme(t, 2, "var locker *redlock.Locker",
		"context", "errors", "github.com/hibiken/asynq", "redasynq=github.com/redquorum/redquorum/contrib/asynq")
}
