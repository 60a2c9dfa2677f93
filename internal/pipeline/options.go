package pipeline

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// Option changes how a node is reached.
type Option func(*config) error

type config struct {
	tls          *tls.Config
	files        TLSFiles
	dial         func(ctx context.Context, network, address string) (net.Conn, error)
	credentials  func(ctx context.Context, endpoint string) (username, password string, err error)
	clientName   string
	dialTimeout  time.Duration
	stallTimeout time.Duration
	backoffMin   time.Duration
	backoffMax   time.Duration
	clock        clock.Clock
	trustMembers bool
}

func newConfig(opts []Option) (config, error) {
	c := config{
		dial:         (&net.Dialer{}).DialContext,
		clientName:   "redquorum",
		dialTimeout:  time.Second,
		stallTimeout: 2 * time.Second,
		backoffMin:   10 * time.Millisecond,
		backoffMax:   500 * time.Millisecond,
		clock:        clock.System(),
	}
	for _, opt := range opts {
		if opt == nil {
			return config{}, fmt.Errorf("%w: nil option", ErrEndpoint)
		}
		if err := opt(&c); err != nil {
			return config{}, err
		}
	}
	return c, nil
}

// WithTLSConfig sets the configuration of rediss:// connections. ServerName defaults to the host of
// the endpoint.
func WithTLSConfig(cfg *tls.Config) Option {
	return func(c *config) error {
		if cfg == nil {
			return fmt.Errorf("%w: nil TLS config", ErrEndpoint)
		}
		c.tls = cfg.Clone()
		return nil
	}
}

// WithTLSFiles sets files for rediss:// connections. Those that an endpoint names come first.
func WithTLSFiles(files TLSFiles) Option {
	return func(c *config) error {
		c.files = files
		return files.check()
	}
}

// WithDialer sets the function that dials, for tunnels and tests. It must return when ctx ends.
// Closing the connection must end its reads and writes. A dialer that does TLS itself needs
// redis:// endpoints: rediss:// would do it again.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return func(c *config) error {
		if dial == nil {
			return fmt.Errorf("%w: nil dialer", ErrEndpoint)
		}
		c.dial = dial
		return nil
	}
}

// WithCredentials sets a function that returns user name and password at every connect, instead of
// those in the endpoint, so they may change while the program runs. An empty user name is Redis'
// default user; an empty password sends no AUTH. The function must return when ctx ends. The
// endpoint that it gets contains no credentials. It is not asked for members that these must not go
// to ([WithMemberCredentials]).
func WithCredentials(credentials func(ctx context.Context, endpoint string) (username, password string, err error)) Option {
	return func(c *config) error {
		if credentials == nil {
			return fmt.Errorf("%w: nil credentials function", ErrEndpoint)
		}
		c.credentials = credentials
		return nil
	}
}

// WithClientName sets the name of connections in CLIENT LIST ("redquorum"): printable ASCII without
// spaces. An empty name sets none.
func WithClientName(name string) Option {
	return func(c *config) error {
		if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("%w: a client name is printable ASCII without spaces", ErrEndpoint)
		}
		c.clientName = name
		return nil
	}
}

// WithDialTimeout bounds one attempt to connect, TLS and AUTH included (1 s). From 1 ms to 1 min.
func WithDialTimeout(d time.Duration) Option {
	return func(c *config) error { return setDuration(&c.dialTimeout, "dial timeout", d) }
}

// WithStallTimeout sets how long past its deadline a call may go unanswered before its connection
// is given up (2 s). Until then the connection of a slow node is kept, because a release behind a
// slow SET is cheaper than a new connection. From 1 ms to 1 min.
func WithStallTimeout(d time.Duration) Option {
	return func(c *config) error { return setDuration(&c.stallTimeout, "stall timeout", d) }
}

// WithBackoff bounds the pause between two attempts to connect (10 ms, 500 ms). It doubles from
// shortest to longest, and each pause is drawn at random from its upper half. Both are from 1 ms to
// 1 min.
func WithBackoff(shortest, longest time.Duration) Option {
	return func(c *config) error {
		if longest < shortest {
			return fmt.Errorf("%w: backoff: longest %v is below shortest %v", ErrEndpoint, longest, shortest)
		}
		if err := setDuration(&c.backoffMin, "backoff", shortest); err != nil {
			return err
		}
		return setDuration(&c.backoffMax, "backoff", longest)
	}
}

// WithClock sets the clock of deadlines, [Request.Deadline] among them, and of pauses. Default:
// clock.System.
func WithClock(clk clock.Clock) Option {
	return func(c *config) error {
		if clk == nil {
			return fmt.Errorf("%w: nil clock", ErrEndpoint)
		}
		c.clock = clk
		return nil
	}
}

func setDuration(field *time.Duration, name string, d time.Duration) error {
	if d < time.Millisecond || d > time.Minute {
		return fmt.Errorf("%w: %s %v is not between 1ms and 1m", ErrEndpoint, name, d)
	}
	*field = d
	return nil
}
