package queue

import (
	"log/slog"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// RunOption configures [Queue.Run].
type RunOption func(*runConfig) error

// runConfig holds the options of Run.
type runConfig struct {
	concurrency int
	lease       time.Duration
	attempts    int                             // 0: no limit
	delay       func(attempt int) time.Duration // after that attempt failed
	poll        time.Duration
	report      func(error)
	failed      func(*TaskError) // nil for none
	logger      *slog.Logger     // nil for none
}

// isLast reports whether a task that had so many attempts gets no other.
func (c *runConfig) isLast(attempts int) bool { return c.attempts > 0 && attempts >= c.attempts }

func newRunConfig(opts []RunOption) (runConfig, error) {
	c := runConfig{concurrency: 8, lease: time.Minute, delay: constant(10 * time.Second), poll: time.Second, report: func(error) {}}
	for i, opt := range opts {
		if opt == nil {
			return runConfig{}, invalid("option %d is nil", i+1)
		}
		if err := opt(&c); err != nil {
			return runConfig{}, err
		}
	}
	return c, nil
}

// WithConcurrency sets how many handlers run at once (8). From 1 to 1,000.
func WithConcurrency(n int) RunOption {
	return func(c *runConfig) error {
		if n < 1 || n > 1000 {
			return invalid("concurrency %d is not between 1 and 1000", n)
		}
		c.concurrency = n
		return nil
	}
}

// WithLease sets how long a handler may take (1 min). After that its context ends, and the task is
// due again. From 10 ms to 7 days.
func WithLease(d time.Duration) RunOption {
	return func(c *runConfig) error {
		if d < 10*time.Millisecond || d > 7*24*time.Hour {
			return invalid("lease %v is not between 10ms and 7 days", d)
		}
		c.lease = d
		return nil
	}
}

// WithMaxAttempts sets how often a task is begun before it becomes a dead letter ([Queue.Dead];
// default: no limit). 1 or more. It counts in this Run: another one may have another limit.
func WithMaxAttempts(n int) RunOption {
	return func(c *runConfig) error {
		if n < 1 {
			return invalid("%d attempts: 1 is the least", n)
		}
		c.attempts = n
		return nil
	}
}

// WithBackoff sets how long after a failed attempt a task is due again: the shortest time after the
// first, about twice as long after each further one, and never more than the longest. Each is
// between half of that and all of it, at random, so that tasks which failed together are not due
// together. From 1 ms to 50 years. Of WithBackoff and [WithRetryDelay], the last one counts.
func WithBackoff(shortest, longest time.Duration) RunOption {
	return func(c *runConfig) error {
		if shortest < time.Millisecond || longest < shortest || longest > maxDelay {
			return invalid("backoff from %v to %v: from 1ms to %v, the shortest first", shortest, longest, maxDelay)
		}
		c.delay = func(attempt int) time.Duration {
			pause := clock.Backoff{Shortest: shortest, Longest: longest}
			for range min(attempt, 64) - 1 { // 50 years are 2^61 ms
				pause.Next()
			}
			return pause.Next()
		}
		return nil
	}
}

func constant(d time.Duration) func(int) time.Duration {
	return func(int) time.Duration { return d }
}

// WithRetryDelay sets how long after its handler failed a task is due again (10 s). From 0 to 50
// years.
func WithRetryDelay(d time.Duration) RunOption {
	return func(c *runConfig) error {
		if d < 0 || d > maxDelay {
			return invalid("retry delay %v is not between 0 and %v", d, maxDelay)
		}
		c.delay = constant(d)
		return nil
	}
}

// WithPoll sets how often Run queries the queue if nothing notified it and no task that it knows of
// becomes due (1 s). From 1 ms to 1 min. Shorter times help only if an ACL forbids publish and
// subscribe.
func WithPoll(d time.Duration) RunOption {
	return func(c *runConfig) error {
		if d < time.Millisecond || d > time.Minute {
			return invalid("poll %v is not between 1ms and 1m", d)
		}
		c.poll = d
		return nil
	}
}

// WithReport sets a function that Run calls with errors of the lock and of the store that kept it
// from the queue, before it tries again; and with errors about what others wrote into the queue:
// members that are no task ids, which get the score inf, and a task that is due in more than 50
// years, because its score is in milliseconds perhaps; and about dead letters that were dropped,
// because there are more than 10,000. Run's goroutine calls it and waits for it.
func WithReport(report func(err error)) RunOption {
	return func(c *runConfig) error {
		if report == nil {
			return invalid("report is nil")
		}
		c.report = report
		return nil
	}
}

// WithFailed sets a function that Run calls with each failed attempt, as soon as the handler has
// returned, and with each task that died without a report of its last attempt. Run's goroutine
// calls it and waits for it. Without it and [WithLogger], panics go to [slog.Default].
func WithFailed(failed func(err *TaskError)) RunOption {
	return func(c *runConfig) error {
		if failed == nil {
			return invalid("failed is nil")
		}
		c.failed = failed
		return nil
	}
}

// WithLogger sets a logger for what [WithFailed] and [WithReport] are told.
func WithLogger(logger *slog.Logger) RunOption {
	return func(c *runConfig) error {
		if logger == nil {
			return invalid("logger is nil")
		}
		c.logger = logger
		return nil
	}
}
