// Package dashboard is a page about masters and their locks, as an http.Handler: what `redlock
// serve` serves, and contrib/dashboard for the servers of others.
package dashboard

import (
	"context"
	"embed"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/survey"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Config says what a dashboard shows, and to whom.
type Config struct {
	// Dial returns new nodes for the masters of the list. It is called again when the members have
	// changed. The dashboard closes them.
	Dial func() ([]*pool.Node, error)

	KeyPrefix string           // of the locks that are shown
	MaxTTL    time.Duration    // of the locks
	Options   []redlock.Option // further ones, for the Locker that looks
	Bounds    survey.Bounds    // of a scan of one master

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
	d := &Dashboard{config: config, watch: newWatch(s, clk), streams: make(chan struct{}, mostStreams)}
	mux := http.NewServeMux()
	for name, view := range views {
		pattern := "GET /" + name
		if name == "masters" {
			pattern = "GET /{$}"
		}
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { d.page(w, r, view) })
		mux.HandleFunc("GET /live/"+name, func(w http.ResponseWriter, r *http.Request) { d.stream(w, r, view) })
	}
	mux.HandleFunc("GET /assets/{name}", assets)
	mux.HandleFunc("GET /api/v1/list", d.apiList)
	mux.HandleFunc("GET /api/v1/inspect", d.apiInspect)
	mux.HandleFunc("GET /api/v1/members", d.apiMembers)
	mux.HandleFunc("GET /api/v1/log", d.apiLog)
	mux.HandleFunc("GET /metrics", d.metrics)
	if config.AllowForce {
		mux.HandleFunc("POST /force", d.forceForm)
		mux.HandleFunc("POST /api/v1/unlock", d.apiUnlock)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		d.fail(w, r, http.StatusNotFound, "There is no such page.")
	})
	guarded := http.NewCrossOriginProtection().Handler(mux)
	d.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		switch {
		case r.URL.Path == "/healthz": // tells only that the process serves
			text(w, http.StatusOK, "ok\n")
		case d.admits(w, r):
			guarded.ServeHTTP(w, r)
		}
	})
	return d
}

// Close ends streams, and the connections to the masters.
func (d *Dashboard) Close() { d.watch.close() }

// ServeHTTP answers a request. Its path begins at the page: use http.StripPrefix for others.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.handler.ServeHTTP(w, r) }

// protect sets what browsers go by. Nothing comes from another host, nothing is inline, and no
// other page can frame this one. The referrer stays on the site, because the names of locks are in
// it; with "no-referrer", browsers would send the form without an origin.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

type userKey struct{}

// admits reports whether a request may be answered; otherwise it was refused.
func (d *Dashboard) admits(w http.ResponseWriter, r *http.Request) bool {
	if d.config.Login == nil {
		address, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if IsLocal(address) && d.isOurs(r.Host, address) {
			return true
		}
		text(w, http.StatusForbidden, "Without a login, this page is for browsers on its own machine, at localhost.\n")
		return false
	}
	user, ok := d.config.Login(r)
	if ok {
		*r = *r.WithContext(context.WithValue(r.Context(), userKey{}, user))
		return true
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="redlock", charset="UTF-8"`)
	text(w, http.StatusUnauthorized, "Log in.\n")
	return false
}

// IsLocal reports whether only this machine can connect to an address.
func IsLocal(address net.Addr) bool {
	switch at := address.(type) {
	case *net.TCPAddr:
		return at.IP.IsLoopback()
	case *net.UDPAddr: // HTTP/3
		return at.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	default: // a server that does not tell
		return false
	}
}

// isOurs reports whether a request is for this machine, or for a name that was given. The page of
// another site can have a name of its own lead here, and learns nothing.
func (d *Dashboard) isOurs(host string, address net.Addr) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	_, socket := address.(*net.UnixAddr) // browsers cannot reach one
	return socket || slices.ContainsFunc(d.config.Hosts, func(name string) bool { return strings.EqualFold(name, host) })
}

// userOf returns who has logged in.
func userOf(r *http.Request) string {
	user, _ := r.Context().Value(userKey{}).(string)
	return user
}

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
