package redistest

// Option is a setting of the servers to start.
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
// WithArgs("--appendonly", "yes", "--appendfsync", "always") makes a server whose keys survive a
// restart.
func WithArgs(args ...string) Option {
	return func(c *config) { c.args = append(c.args, args...) }
}

// WithEnv adds "NAME=value" variables to the servers' environment. They override those of this
// process.
func WithEnv(env ...string) Option {
	return func(c *config) { c.env = append(c.env, env...) }
}

// WithPassword makes the servers require this password. [Server.URL] contains it, and our own
// connections use it.
func WithPassword(password string) Option {
	return func(c *config) { c.password = password }
}

// WithUnixSocket makes the servers also listen on a unix socket: [Server.Socket].
func WithUnixSocket() Option {
	return func(c *config) { c.unixSocket = true }
}

// WithSentinel starts Sentinels, which watch nothing, instead of servers.
func WithSentinel() Option {
	return func(c *config) { c.sentinel = true }
}
