// Package leasehttp is the door for leases that speaks HTTP: programs in every language acquire,
// extend and release by it. docs/languages.md has its requests and answers.
package leasehttp

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/lease"
	"github.com/redquorum/redquorum/internal/guard"
)

const (
	// mostWaiting is how many requests wait at a time, and mostStreams how many leases are held by
	// streams. Each takes a connection, a place in the line of its name, and about 40 kB.
	mostWaiting = 4096
	mostStreams = 4096

	// answerTimeout bounds the writing of an answer or event: until then, a client has read those
	// before.
	answerTimeout = 10 * time.Second

	// releaseTimeout is for a release whose client may be gone.
	releaseTimeout = 5 * time.Second
)

// ErrEnding is the cause of the end of requests when the server is told to end.
var ErrEnding = errors.New("this server is ending")

// Door answers requests for leases. Its methods may be called from any goroutine.
type Door struct {
	leases  *lease.Leases
	clock   clock.Clock
	mux     *http.ServeMux
	waiting chan struct{} // has room for those that wait
	streams chan struct{} // and this for those that hold
}

// Paths are where the door is.
var Paths = []string{"/api/v1/lease", "/api/v1/hold"}

// New returns the door of leases.
func New(leases *lease.Leases, clk clock.Clock) *Door {
	d := &Door{leases: leases, clock: clk, mux: http.NewServeMux(), waiting: make(chan struct{}, mostWaiting), streams: make(chan struct{}, mostStreams)}
	methods := map[string][]string{}
	for _, one := range []struct {
		method, path string
		handler      http.HandlerFunc
	}{
		{http.MethodGet, Paths[0], d.look},
		{http.MethodPost, Paths[0], d.acquire},
		{http.MethodPut, Paths[0], d.extend},
		{http.MethodDelete, Paths[0], d.release},
		{http.MethodPost, Paths[1], d.hold},
	} {
		d.mux.HandleFunc(one.method+" "+one.path, one.handler)
		methods[one.path] = append(methods[one.path], one.method)
	}
	for path, allowed := range methods {
		takes := strings.Join(allowed, ", ")
		d.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", takes)
			guard.Error(w, http.StatusMethodNotAllowed, errors.New("this address takes "+takes+" only"))
		})
	}
	return d
}

// ServeHTTP answers a request that [guard.Rules] have let in.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.mux.ServeHTTP(w, r) }

// Streams returns how many leases are held by streams.
func (d *Door) Streams() int { return len(d.streams) }

// granted is the answer that grants a lease, and the first event of a stream.
type granted struct {
	Name  string `json:"name"`
	Token string `json:"token"`
	Fence int64  `json:"fence"`
	Valid int64  `json:"valid_ms"`
}

type extended struct {
	Valid int64 `json:"valid_ms"`
}

// acquire grants a lease for its TTL.
func (d *Door) acquire(w http.ResponseWriter, r *http.Request) {
	asked := wish{TTL: usualTTL}
	if !read(w, r, &asked) {
		return
	}
	grant, ok := d.take(w, r, &asked)
	if !ok {
		return
	}
	// An answer that could not be written whole has granted nothing, so its lease is given back.
	// After that, the connection tells nothing: a client may have read the answer and hung up.
	control := answering(w)
	guard.WriteJSON(w, http.StatusCreated, granted{grant.Name, grant.Token, grant.Fence, grant.Valid.Milliseconds()})
	if control.Flush() != nil {
		d.leases.GiveBack(grant)
	}
}

// take acquires what a request asks for, and waits for it if it says so. It reports false if it has
// answered with a refusal, or if the client is gone: then it has given back what came too late.
func (d *Door) take(w http.ResponseWriter, r *http.Request, asked *wish) (grant lease.Grant, ok bool) {
	if asked.Wait > 0 {
		if !enter(w, d.waiting, "requests wait") {
			return grant, false
		}
		defer func() { <-d.waiting }()
	}
	// A wait outlives the bounds of a request, and ends with its connection. A test's writer has no
	// bounds.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) //nolint:errcheck // see above
	grant, err := d.leases.Acquire(r.Context(), lease.Request{
		Name: asked.Name, Token: asked.Token, TTL: time.Duration(asked.TTL), Wait: time.Duration(asked.Wait),
		Owner: asked.Owner, Fence: asked.Fence, Door: "http", From: from(r),
	})
	answering(w)
	if err != nil { // also if its client is gone
		refuse(w, r, err)
		return grant, false
	}
	return grant, true
}

// enter takes a place of those that there are, or refuses.
func enter(w http.ResponseWriter, places chan struct{}, what string) bool {
	select {
	case places <- struct{}{}:
		return true
	default:
		w.Header().Set("Retry-After", "1")
		guard.Error(w, http.StatusServiceUnavailable, errors.New("too many "+what+" at this server; try again, or ask another one"))
		return false
	}
}

// answering gives an answer its time. A test's writer has none.
func answering(w http.ResponseWriter) *http.ResponseController {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(answerTimeout)) //nolint:errcheck // see above
	return control
}

// extend has a lease go on for a TTL from now.
func (d *Door) extend(w http.ResponseWriter, r *http.Request) {
	asked := known{TTL: usualTTL}
	if !read(w, r, &asked) {
		return
	}
	valid, err := d.leases.Extend(r.Context(), asked.Name, asked.Token, time.Duration(asked.TTL))
	if err != nil {
		refuse(w, r, err)
		return
	}
	guard.WriteJSON(w, http.StatusOK, extended{valid.Milliseconds()})
}

// release ends a lease. Whether its client waits for the answer or not, it is released.
func (d *Door) release(w http.ResponseWriter, r *http.Request) {
	var asked known
	if !read(w, r, &asked) {
		return
	}
	ctx, cancel := releasing(r)
	defer cancel()
	if err := d.leases.Release(ctx, asked.Name, asked.Token); err != nil {
		refuse(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// releasing returns the context of a release, also for a client that has hung up.
func releasing(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), releaseTimeout)
}

// looked is the answer to who holds a lease. The token is the holder's alone.
type looked struct {
	Name string `json:"name"`
	Held bool   `json:"held"`
	*holding
	Door string `json:"door,omitempty"`
	From string `json:"from,omitempty"`
}

// look tells who holds a lease.
func (d *Door) look(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if err := checkTexts(name); err != nil {
		guard.Error(w, http.StatusBadRequest, errors.New("give the name in the address: ?name=NAME"))
		return
	}
	holder, held, err := d.leases.Look(r.Context(), name)
	switch {
	case err != nil:
		refuse(w, r, err)
	case held:
		told := holdingOf(&holder)
		guard.WriteJSON(w, http.StatusOK, looked{name, true, &told, holder.Door, holder.From})
	default:
		guard.WriteJSON(w, http.StatusOK, looked{Name: name})
	}
}

// from is where a request comes from, for people: the user, and the address.
func from(r *http.Request) string {
	at := r.RemoteAddr
	if at == "" || at == "@" {
		at = "unix"
	}
	if user := guard.User(r); user != "" {
		return user + "@" + at
	}
	return at
}
