package queue

import (
	"time"

	"github.com/redquorum/redquorum/pool"
)

// Option configures a [Queue].
type Option func(*config) error

// config holds the options of a Queue.
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

// KeepFirst makes [Queue.Enqueue] leave a task alone that is already in the queue. Without it, the
// task moves to the new due time.
func KeepFirst() Option {
	return func(c *config) error {
		c.keepFirst = true
		return nil
	}
}

// WithTimeout sets how long a call waits for the store, retrying if the connection breaks (2 s).
// From 1 ms to 1 min. A timeout above the lock's TTL makes other callers wait.
func WithTimeout(d time.Duration) Option {
	return func(c *config) error {
		if d < time.Millisecond || d > time.Minute {
			return invalid("timeout %v is not between 1ms and 1m", d)
		}
		c.timeout = d
		return nil
	}
}

// WithPool sets options of the connection to the store: TLS, dialer, credentials, timeouts.
func WithPool(opts ...pool.Option) Option {
	return func(c *config) error {
		c.pool = append(c.pool, opts...)
		return nil
	}
}
