package gocron_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	redgocron "github.com/redquorum/redquorum/contrib/gocron"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/internal/proof/docs"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// patience bounds every wait for something that takes milliseconds.
const patience = 20 * time.Second

func newScheduler(t *testing.T, opts ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Shutdown()) })
	return s
}

// told collects what listeners were told.
type told struct {
	mu   sync.Mutex
	errs []error
}

func (c *told) add(_ uuid.UUID, _ string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

func (c *told) await(t *testing.T, want error) {
	t.Helper()
	cluster.Eventually(t, patience, func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, err := range c.errs {
			if errors.Is(err, want) {
				return ""
			}
		}
		return fmt.Sprintf("%v; told: %v", want, c.errs)
	})
}

// once starts a job that runs at once, and not again.
func once(t *testing.T, s gocron.Scheduler, name string, task gocron.Task, listeners ...gocron.EventListener) {
	t.Helper()
	_, err := s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), task,
		gocron.WithName(name), gocron.WithEventListeners(listeners...))
	require.NoError(t, err)
	s.Start()
}

func TestAJobRunsOnOneSchedulerAtATimeWhileAMasterIsKilled(t *testing.T) {
	cluster.RequireOneAtATime(t, 4, 40, func(locker *redlock.Locker, run func(context.Context)) {
		s := newScheduler(t, gocron.WithDistributedLocker(redgocron.New(locker)))
		_, err := s.NewJob(gocron.DurationJob(5*time.Millisecond), gocron.NewTask(redgocron.Task(func(ctx context.Context) error {
			run(ctx)
			return nil
		})), gocron.WithName("settle"))
		require.NoError(t, err)
		s.Start()
	})
}

func TestAShortJobRunsOnceOnSchedulersWhoseClocksDiffer(t *testing.T) {
	c := cluster.Start(t, 3)
	for _, opts := range [][]redlock.LockOption{nil, {redlock.WithMinHold(time.Minute)}} {
		name := fmt.Sprintf("job with %d options", len(opts))
		var mu sync.Mutex
		ran := 0
		var lock, done told
		for range 2 { // the second one's time comes when the first one's run is over
			locker := cluster.NewConnected(t, c.URLs())
			s := newScheduler(t, gocron.WithDistributedLocker(redgocron.New(locker, opts...)))
			once(t, s, name, gocron.NewTask(redgocron.Task(func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				ran++
				return nil
			})), gocron.AfterLockError(func(id uuid.UUID, name string, err error) {
				lock.add(id, name, err)
				done.add(id, name, context.Canceled)
			}), gocron.AfterJobRuns(func(id uuid.UUID, name string) { done.add(id, name, context.Canceled) }))
			done.await(t, context.Canceled)
			done = told{}
			require.NoError(t, s.Shutdown())
		}
		if opts == nil {
			assert.Equal(t, 2, ran, "without a minimum hold")
			continue
		}
		assert.Equal(t, 1, ran, "with a minimum hold")
		lock.await(t, redlock.ErrTaken)
	}
}

func TestATaskThatLosesItsLockEndsAndIsReportedAsFailed(t *testing.T) {
	c := cluster.Start(t, 3)
	locker := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(time.Second), redlock.WithNodeTimeout(500*time.Millisecond))
	var failed, succeeded, lock told
	s := newScheduler(t, gocron.WithDistributedLocker(redgocron.New(locker)))
	running, ended := make(chan struct{}), make(chan struct{})
	go func() {
		<-running
		assert.NoError(t, admin.Of(locker).ForceUnlock(context.Background(), "settle"))
	}()
	var cause error
	id := uuid.New()
	_, err := s.NewJob(gocron.DurationJob(50*time.Millisecond), gocron.NewTask(redgocron.Task(func(ctx context.Context) error {
		close(running)
		<-ctx.Done()
		cause = context.Cause(ctx)
		lock.await(t, redgocron.ErrRunning) // the lock is free, but this run goes on
		close(ended)
		return nil
	})), gocron.WithName("settle"), gocron.WithLimitedRuns(1_000), gocron.WithIdentifier(id), gocron.WithEventListeners(
		gocron.AfterLockError(lock.add),
		gocron.AfterJobRunsWithError(func(id uuid.UUID, name string, err error) {
			assert.NoError(t, s.RemoveJob(id))
			failed.add(id, name, err)
		}),
		gocron.AfterJobRuns(func(id uuid.UUID, name string) { succeeded.add(id, name, nil) })))
	require.NoError(t, err)
	s.Start()
	<-ended
	failed.await(t, redlock.ErrLost)
	assert.ErrorIs(t, cause, redlock.ErrLost)
	assert.Empty(t, succeeded.errs)
}

func TestATaskThatEndsBeforeItLearnsOfItsLossIsReportedAsFailed(t *testing.T) {
	c := cluster.Start(t, 3)
	locker := cluster.NewConnected(t, c.URLs())
	var failed told
	s := newScheduler(t, gocron.WithDistributedLocker(redgocron.New(locker)))
	once(t, s, "settle", gocron.NewTask(redgocron.Task(func(ctx context.Context) error {
		return admin.Of(locker).ForceUnlock(ctx, "settle") // renewal would notice seconds later
	})), gocron.AfterJobRunsWithError(failed.add))
	failed.await(t, redlock.ErrLost)
}

