// Package serve is `redlock serve`: a page about masters and their locks, and the doors by which
// programs in every language take some.
package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/demo"
	"github.com/redquorum/redquorum/cmd/redlock/internal/leasehttp"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/cmd/redlock/internal/tasks"
	"github.com/redquorum/redquorum/dashboard"
	"github.com/redquorum/redquorum/internal/guard"
	"github.com/redquorum/redquorum/pool"
)

const long = `serve shows masters and locks to browsers and programs: who holds what, who waits, which masters
vote and why not, members, elections, and the log. Pages are kept up to date while they are open.

The page only reads, and asks the masters once a second at most, and only while somebody looks, whatever
the number of viewers: docs/dashboard.md has the cost. It needs the rights that list needs.

  /               the pages
  /api/v1/list, inspect?name=NAME, members, log, log?name=NAME
                  what these commands print with --json
  /api/v1/queues, queue?name=NAME
                  counts of each queue; what queue list prints with --json
  /metrics        for Prometheus
  /healthz        whether this process serves

It listens on 127.0.0.1:8700. --listen takes another host:port, unix:PATH, or systemd, for the socket
of a systemd unit. Where others than this machine can connect, --login-file must say who may: each
line has a user and a password as USER:PASSWORD, or a password alone, with which any user name goes
(programs send it as "Authorization: Bearer PASSWORD"). Passwords have 12 characters at least. Put a
proxy with TLS in front of it: passwords are not to cross a network in the clear.

--allow-locks lets programs in every language take locks: docs/languages.md has how. They log in as
others do. Without --login-file, on a Unix socket or a port of this machine, they need not.

  /api/v1/lease   POST grants, PUT extends, DELETE releases, GET looks
  /api/v1/hold    POST grants; renewed while the answer is read, then released

--redis speaks the protocol of Redis to programs that lock on one Redis, by SET NX PX and the scripts
of their libraries: they need another address and nothing else. They log in by AUTH. With
--redis-cert and --redis-key it speaks TLS.

--queue shows a delayed queue of the store: how many tasks it has, and dead letters with their errors.

--allow-force lets those who log in take locks away from their holders. They type the name and give a
reason, and redlock log shows who it was. They may also put dead letters back, or drop them. Without --login-file, a password is made up and printed.

Exit status: 0 after SIGINT or SIGTERM; 1 if it cannot listen; 64 for a wrong command line.`

const example = `  redlock serve --demo
  redlock serve
  redlock serve --queue orders --queue mails
  redlock serve --listen unix:/run/redlock/web.sock --path-prefix /locks
  redlock serve --allow-locks --redis 127.0.0.1:6390 --redis unix:/run/r.sock
  redlock serve --listen 0.0.0.0:8700 --login-file logins --allow-force`

// flags are those of serve.
type flags struct {
	nodes             masters.Flags
	bounds            admin.Query
	listen            string
	prefix            string
	loginFile         string
	hosts             []string
	allowForce, demos bool
	allowLocks        bool
	redis             []string
	redisCert         string
	redisKey          string
	defaultTTL        time.Duration
	store             string
	queues            []string
}

// NewCommand returns `redlock serve`.
func NewCommand() *cobra.Command {
	f := &flags{bounds: admin.Query{Keys: 100_000, Locks: 20_000}}
	cmd := &cobra.Command{
		Use:     "serve [flags]",
		Short:   "Show masters and locks to browsers",
		Long:    long,
		Example: example,
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := cli.UntilSignal(cmd)
			defer stop()
			return f.run(ctx, cmd)
		},
	}
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8700", "`where`: host:port, unix:PATH or systemd")
	cmd.Flags().StringVar(&f.prefix, "path-prefix", "", "`path` under which a proxy has the pages, as /locks, if it leaves that in the address")
	cmd.Flags().StringVar(&f.loginFile, "login-file", "", "`file` with USER:PASSWORD or PASSWORD on each line; then all pages need a login")
	cmd.Flags().StringArrayVar(&f.hosts, "host", nil, "`name` by which browsers reach a page without a login, beside localhost; may be repeated")
	cmd.Flags().BoolVar(&f.allowForce, "allow-force", false, "let those who log in take locks away from their holders")
	cmd.Flags().BoolVar(&f.allowLocks, "allow-locks", false, "let programs in every language take locks, at /api/v1/lease and /api/v1/hold")
	cmd.Flags().StringArrayVar(&f.redis, "redis", nil, "with --allow-locks, `where` programs that lock on one Redis connect: host:port or unix:PATH; may be repeated")
	cmd.Flags().StringVar(&f.redisCert, "redis-cert", "", "`file` with a certificate: --redis speaks TLS at host:port; read anew by each connection")
	cmd.Flags().StringVar(&f.redisKey, "redis-key", "", "`file` with the key of --redis-cert")
	cmd.Flags().DurationVar(&f.defaultTTL, "default-ttl", 0, "`TTL` of a lock that comes by --redis without one, as from SETNX (default: it is refused)")
	cmd.Flags().StringVar(&f.store, "store", "", "`endpoint` of the Redis that has the queues (default: "+tasks.StoreVariable+", which is better for a password)")
	cmd.Flags().StringArrayVar(&f.queues, "queue", nil, "`name` of a queue to show; may be repeated")
	cmd.Flags().BoolVar(&f.demos, "demo", false, "serve embedded masters, with locks that come and go, instead of yours")
	cmd.Flags().IntVar(&f.bounds.Keys, "scan", f.bounds.Keys, "look at so `many` keys of each master at most")
	cmd.Flags().IntVar(&f.bounds.Locks, "limit", f.bounds.Locks, "stop when a master has so `many` locks")
	f.nodes.Add(cmd)
	return cmd
}

