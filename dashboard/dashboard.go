// Package dashboard is a page about Redis masters and their locks, for your own HTTP server: what
// `redlock serve` serves. docs/dashboard.md has what it shows, and what it costs the masters.
//
//	page, err := dashboard.New(ctx, endpoints)
//	...
//	defer page.Close()
//	mux.Handle("/locks/", http.StripPrefix("/locks", page))
package dashboard

import (
	"context"
	"embed"
	"fmt"
	"net"
	"net/http"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/guard"
	"github.com/redquorum/redquorum/redlock"
)

var errNoLogin = fmt.Errorf("%w: whoever may take locks away must log in", redlock.ErrInvalid)

// Handler is the page. Its methods may be called from any goroutine.
type Handler struct {
	settings settings
	watch    *watch
	handler  http.Handler
	streams  chan struct{} // has room for those that are open
	reading  chan struct{} // and this for clients that read large answers
}

// New connects to masters, and returns their page after 1.8 seconds at most, whether they answer or
// not. It has connections of its own, and takes no locks. Ctx ends the wait. The errors are those
// of redlock.New. Close the Handler.
func New(ctx context.Context, endpoints []string, opts ...Option) (*Handler, error) {
	s := defaults
	for _, opt := range opts {
		opt(&s)
	}
	switch {
	case s.force && s.login == nil:
		return nil, errNoLogin
	case s.query.Keys < 1 || s.query.Locks < 1:
		return nil, fmt.Errorf("%w: WithBounds(%d, %d): both are 1 or more", redlock.ErrInvalid, s.query.Keys, s.query.Locks)
	}
	if err := checkQueues(s.queues); err != nil {
		return nil, err
	}
	m, err := openMasters(ctx, endpoints, &s)
	if err != nil {
		return nil, err
	}
	return newHandler(m, s, clock.System()), nil
}

func newHandler(s source, with settings, clk clock.Clock) *Handler {
	h := &Handler{settings: with, watch: newWatch(s, with.queues, clk), streams: make(chan struct{}, mostStreams), reading: make(chan struct{}, mostReading)}
	mux := http.NewServeMux()
	handle := func(method, path string, handler http.HandlerFunc) {
		mux.HandleFunc(method+" "+path, handler)
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", method)
			h.fail(w, r, http.StatusMethodNotAllowed, "This address takes "+method+" only.")
		})
	}
	for name, view := range views {
		if view.ofQueues && len(with.queues) == 0 {
			continue
		}
		path := "/" + name
		if name == "masters" {
			path = "/{$}"
		}
		handle(http.MethodGet, path, func(w http.ResponseWriter, r *http.Request) { h.page(w, r, view) })
		handle(http.MethodGet, "/live/"+name, func(w http.ResponseWriter, r *http.Request) { h.stream(w, r, view) })
	}
	handle(http.MethodGet, "/assets/{name}", assets)
	handle(http.MethodGet, "/api/v1/list", h.apiList)
	handle(http.MethodGet, "/api/v1/inspect", h.apiInspect)
	handle(http.MethodGet, "/api/v1/members", h.apiMembers)
	handle(http.MethodGet, "/api/v1/log", h.apiLog)
	handle(http.MethodGet, "/metrics", h.metrics)
	if len(with.queues) > 0 {
		handle(http.MethodGet, "/api/v1/queues", h.apiQueues)
		handle(http.MethodGet, "/api/v1/queue", h.apiQueue)
	}
	if with.force {
		handle(http.MethodPost, "/force", h.forceForm)
		handle(http.MethodPost, "/api/v1/unlock", h.apiUnlock)
		if len(with.queues) > 0 {
			handle(http.MethodPost, "/settle", h.settleForm)
			handle(http.MethodPost, "/api/v1/retry", h.apiSettle("retry"))
			handle(http.MethodPost, "/api/v1/drop", h.apiSettle("drop"))
		}
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.fail(w, r, http.StatusNotFound, "There is no such page.")
	})
	rules := guard.Rules{Login: with.login, Hosts: with.hosts}
	h.handler = rules.Guard(mux)
	return h
}

// Close ends streams, and the connections to the masters.
func (h *Handler) Close() { h.watch.close() }

// IsLocal reports whether only this machine can connect to an address.
func IsLocal(address net.Addr) bool { return guard.IsLocal(address) }

// ServeHTTP answers a request. Its path begins at the page: use http.StripPrefix for others.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.handler.ServeHTTP(w, r) }

//go:embed web
var web embed.FS

// assets serves what is embedded. It does not change while the process lives.
func assets(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "private, max-age=60")
	http.ServeFileFS(w, r, web, "web/"+r.PathValue("name"))
}
