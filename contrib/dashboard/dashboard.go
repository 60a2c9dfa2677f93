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
	"net/http"
	"time"

	"github.com/redquorum/redquorum/dashboard"
	"github.com/redquorum/redquorum/internal/survey"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Handler is the page. Its methods may be called from any goroutine.
type Handler struct{ page *dashboard.Dashboard }

// Option configures a Handler.
type Option func(*settings)

type settings struct {
	config dashboard.Config
	pool   []pool.Option
}

// WithKeyPrefix shows the locks with this prefix, that of redlock.WithKeyPrefix.
func WithKeyPrefix(prefix string) Option { return func(s *settings) { s.config.KeyPrefix = prefix } }

// WithMaxTTL sets the longest TTL of anyone who shares the masters, as redlock.WithMaxTTL does.
// Default: a minute.
func WithMaxTTL(d time.Duration) Option { return func(s *settings) { s.config.MaxTTL = d } }

// WithPool sets options of the connections, such as TLS.
func WithPool(opts ...pool.Option) Option {
	return func(s *settings) { s.pool = append(s.pool, opts...) }
}

// WithHosts has browsers on this machine reach the page by further names than localhost, without a
// login. It is for proxies on the same machine.
func WithHosts(names ...string) Option { return func(s *settings) { s.config.Hosts = names } }

// WithLogin sets who may make a request. The function returns the name of the user, and whether the
// request may be answered: a browser whose may not is asked for a name and a password. Without
// this option, only requests from the same machine are answered.
func WithLogin(login func(r *http.Request) (user string, ok bool)) Option {
	return func(s *settings) { s.config.Login = login }
}

// WithForce lets whoever logs in take locks away from their holders. The log of the masters tells
// who did. It needs [WithLogin].
func WithForce() Option { return func(s *settings) { s.config.AllowForce = true } }

// New connects to masters, and returns their page after 1.8 seconds at most, whether they answer or
// not. It has connections of its own, and takes no locks. Ctx ends the wait. The errors are those
// of redlock.New. Close the Handler.
func New(ctx context.Context, endpoints []string, opts ...Option) (*Handler, error) {
	s := settings{config: dashboard.Config{MaxTTL: time.Minute, Bounds: survey.Bounds{Keys: 100_000, Locks: 20_000}}}
	for _, opt := range opts {
		opt(&s)
	}
	s.config.Open = func(opts ...redlock.Option) (*redlock.Locker, error) {
		return redlock.New(endpoints, append(opts, redlock.WithKeyPrefix(s.config.KeyPrefix), redlock.WithMaxTTL(s.config.MaxTTL),
			redlock.WithPool(append([]pool.Option{pool.WithClientName("redlock-dashboard")}, s.pool...)...))...)
	}
	page, err := dashboard.New(ctx, s.config)
	if err != nil {
		return nil, err
	}
	return &Handler{page}, nil
}

// ServeHTTP answers a request. Its path begins behind the prefix: see http.StripPrefix.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.page.ServeHTTP(w, r) }

// Close ends streams, and the connections to the masters.
func (h *Handler) Close() { h.page.Close() }