func (f *flags) run(ctx context.Context, cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	logins, err := f.logins(cmd)
	if err != nil {
		return err
	}
	if f.demos {
		play, err := demo.StartShow(ctx)
		if err != nil && ctx.Err() != nil {
			return nil // a signal came first
		}
		if err != nil {
			return err
		}
		defer play.Close()
		if err := cmd.Flags().Set("nodes", strings.Join(play.Endpoints(), ",")); err != nil {
			return err
		}
	}
	listener, err := f.open()
	if err != nil {
		return err
	}
	if logins == nil && !dashboard.IsLocal(listener.Addr()) {
		return errors.Join(errOpen, listener.Close())
	}
	shown, err := f.openQueues(cmd)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer shown.close()
	page, err := f.page(ctx, cmd, logins, shown.options()...)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer page.Close()
	doors, err := f.openDoors(cmd, logins)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	cmd.PrintErrf("redlock: serving %s\n", f.address(listener.Addr()))
	err = serve(ctx, leasehttp.Listener(listener), f.handler(page, doors, logins))
	return errors.Join(err, doors.close())
}

func (f *flags) page(ctx context.Context, cmd *cobra.Command, logins *logins, opts ...dashboard.Option) (page *dashboard.Handler, err error) {
	opts = append(opts, dashboard.WithKeyPrefix(f.nodes.KeyPrefix), dashboard.WithMaxTTL(f.nodes.MaxTTL),
		dashboard.WithBounds(f.bounds.Keys, f.bounds.Locks), dashboard.WithHosts(f.hosts...))
	if logins != nil {
		opts = append(opts, dashboard.WithLogin(logins.of))
	}
	if f.allowForce {
		opts = append(opts, dashboard.WithForce())
	}
	err = f.nodes.Reach(cmd, func(endpoints []string, reached ...pool.Option) (err error) {
		reached = append(reached, pool.WithClientName("redlock-serve"), pool.WithDialTimeout(dialTimeout), pool.WithStallTimeout(dialTimeout))
		page, err = dashboard.New(ctx, endpoints, append(opts, dashboard.WithPool(reached...))...)
		return err
	})
	return page, err
}

// dialTimeout is that of top: until then, what is shown is old.
const dialTimeout = time.Second

var errOpen = cli.Usagef("others than this machine could connect there: give --login-file")

func (f *flags) check() error {
	switch {
	case f.bounds.Keys < 1 || f.bounds.Locks < 1:
		return cli.Usagef("--scan and --limit are 1 or more")
	case !f.allowLocks && (len(f.redis) > 0 || f.defaultTTL != 0):
		return cli.Usagef("--redis and --default-ttl need --allow-locks")
	case (f.redisCert == "") != (f.redisKey == "") || f.redisCert != "" && len(f.redis) == 0:
		return cli.Usagef("--redis-cert and --redis-key go together, with --redis")
	case f.defaultTTL < 0 || f.defaultTTL > f.nodes.MaxTTL:
		return cli.Usagef("--default-ttl: %v is not between 0 and the --max-ttl of %v", f.defaultTTL, f.nodes.MaxTTL)
	case f.prefix != "" && (!strings.HasPrefix(f.prefix, "/") || strings.ContainsAny(f.prefix, " ?#%{}") || strings.Contains(f.prefix, "//")):
		return cli.Usagef("--path-prefix: a path begins with /, as /locks")
	}
	return nil
}

// handler is the page under its prefix, with the doors on it, and nothing beside it.
func (f *flags) handler(page http.Handler, doors *doors, logins *logins) http.Handler {
	rules := &guard.Rules{Hosts: f.hosts}
	if logins != nil {
		rules.Login = logins.of
	}
	mux := http.NewServeMux()
	prefix := strings.TrimSuffix(f.prefix, "/")
	mux.Handle(prefix+"/", http.StripPrefix(prefix, page))
	mux.Handle(prefix+"/metrics", http.StripPrefix(prefix, doors.withMetrics(page)))
	for _, path := range leasehttp.Paths {
		mux.Handle(prefix+path, http.StripPrefix(prefix, doors.of(rules)))
	}
	if prefix != "" {
		mux.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) {
			guard.Error(w, http.StatusNotFound, errors.New("this server has everything below "+prefix))
		})
	}
	return mux
}

const (
	// stopBound is how long requests may go on after the signal to end.
	stopBound = 5 * time.Second

	// mostHeader is enough for the longest name of a lock, percent-encoded.
	mostHeader = 32 << 10
)

// serve answers requests until ctx ends.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	streams, endStreams := context.WithCancelCause(context.Background())
	defer endStreams(nil)
	server := &http.Server{
		Handler: handler, MaxHeaderBytes: mostHeader,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return streams }, ConnContext: leasehttp.WithConn,
	}
	server.RegisterOnShutdown(func() { endStreams(leasehttp.ErrEnding) }) // pages and leases that are open are never idle
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	bound, cancel := context.WithTimeout(context.Background(), stopBound)
	defer cancel()
	err := server.Shutdown(bound)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	if closed := <-ended; !errors.Is(closed, http.ErrServerClosed) {
		err = errors.Join(err, closed)
	}
	return err
}
