// Package dashboard is a page about masters and their locks, as an http.Handler: what `redlock
// serve` serves, and contrib/dashboard for the servers of others.
package dashboard

import (
	"context"
	"embed"
	"fmt"
	"net/http"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/survey"
	"github.com/redquorum/redquorum/redlock"
)

// Config says what a dashboard shows, and to whom.
type Config struct {
	// Open returns a Locker over the masters of the list, with these options and its own. The
	// dashboard closes it.
	Open func(opts ...redlock.Option) (*redlock.Locker, error)

	KeyPrefix string        // of the Locker
	MaxTTL    time.Duration // of the Locker
	Bounds    survey.Bounds // of a scan of one master

	// Login returns the name of who makes a request, and whether it may be answered. Nil: everybody
	// on this machine may look, and nobody else.
	Login func(r *http.Request) (user string, ok bool)

	// Hosts are names by which browsers on this machine reach the page without a login, beside
	// localhost.
	Hosts []string

	// AllowForce also shows a form that takes a lock away from its holder. It needs Login.
	AllowForce bool
}

var errNoLogin = fmt.Errorf("%w: whoever may take locks away must log in", redlock.ErrInvalid)

// Dashboard is the handler. Its methods may be called from any goroutine.
type Dashboard struct {
	config  Config
	watch   *watch
	handler http.Handler
	streams chan struct{} // has room for those that are open
	reading chan struct{} // and this for clients that read large answers
}

// New connects to the masters and returns a dashboard about them. Close it.
func New(ctx context.Context, config Config) (*Dashboard, error) {
	if config.AllowForce && config.Login == nil {
		return nil, errNoLogin
	}
	m, err := openMasters(ctx, config)
	if err != nil {
		return nil, err
	}
	return newDashboard(m, config, clock.System()), nil
}

func newDashboard(s source, config Config, clk clock.Clock) *Dashboard {
	d := &Dashboard{config: config, watch: newWatch(s, clk), streams: make(chan struct{}, mostStreams), reading: make(chan struct{}, mostReading)}
	mux := http.NewServeMux()
	handle := func(method, path string, handler http.HandlerFunc) {
		mux.HandleFunc(method+" "+path, handler)
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", method)
			d.fail(w, r, http.StatusMethodNotAllowed, "This address takes "+method+" only.")
		})
	}
	for name, view := range views {
		path := "/" + name
		if name == "masters" {
			path = "/{$}"
		}
		handle(http.MethodGet, path, func(w http.ResponseWriter, r *http.Request) { d.page(w, r, view) })
		handle(http.MethodGet, "/live/"+name, func(w http.ResponseWriter, r *http.Request) { d.stream(w, r, view) })
	}
	handle(http.MethodGet, "/assets/{name}", assets)
	handle(http.MethodGet, "/api/v1/list", d.apiList)
	handle(http.MethodGet, "/api/v1/inspect", d.apiInspect)
	handle(http.MethodGet, "/api/v1/members", d.apiMembers)
	handle(http.MethodGet, "/api/v1/log", d.apiLog)
	handle(http.MethodGet, "/metrics", d.metrics)
	if config.AllowForce {
		handle(http.MethodPost, "/force", d.forceForm)
		handle(http.MethodPost, "/api/v1/unlock", d.apiUnlock)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		d.fail(w, r, http.StatusNotFound, "There is no such page.")
	})
	d.handler = d.guard(mux)
	return d
}

// Close ends streams, and the connections to the masters.
func (d *Dashboard) Close() { d.watch.close() }

// ServeHTTP answers a request. Its path begins at the page: use http.StripPrefix for others.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.handler.ServeHTTP(w, r) }

func text(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(line)) //nolint:errcheck // the client is gone
}

//go:embed web
var web embed.FS

// assets serves what is embedded. It does not change while the process lives.
func assets(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "private, max-age=60")
	http.ServeFileFS(w, r, web, "web/"+r.PathValue("name"))
}
