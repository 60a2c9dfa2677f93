package pool

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
)

// Option changes how a node is reached.
type Option = pipeline.Option

// WithTLSConfig sets the configuration of rediss:// connections. ServerName defaults to the host of
// the endpoint.
func WithTLSConfig(cfg *tls.Config) Option { return pipeline.WithTLSConfig(cfg) }

// TLSFiles name files of PEM for rediss:// connections: a client certificate with its key, and the
// authorities that may have signed the server's. Each connection reads them anew.
type TLSFiles = pipeline.TLSFiles

// WithTLSFiles sets files for rediss:// connections, which may be replaced while the program runs:
// connections that are made from then on have the new ones. An endpoint can name its own:
// rediss://host:6380?cert=FILE&key=FILE&cacert=FILE.
func WithTLSFiles(files TLSFiles) Option { return pipeline.WithTLSFiles(files) }

// WithDialer sets the function that dials, for tunnels and tests. It must return when ctx ends.
// Closing the connection must end its reads and writes. A dialer that does TLS itself needs
// redis:// endpoints: rediss:// would do it again.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return pipeline.WithDialer(dial)
}

// WithCredentials sets a function that returns user name and password at every connect, instead of
// those in the endpoint, so they may change while the program runs. An empty user name is Redis'
// default user; an empty password sends no AUTH. The function must return when ctx ends. The
// endpoint that it gets contains no credentials. It is not asked for members that these must not go
// to ([WithMemberCredentials]).
func WithCredentials(credentials func(ctx context.Context, endpoint string) (username, password string, err error)) Option {
	return pipeline.WithCredentials(credentials)
}

// WithMemberCredentials does what the option of package redlock with this name does.
func WithMemberCredentials() Option { return pipeline.WithMemberCredentials() }

// WithClientName sets the name of connections in CLIENT LIST ("redquorum"): printable ASCII without
// spaces. An empty name sets none.
func WithClientName(name string) Option { return pipeline.WithClientName(name) }

// WithDialTimeout bounds one attempt to connect, TLS and AUTH included (1 s). From 1 ms to 1 min.
func WithDialTimeout(d time.Duration) Option { return pipeline.WithDialTimeout(d) }

// WithStallTimeout sets how long past its deadline a call may go unanswered before its connection
// is given up (2 s). Until then the connection of a slow node is kept, because a release behind a
// slow SET is cheaper than a new connection. From 1 ms to 1 min.
func WithStallTimeout(d time.Duration) Option { return pipeline.WithStallTimeout(d) }

// WithBackoff bounds the pause between two attempts to connect (10 ms, 500 ms). It doubles from
// shortest to longest, and each pause is drawn at random from its upper half. Both are from 1 ms to
// 1 min.
func WithBackoff(shortest, longest time.Duration) Option {
	return pipeline.WithBackoff(shortest, longest)
}

// WithClock sets the clock of deadlines and pauses (clock.System).
func WithClock(clk clock.Clock) Option { return pipeline.WithClock(clk) }
