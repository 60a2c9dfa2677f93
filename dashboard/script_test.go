package dashboard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// script is masters that say what the test wants.
type script struct {
	mu     sync.Mutex // guards the locks, where they change
	locks  []survey.Inspection
	events []survey.Event
	calls  uint64        // that a listing costs
	slow   time.Duration // how long it takes
	lag    time.Duration // how long each look takes
	asks   struct{ vitals, list, inspect, names, members, log, history atomic.Int64 }
	spent  atomic.Uint64
	reason atomic.Value
	err    error // of a forced release
}

// set has the masters say that there is one lock.
func (s *script) set(lock survey.Inspection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks = []survey.Inspection{lock}
}

func (s *script) now() []survey.Inspection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locks
}

func (s *script) stats() redlock.Stats {
	return redlock.Stats{Members: 3, Quorum: 2, Cluster: "C", Version: 1, Nodes: []redlock.NodeStats{
		{Stats: pool.Stats{Endpoint: "redis://a:1", State: pool.Up, Calls: s.spent.Load(), Product: "redis", Version: "8"}, Memory: "active"},
		{Stats: pool.Stats{Endpoint: "redis://b:1", State: pool.Up}, Barred: pool.ErrQuarantined, QuarantinedFor: time.Minute, Memory: "lost"},
		{Stats: pool.Stats{Endpoint: "redis://c:1", State: pool.Down, Err: errors.New("dial redis://:secret@c:1: <refused>")}},
	}}
}

func (s *script) vitals(context.Context) []admin.Vitals {
	s.asks.vitals.Add(1)
	time.Sleep(s.lag)
	well := admin.Vitals{RoundTrip: time.Millisecond, Memory: 3 << 20, HasClock: true, Clock: -time.Second}
	return []admin.Vitals{well, well, {Err: errors.New("away")}}
}

func (s *script) list(context.Context) (survey.Listing, error) {
	s.asks.list.Add(1)
	s.spent.Add(s.calls)
	locks := s.now()
	time.Sleep(s.slow)
	return survey.Listing{Complete: true, Quorum: 2, Members: 3, Locks: locks, Nodes: []survey.NodeListing{{}, {}, {}}}, nil
}

func (s *script) inspect(_ context.Context, names []string, _ func(string) bool) (told []survey.Inspection, _ error) {
	s.asks.inspect.Add(1)
	s.asks.names.Add(int64(len(names)))
	for _, name := range names {
		told = append(told, survey.Inspection{Name: name, Verdict: "free", Kind: survey.KindLock, Quorum: 2})
		for _, l := range s.now() {
			if l.Name == name {
				told[len(told)-1] = l
			}
		}
	}
	return told, nil
}

func (s *script) members(context.Context) (survey.Members, error) {
	s.asks.members.Add(1)
	return survey.Members{Cluster: "C", Version: 2, Quorum: 1, Members: []survey.Member{
		{ID: "A1", Endpoint: "redis://a:1", State: survey.MemberVotes, Version: 2}, {ID: "B1", Endpoint: "redis://b:1", State: survey.MemberDown, Version: 1},
	}}, nil
}

func (s *script) log(context.Context) (survey.Events, error) {
	s.asks.log.Add(1)
	return survey.Events{Complete: true, Events: s.events}, nil
}

func (s *script) history(_ context.Context, name string) (survey.Events, error) {
	s.asks.history.Add(1)
	told := survey.Events{Complete: true, Events: []survey.Event{}}
	for _, e := range s.events {
		if e.Key == name {
			told.Events = append(told.Events, e)
		}
	}
	return told, nil
}

func (s *script) force(_ context.Context, name, digest, reason string) (survey.Release, error) {
	s.reason.Store(reason + " " + digest)
	return survey.Release{Inspection: survey.Inspection{Name: name}, KnownBy: "2026-01-01T00:00:00Z", Logged: true}, s.err
}

func (*script) close() {}

// held is a lock that somebody holds.
func held(name, owner string) survey.Inspection {
	in := survey.Inspection{Name: name, Verdict: "held", Value: "VALUEVALUE|" + owner, Owner: owner, Quorum: 2, Members: 3, Kind: survey.KindLock}
	for _, at := range []string{"redis://a:1", "redis://b:1"} {
		in.Nodes = append(in.Nodes, survey.NodeInspection{Endpoint: at, Value: in.Value, Owner: owner, TTLMillis: 9000, Fence: 7})
	}
	in.Nodes[0].Waiting, in.Nodes[0].Waiters = 2, []string{"first", "second"}
	return in
}

// hostile are names that a page must show, and not obey.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "\u202egnp.exe", "a\x00b\r\nSet-Cookie: x", "\xff\xfe", "javascript:alert(1)",
	"../../etc/passwd", "?name=x&y#z", strings.Repeat("<", 4096), "{{.}}", "</title><script>", "'+'",
}

func open(t *testing.T, s *script, with settings) *Handler {
	t.Helper()
	d := newHandler(s, with, clocktest.New())
	t.Cleanup(d.Close)
	return d
}

// local is the context of a request to this machine.
func local(ctx context.Context) context.Context {
	return context.WithValue(ctx, http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv6loopback})
}

func do(d http.Handler, method, target string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r = r.WithContext(local(r.Context()))
	r.Host = "localhost:8700"
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

func get(t *testing.T, d http.Handler, target string) string {
	t.Helper()
	w := do(d, "GET", target)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return w.Body.String()
}
