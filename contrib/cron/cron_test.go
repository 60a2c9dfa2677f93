package cron_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	redcron "github.com/redquorum/redquorum/contrib/cron"
	"github.com/redquorum/redquorum/internal/proof/docs"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// often is a schedule that is always due.
type often struct{}

func (often) Next(now time.Time) time.Time { return now.Add(5 * time.Millisecond) }

func start(t *testing.T, job cron.Job) {
	t.Helper()
	crontab := cron.New()
	crontab.Schedule(often{}, job)
	crontab.Start()
	t.Cleanup(func() { <-crontab.Stop().Done() })
}

// reports collects what WithReport tells.
type reports struct {
	mu   sync.Mutex
	errs []error
}

func (r *reports) option() redcron.Option {
	return redcron.WithReport(func(_ string, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.errs = append(r.errs, err)
	})
}

// require requires exactly one report, which matches all of want.
func (r *reports) require(t *testing.T, want ...error) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Len(t, r.errs, 1)
	for _, err := range want {
		assert.ErrorIs(t, r.errs[0], err)
	}
}

func TestAJobRunsOnOneSchedulerAtATimeWhileAMasterIsKilled(t *testing.T) {
	for kind, make := range map[string]func(l *redlock.Locker, run func(context.Context), report redcron.Option) cron.Job{
		"once": func(l *redlock.Locker, run func(context.Context), report redcron.Option) cron.Job {
			return redcron.Once(l, "settle", run, report)
		},
		"skip": func(l *redlock.Locker, run func(context.Context), report redcron.Option) cron.Job {
			return redcron.Skip(l, "settle", report)(cron.FuncJob(func() { run(t.Context()) }))
		},
		"wait": func(l *redlock.Locker, run func(context.Context), report redcron.Option) cron.Job {
			// The job is always due: its waits would pile up.
			still := cron.SkipIfStillRunning(cron.DiscardLogger)
			return cron.NewChain(still, redcron.Wait(l, "settle", report)).Then(cron.FuncJob(func() { run(t.Context()) }))
		},
	} {
		t.Run(kind, func(t *testing.T) {
			report := redcron.WithReport(func(_ string, err error) {
				assert.NotErrorIs(t, err, redlock.ErrLost, "what runs has the lock")
			})
			cluster.RequireOneAtATime(t, 4, 40, func(locker *redlock.Locker, run func(context.Context)) {
				start(t, make(locker, run, report))
			})
		})
	}
}

func TestAShortJobRunsOnceOnMachinesWhoseClocksDiffer(t *testing.T) {
	c := cluster.Start(t, 3)
	for _, opts := range [][]redlock.LockOption{nil, {redlock.WithMinHold(time.Minute)}} {
		ran := 0
		var told reports
		for range 2 { // the second one's time comes when the first one's run is over
			redcron.Once(cluster.NewConnected(t, c.URLs()), fmt.Sprint(opts == nil), func(context.Context) { ran++ },
				redcron.WithLockOptions(opts...), told.option()).Run()
		}
		if opts == nil {
			assert.Equal(t, 2, ran, "without a minimum hold")
			continue
		}
		assert.Equal(t, 1, ran, "with a minimum hold")
		told.require(t, redcron.ErrNotRun, redlock.ErrTaken)
	}
}

func TestAJobThatLosesItsLockEndsAndIsReported(t *testing.T) {
	c := cluster.Start(t, 3)
	locker := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(time.Second), redlock.WithNodeTimeout(500*time.Millisecond))
	var told reports
	redcron.Once(locker, "settle", func(ctx context.Context) {
		assert.NoError(t, admin.Of(locker).ForceUnlock(ctx, "settle"))
		<-ctx.Done()
		assert.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
	}, told.option()).Run()
	told.require(t, redlock.ErrLost)
	assert.NotErrorIs(t, told.errs[0], redcron.ErrNotRun)

	// A wrapped job is not told, but its lock's loss is reported.
	told = reports{}
	redcron.Skip(locker, "settle", told.option())(cron.FuncJob(func() {
		assert.NoError(t, admin.Of(locker).ForceUnlock(t.Context(), "settle"))
	})).Run()
	told.require(t, redlock.ErrLost)
}

