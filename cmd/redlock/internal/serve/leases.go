package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/lease"
	"github.com/redquorum/redquorum/cmd/redlock/internal/leasehttp"
	"github.com/redquorum/redquorum/cmd/redlock/internal/resp"
	"github.com/redquorum/redquorum/internal/guard"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// doors are those by which programs take locks, with --allow-locks.
type doors struct {
	locker *redlock.Locker
	leases *lease.Leases
	http   *leasehttp.Door

	stop  context.CancelFunc // of the door for clients of Redis
	redis sync.WaitGroup     // its listeners
}

// openDoors connects to the masters once more: locks do not wait for what the page asks. It returns
// nil without --allow-locks.
func (f *flags) openDoors(cmd *cobra.Command, logins *logins) (_ *doors, err error) {
	if !f.allowLocks {
		return nil, nil
	}
	var listeners []net.Listener
	defer func() {
		if err != nil {
			for _, l := range listeners {
				err = errors.Join(err, l.Close())
			}
		}
	}()
	for _, where := range f.redis {
		l, err := f.openAt("--redis", where, "host:port or unix:PATH")
		if err != nil {
			return nil, err
		}
		if l, err = f.secure(l); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		listeners = append(listeners, l)
		if logins == nil && !guard.IsLocal(l.Addr()) {
			return nil, errOpen
		}
	}
	locker, err := f.nodes.Open(cmd, redlock.WithTTL(min(usualTTL, f.nodes.MaxTTL)), redlock.WithPool(pool.WithClientName("redlock-serve")))
	if err != nil {
		return nil, err
	}
	leases := lease.New(locker)
	d := &doors{locker: locker, leases: leases, http: leasehttp.New(leases, clock.System())}
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	server := resp.New(f.redisConfig(d, logins))
	for _, l := range listeners {
		cmd.PrintErrf("redlock: locks for clients of Redis at %s\n", l.Addr())
		d.redis.Go(func() {
			if err := server.Serve(ctx, l); err != nil {
				cmd.PrintErrf("redlock: %s: %v\n", l.Addr(), err)
			}
		})
	}
	return d, nil
}

// redisConfig is that of the door for clients of Redis.
func (f *flags) redisConfig(d *doors, logins *logins) resp.Config {
	config := resp.Config{Leases: d.leases, Clock: clock.System(), DefaultTTL: f.defaultTTL}
	if logins != nil {
		config.Login = logins.check
	}
	if f.allowForce {
		config.Force = admin.Of(d.locker)
	}
	return config
}

// usualTTL is the Locker's own: each request has another one.
const usualTTL = 10 * time.Second

// close waits for releases that are under way, and no longer than Close of a Locker does. Leases
// stay: they are their clients'.
func (d *doors) close() error {
	if d == nil {
		return nil
	}
	d.stop()
	d.redis.Wait()
	return d.locker.Close()
}

// errLocks says to programs what is missing.
var errLocks = errors.New("this server grants no locks: it was started without --allow-locks")

// of returns the handler of an address at which leases are, by the rules of the page.
func (d *doors) of(rules *guard.Rules) http.Handler {
	if d == nil {
		return rules.Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			guard.Error(w, http.StatusNotFound, errLocks)
		}))
	}
	return rules.Guard(d.http)
}

// withMetrics adds the figures of doors to those of the page, if that has told any.
func (d *doors) withMetrics(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		page.ServeHTTP(seen, r)
		if d != nil && seen.status == http.StatusOK && r.Method == http.MethodGet {
			_, _ = io.WriteString(w, d.metrics()) //nolint:errcheck // the client is gone
		}
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// metrics returns the figures of doors in the text format of Prometheus.
func (d *doors) metrics() string {
	var b strings.Builder
	family := func(kind, name, help string) {
		fmt.Fprintf(&b, "# HELP redquorum_serve_%s %s\n# TYPE redquorum_serve_%[1]s %s\n", name, help, kind)
	}
	all := d.leases.Counts()
	if _, used := all["http"]; !used {
		all = maps.Clone(all)
		if all == nil {
			all = map[string]lease.Count{}
		}
		all["http"] = lease.Count{}
	}
	byDoor := slices.Sorted(maps.Keys(all))
	family("counter", "leases_total", "Requests for leases, by the door they came by and what became of them.")
	for _, door := range byDoor {
		n := all[door]
		for _, one := range []struct {
			result string
			count  uint64
		}{{"granted", n.Granted}, {"taken", n.Taken}, {"failed", n.Failed}} {
			fmt.Fprintf(&b, "redquorum_serve_leases_total{door=%q,result=%q} %d\n", door, one.result, one.count)
		}
	}
	family("gauge", "leases_waiting", "Requests that wait for a lease.")
	for _, door := range byDoor {
		fmt.Fprintf(&b, "redquorum_serve_leases_waiting{door=%q} %d\n", door, all[door].Waiting)
	}
	family("gauge", "leases_streamed", "Leases that are held by open streams.")
	fmt.Fprintf(&b, "redquorum_serve_leases_streamed{door=\"http\"} %d\n", d.http.Streams())
	return b.String()
}