func TestAJobDoesNotRunWithoutAQuorumAndItsListenerIsTold(t *testing.T) {
	c := cluster.Start(t, 3)
	locker := cluster.NewConnected(t, c.URLs())
	require.NoError(t, c.Masters[0].Kill())
	require.NoError(t, c.Masters[1].Kill())
	var lock told
	s := newScheduler(t, gocron.WithDistributedLocker(redgocron.New(locker)))
	once(t, s, "settle", gocron.NewTask(func() { t.Error("the job ran") }), gocron.AfterLockError(lock.add))
	lock.await(t, redlock.ErrNoQuorum)
}

func TestAJobThatPanicsReleasesItsLock(t *testing.T) {
	c := cluster.Start(t, 3)
	locker := cluster.NewConnected(t, c.URLs())
	var failed told
	s := newScheduler(t, gocron.WithDistributedLocker(redgocron.New(locker)))
	once(t, s, "settle", gocron.NewTask(redgocron.Task(func(context.Context) error { panic("no") })),
		gocron.AfterJobRunsWithPanic(func(uuid.UUID, string, any) {}), gocron.AfterJobRunsWithError(failed.add))
	failed.await(t, gocron.ErrPanicRecovered)
	cluster.RequireClean(t, c.Masters...)
}

func TestALockIsReleasedAlthoughTheJobsContextHasEnded(t *testing.T) {
	c := cluster.Start(t, 3)
	locker := cluster.NewConnected(t, c.URLs())
	s := newScheduler(t, gocron.WithDistributedLocker(redgocron.New(locker)))
	running := make(chan struct{})
	once(t, s, "settle", gocron.NewTask(redgocron.Task(func(ctx context.Context) error {
		close(running)
		<-ctx.Done()
		return ctx.Err()
	})))
	<-running
	require.NoError(t, s.StopJobs())
	cluster.RequireClean(t, c.Masters...)
}

func TestATaskNeedsANameAndALock(t *testing.T) {
	c := cluster.Start(t, 1)
	locker := cluster.NewConnected(t, c.URLs())
	var lock, failed told
	task := gocron.NewTask(redgocron.Task(func(context.Context) error {
		t.Error("the job ran")
		return nil
	}))

	s := newScheduler(t, gocron.WithDistributedLocker(redgocron.New(locker)))
	_, err := s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), task,
		gocron.WithEventListeners(gocron.AfterLockError(lock.add)))
	require.NoError(t, err)
	s.Start()
	lock.await(t, redgocron.ErrUnnamed)

	once(t, newScheduler(t), "settle", task, gocron.AfterJobRunsWithError(failed.add))
	failed.await(t, redgocron.ErrNoLock)
}

func TestBadArgumentsAreToldToTheListener(t *testing.T) {
	c := cluster.Start(t, 1)
	for _, locker := range []gocron.Locker{
		redgocron.New(nil),
		redgocron.New(cluster.NewConnected(t, c.URLs()), redlock.WithTTL(time.Hour)),
	} {
		var lock told
		once(t, newScheduler(t, gocron.WithDistributedLocker(locker)), "settle",
			gocron.NewTask(func() { t.Error("the job ran") }), gocron.AfterLockError(lock.add))
		lock.await(t, redlock.ErrInvalid)
	}
}

func TestJobsRunOnlyWhereTheElectionLeads(t *testing.T) {
	c := cluster.Start(t, 3)
	locker := cluster.NewConnected(t, c.URLs())
	ctx, cancel := context.WithCancel(t.Context())
	var candidates []*election.Election
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	ran := make(chan int, 1_000)
	for i := range 3 {
		candidate, err := election.New(locker, "scheduler")
		require.NoError(t, err)
		candidates = append(candidates, candidate)
		running.Go(func() {
			assert.NoError(t, candidate.Run(ctx, func(ctx context.Context, _ int64) error {
				<-ctx.Done()
				return ctx.Err()
			}))
		})
		s := newScheduler(t, gocron.WithDistributedElector(redgocron.NewElector(candidate)))
		_, err = s.NewJob(gocron.DurationJob(5*time.Millisecond), gocron.NewTask(func() {
			select {
			case ran <- i:
			default:
			}
		}))
		require.NoError(t, err)
		s.Start()
	}
	first := <-ran
	for range 20 {
		assert.Equal(t, first, <-ran)
	}
	require.NoError(t, candidates[first].Resign(ctx))
	deadline := time.After(patience)
	for next := first; next == first; {
		select {
		case next = <-ran:
		case <-deadline:
			t.Fatal("no other scheduler runs the job")
		}
	}
	assert.ErrorIs(t, redgocron.NewElector(nil).IsLeader(ctx), redgocron.ErrNotLeader)
	cancel()
	assert.ErrorIs(t, redgocron.NewElector(candidates[0]).IsLeader(ctx), context.Canceled)
}

func TestTheCodeOfTheReadmeCompiles(t *testing.T) {
	docs.RequireReadme(t, 1, `
		var locker *redlock.Locker
		func settle(context.Context) error
		func report(uuid.UUID, string, error)`,
		"context", "time", "github.com/go-co-op/gocron/v2", "github.com/google/uuid",
		"redgocron=github.com/redquorum/redquorum/contrib/gocron")
}
