package redistest

// Option changes how servers are started.
type Option func(*config)

type config struct {
	args       []string
	env        []string
	password   string
	unixSocket bool
	sentinel   bool
	pickPort   func() (int, error) // replaced in our own tests only
}

func newConfig(opts []Option) config {
	c := config{pickPort: ports.pick}
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

// WithArgs adds arguments to redis-server's command line. They come last, so they override our own:
// WithArgs("--appendonly", "yes", "--appendfsync", "always") gives a server whose keys survive a restart.
func WithArgs(args ...string) Option {
	return func(c *config) { c.args = append(c.args, args...) }
}

// WithEnv adds "NAME=value" variables to the environment of the servers, over those of this process.
func WithEnv(env ...string) Option {
	return func(c *config) { c.env = append(c.env, env...) }
}

// WithPassword makes the servers demand this password. It is part of [Server.URL], and our own connections use it.
func WithPassword(password string) Option {
	return func(c *config) { c.password = password }
}

// WithUnixSocket makes the servers listen on a unix socket too: [Server.Socket].
func WithUnixSocket() Option {
	return func(c *config) { c.unixSocket = true }
}

// WithSentinel starts Sentinels that watch nothing, in place of servers.
func WithSentinel() Option {
	return func(c *config) { c.sentinel = true }
}
