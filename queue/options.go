package queue

import (
	"time"

	"github.com/redquorum/redquorum/pool"
)

// Option configures a [Queue].
type Option func(*config) error

// config is what a Queue is made with.
type config struct {
	keepFirst bool
	timeout   time.Duration
	pool      []pool.Option
}

func newConfig(opts []Option) (config, error) {
	c := config{timeout: 2 * time.Second}
	for i, opt := range opts {
		if opt == nil {
			return config{}, invalid("option %d is nil", i+1)
		}
		if err := opt(&c); err != nil {
			return config{}, err
		}
	}
	return c, nil
}

// KeepFirst makes [Queue.Enqueue] leave a task alone that is in the queue already. Without it, the task moves to the new due time.
func KeepFirst() Option {
	return func(c *config) error {
		c.keepFirst = true
		return nil
	}
}

// WithTimeout is how long a call waits for the store, and tries again where the connection breaks (2 s). From 1 ms to 1 min. What
// is longer than the lock's time to live makes the others wait.
func WithTimeout(d time.Duration) Option {
	return func(c *config) error {
		if d < time.Millisecond || d > time.Minute {
			return invalid("timeout %v is not between 1ms and 1m", d)
		}
		c.timeout = d
		return nil
	}
}

// WithPool configures the connection to the store: TLS, dialer, credentials, timeouts.
func WithPool(opts ...pool.Option) Option {
	return func(c *config) error {
		c.pool = append(c.pool, opts...)
		return nil
	}
}
