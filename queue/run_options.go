package queue

import "time"

// RunOption configures [Queue.Run].
type RunOption func(*runConfig) error

// runConfig holds the options of Run.
type runConfig struct {
	concurrency int
	lease       time.Duration
	retryDelay  time.Duration
	poll        time.Duration
	report      func(error)
}

func newRunConfig(opts []RunOption) (runConfig, error) {
	c := runConfig{concurrency: 8, lease: time.Minute, retryDelay: 10 * time.Second, poll: time.Second, report: func(error) {}}
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

// WithRetryDelay sets how long after its handler failed a task is due again (10 s). From 0 to 50
// years.
func WithRetryDelay(d time.Duration) RunOption {
	return func(c *runConfig) error {
		if d < 0 || d > maxDelay {
			return invalid("retry delay %v is not between 0 and %v", d, maxDelay)
		}
		c.retryDelay = d
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
// years, because its score is in milliseconds perhaps. Run's goroutine calls it and waits for it.
func WithReport(report func(err error)) RunOption {
	return func(c *runConfig) error {
		if report == nil {
			return invalid("report is nil")
		}
		c.report = report
		return nil
	}
}
