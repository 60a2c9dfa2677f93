// Package demo is `redlock demo`: it shows the lock at work on masters inside this process.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

const long = `demo starts five Redis masters inside this process and lets workers contend for one lock, each as
a process of its own would. It shows:

  contention      the lock goes from worker to worker by a wake-up, not by
                  polling
  dead minority   two of the five masters are stopped, connections and all, and
                  restarted with their data
  stopped holder  a worker that has the lock falls asleep, cut off from all
                  masters; the lock ends with its TTL, and another one gets it
  fencing         that worker wakes up and writes; the store rejects the write
                  because it has seen a larger token
  exclusion       who held the lock when, as a picture; all recorded times are
                  compared

Events are printed as they happen, and the picture is drawn at the end, as wide as the terminal, or
as COLUMNS says, or 80 columns. NO_COLOR is respected. Ctrl-C ends the demo early and reports what
was seen until then.

Exit status: 0; 1 if two workers held the lock at once, the stale write was accepted or never
happened, the store rejected a holder, or nobody ever got the lock; 64 for a wrong command line.`

const example = `  redlock demo
  redlock demo --duration 30s --workers 12 | tee demo.txt`

// NewCommand returns `redlock demo`.
func NewCommand() *cobra.Command {
	cfg := config{duration: 10 * time.Second, workers: 6}
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Show the lock at work, with dead masters and a stopped holder",
		Long:    long,
		Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 { // not shown: it may be an endpoint with a password
				return cli.Usagef("demo takes no arguments")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.check(); err != nil {
				return err
			}
			ctx, stop := cli.UntilSignal(cmd)
			defer stop()
			return run(ctx, &cfg, terminal.LookOf(cmd.OutOrStdout()), cmd.OutOrStdout())
		},
	}
	cmd.Flags().DurationVar(&cfg.duration, "duration", cfg.duration, "how long the demo runs, from 3s to 1m")
	cmd.Flags().IntVar(&cfg.workers, "workers", cfg.workers, "how many workers contend, from 2 to 16")
	return cmd
}

const (
	embeddedNodes = 5
	lockName      = "orders"

	minDuration = 3 * time.Second // with a shorter one, the TTL is only milliseconds
	maxDuration = time.Minute     // every hold is recorded and drawn
	minWorkers  = 2               // a single worker does not contend
	maxWorkers  = 16              // a line each

	minTTL = 300 * time.Millisecond // a busy machine would lose a shorter one

	// A busy machine may need longer than planned until the stopped worker has written.
	overtimeBound = 10 * time.Second
)

// config is the configuration of a demo. All times of a run are shares of its duration, so that the
// picture looks alike for any.
type config struct {
	duration time.Duration
	workers  int
}

func (c *config) check() error {
	switch {
	case c.duration < minDuration || c.duration > maxDuration:
		return cli.Usagef("--duration: %v is not between %v and %v", c.duration, minDuration, maxDuration)
	case c.workers < minWorkers || c.workers > maxWorkers:
		return cli.Usagef("--workers: %d is not between %d and %d", c.workers, minWorkers, maxWorkers)
	}
	return nil
}

func (c *config) ttl() time.Duration { return max(c.duration/8, minTTL) }

// holds returns the shortest and the longest time that a worker holds the lock: more than half a
// column of a picture of 80 columns.
func (c *config) holds() (shortest, longest time.Duration) { return c.duration / 130, c.duration / 80 }

// retry is longer than a turn of all workers, so a poll shows that a wake-up was missing.
func (c *config) retry() (shortest, longest time.Duration) {
	shortHold, longHold := c.holds()
	turn := time.Duration(c.workers) * (shortHold + longHold) / 2
	return 2 * turn, 4 * turn
}

// run runs a demo for its configured duration, or until ctx ends, and writes what happens and the
// report. All its goroutines have ended when it returns. The error is the verdict, or why there is
// none.
func run(ctx context.Context, cfg *config, look terminal.Look, w io.Writer) error {
	record := newRecorder(clock.System(), cfg.workers, look, w)
	r, err := play(ctx, cfg, record)
	if err != nil {
		return err
	}
	record.print(r.lines(look)...)
	return errors.Join(r.err(), record.failure())
}

func play(ctx context.Context, cfg *config, record *recorder) (*report, error) {
	nodes, err := startEmbedded(embeddedNodes)
	if err != nil {
		return nil, err
	}
	defer nodes.close()
	shared := &shared{config: cfg, record: record, stopAt: cfg.duration * 55 / 100, done: make(chan struct{})}
	workers, err := openWorkers(ctx, shared, nodes.endpoints)
	defer closeWorkers(workers)
	if err != nil {
		return nil, err
	}
	record.print(fmt.Sprintf("redlock demo: %s, one lock, %s; the lock takes %s.", prose.Plural(cfg.workers, "worker"),
		prose.Plural(embeddedNodes, "embedded node"), prose.Plural(embeddedNodes/2+1, "vote")), "")
	record.begin()
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(func() { w.run(run) })
	}
	all.Go(func() { outage(run, nodes, cfg.duration, record) })
	await(run, cfg.duration, shared.done)
	cancel()
	all.Wait()
	r := &report{trace: record.end(), interrupted: ctx.Err() != nil, ttl: cfg.ttl()}
	for _, w := range workers {
		stats := w.locker.Stats()
		r.handedOver += stats.HandedOver
		r.polls += stats.Polls
	}
	return r, nil
}

// openWorkers gives each worker a Locker to which a quorum answers. The workers must be closed,
// also after an error.
func openWorkers(ctx context.Context, shared *shared, endpoints []string) (all []*worker, err error) {
	for number := 1; number <= shared.config.workers; number++ {
		w := &worker{shared: shared, number: number}
		w.locker, err = redlock.New(endpoints, redlock.WithTTL(shared.config.ttl()), redlock.WithFencing(),
			redlock.WithRetry(shared.config.retry()), redlock.WithOwner(fmt.Sprintf("redlock demo, worker %d", number)),
			redlock.WithPool(pool.WithDialer(w.cable.dial)))
		if err != nil {
			return all, err
		}
		all = append(all, w)
		if err := w.locker.Ready(ctx); err != nil {
			return all, err
		}
	}
	return all, nil
}

// closeWorkers closes the Lockers, which release what is left.
func closeWorkers(workers []*worker) {
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(func() { _ = w.locker.Close() }) //nolint:errcheck // masters may be away
	}
	all.Wait()
}

// await returns when the demo is over: after its duration, or somewhat later if the stopped worker
// has not written by then.
func await(ctx context.Context, duration time.Duration, written <-chan struct{}) {
	if !sleep(ctx, duration) {
		return
	}
	overtime, cancel := context.WithTimeout(ctx, overtimeBound)
	defer cancel()
	select {
	case <-written:
	case <-overtime.Done():
	}
}