func TestAJobDoesNotRunWithoutAQuorum(t *testing.T) {
	c := cluster.Start(t, 3)
	locker := cluster.NewConnected(t, c.URLs())
	require.NoError(t, c.Masters[0].Kill())
	require.NoError(t, c.Masters[1].Kill())
	run := func(context.Context) { t.Error("the job ran") }

	var once reports
	redcron.Once(locker, "settle", run, once.option()).Run()
	once.require(t, redcron.ErrNotRun, redlock.ErrNoQuorum)

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var wait reports
	redcron.Wait(locker, "settle", redcron.WithContext(ctx), wait.option())(cron.FuncJob(func() { run(ctx) })).Run()
	wait.require(t, redcron.ErrNotRun, redlock.ErrNoQuorum, context.DeadlineExceeded)
}

func TestAJobThatPanicsReleasesItsLock(t *testing.T) {
	c := cluster.Start(t, 3)
	locker := cluster.NewConnected(t, c.URLs())
	job := redcron.Once(locker, "settle", func(context.Context) { panic("no") })
	assert.PanicsWithValue(t, "no", job.Run)
	cluster.RequireClean(t, c.Masters...)
}

func TestEndOfTheContextEndsRunsAndTheirLocksAreReleased(t *testing.T) {
	c := cluster.Start(t, 3)
	locker := cluster.NewConnected(t, c.URLs())
	ctx, cancel := context.WithCancel(t.Context())
	var told reports
	job := redcron.Once(locker, "settle", func(ctx context.Context) {
		cancel()
		<-ctx.Done()
	}, redcron.WithContext(ctx), told.option())
	job.Run()
	assert.Empty(t, told.errs)
	cluster.RequireClean(t, c.Masters...)

	job.Run()
	told.require(t, redcron.ErrNotRun, context.Canceled)
}

func TestBadArgumentsAreReported(t *testing.T) {
	c := cluster.Start(t, 1)
	locker := cluster.NewConnected(t, c.URLs())
	run := func(context.Context) { t.Error("the job ran") }
	var nobody context.Context
	for what, job := range map[string]func(told redcron.Option) cron.Job{
		"locker": func(told redcron.Option) cron.Job { return redcron.Once(nil, "settle", run, told) },
		"fn":     func(told redcron.Option) cron.Job { return redcron.Once(locker, "settle", nil, told) },
		"name":   func(told redcron.Option) cron.Job { return redcron.Once(locker, "", run, told) },
		"option": func(told redcron.Option) cron.Job { return redcron.Once(locker, "settle", run, nil, told) },
		"context": func(told redcron.Option) cron.Job {
			return redcron.Once(locker, "settle", run, redcron.WithContext(nobody), told)
		},
		"ttl": func(told redcron.Option) cron.Job {
			return redcron.Once(locker, "settle", run, redcron.WithLockOptions(redlock.WithTTL(time.Hour)), told)
		},
	} {
		t.Run(what, func(t *testing.T) {
			var told reports
			job(told.option()).Run()
			told.require(t, redcron.ErrNotRun, redlock.ErrInvalid)
		})
	}
}

func TestWithoutAReportEverythingButTakenIsLogged(t *testing.T) {
	var log strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	c := cluster.Start(t, 1)
	locker := cluster.NewConnected(t, c.URLs())

	redcron.Once(locker, "outer", func(context.Context) {
		redcron.Once(locker, "outer", func(context.Context) { t.Error("the job ran") }).Run()
	}).Run()
	assert.Empty(t, log.String())
	redcron.Once(locker, "", func(context.Context) {}, redcron.WithReport(nil)).Run()
	assert.Contains(t, log.String(), "name has 0 bytes")
}

func TestTheCodeOfTheReadmeCompiles(t *testing.T) {
	docs.RequireReadme(t, 2, `
		var (
			locker *redlock.Locker
			job    cron.Job
		)
		func settle(context.Context)
		func report(string, error)`,
		"context", "time", "github.com/robfig/cron/v3", "redcron=github.com/redquorum/redquorum/contrib/cron")
}
