package leasehttp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/lease"
	"github.com/redquorum/redquorum/internal/proof/virtual"
)

func TestMain(m *testing.M) { virtual.OneProcessor(m) }

// server is a Door behind a real server of HTTP, by connections in memory.
type server struct {
	t     *testing.T
	door  *Door
	conns chan net.Conn
	end   context.CancelCauseFunc // of all requests

	failing atomic.Bool // writes of the server fail
	silence chan struct{}
}

// fleet runs a test on three masters and two servers.
func fleet(t *testing.T, test func(t *testing.T, c *virtual.Cluster, a, b *server)) {
	t.Helper()
	virtual.InBubble(t, 3, func(t *testing.T, c *virtual.Cluster) {
		test(t, c, serve(t, c), serve(t, c))
		time.Sleep(time.Second) // package http lingers on a connection whose request it has not read
	})
}

func serve(t *testing.T, c *virtual.Cluster) *server {
	s := &server{t: t, door: New(lease.New(c.Locker()), c.Clock), conns: make(chan net.Conn), silence: make(chan struct{})}
	ctx, end := context.WithCancelCause(context.WithoutCancel(t.Context()))
	s.end = end
	serves := &http.Server{
		Handler: s.door, ConnContext: WithConn, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, // as redlock serve has
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		assert.ErrorIs(t, serves.Serve(Listener(s)), http.ErrServerClosed)
	}()
	t.Cleanup(func() {
		end(nil)
		assert.NoError(t, serves.Close())
		<-ended
	})
	return s
}

func (s *server) Accept() (net.Conn, error) {
	conn, open := <-s.conns
	if !open {
		return nil, net.ErrClosed
	}
	return &serverConn{Conn: conn, server: s}, nil
}
func (s *server) Close() error   { close(s.conns); return nil }
func (s *server) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// serverConn is the end of the server.
type serverConn struct {
	net.Conn
	server *server
}

func (c *serverConn) Write(p []byte) (int, error) {
	if c.server.failing.Load() {
		return 0, syscall.EPIPE
	}
	return c.Conn.Write(p)
}

// Read fails as that of a connection whose peer is silent, when the test says so.
func (c *serverConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	select {
	case <-c.server.silence:
		return 0, syscall.ETIMEDOUT
	default:
		return n, err
	}
}

// send makes a request, by a connection of its own.
func (s *server) send(ctx context.Context, method, path, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://server"+path, strings.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", "application/json")
	return (&http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		client, conn := net.Pipe()
		s.conns <- conn
		return client, nil
	}}).RoundTrip(r)
}

// answer is what the door may say.
type answer struct {
	Status int `json:"-"`

	Name, Token, Error, Holder, Why, Door, From string

	Fence int64
	Valid int64 `json:"valid_ms"`
	Since *time.Time

	HeldFor *int64 `json:"held_ms"`
	Masters []master
}

func (s *server) do(method, path, body string) (a answer) {
	s.t.Helper()
	response, err := s.send(s.t.Context(), method, path, body)
	require.NoError(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	if response.StatusCode != http.StatusNoContent {
		require.Equal(s.t, "application/json", response.Header.Get("Content-Type"))
		require.EqualValues(s.t, len(text), response.ContentLength, "or its end takes a write of its own")
		require.NoError(s.t, json.Unmarshal(text, &a), "%s", text)
	}
	a.Status = response.StatusCode
	return a
}

func (s *server) lease(method, body string) answer {
	s.t.Helper()
	return s.do(method, Paths[0], body)
}

// of is the body of a request about a lease.
func of(name, token string) string { return fmt.Sprintf(`{"name":%q,"token":%q}`, name, token) }

// grant takes a lease of 10 s.
func (s *server) grant(name string) answer {
	s.t.Helper()
	a := s.lease("POST", fmt.Sprintf(`{"name":%q,"ttl":"10s"}`, name))
	require.Equal(s.t, http.StatusCreated, a.Status, a)
	return a
}

func TestALeaseIsGrantedExtendedAndReleasedByAnyServer(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, b *server) {
		got := a.lease("POST", `{"name":"order/42","ttl":"10s","owner":"worker 3","fence":true}`)
		assert.Equal(t, answer{Status: 201, Name: "order/42", Token: got.Token, Fence: got.Fence, Valid: 10_000}, got)
		assert.NotEmpty(t, got.Token)
		assert.Positive(t, got.Fence)

		time.Sleep(3 * time.Second)
		refused := b.lease("POST", `{"name":"order/42"}`)
		require.NotNil(t, refused.HeldFor)
		assert.Equal(t, answer{Status: 409, Error: "taken", Holder: "worker 3", Since: refused.Since, HeldFor: refused.HeldFor}, refused)
		assert.InDelta(t, 3000, *refused.HeldFor, 1000, "values tell seconds")

		looked := b.do("GET", Paths[0]+"?name=order%2F42", "")
		assert.Equal(t, []string{"worker 3", "http", "pipe", ""}, []string{looked.Holder, looked.Door, looked.From, looked.Token})

		sentBack := fmt.Sprintf(`{"name":"order/42","token":%q,"fence":%d,"valid_ms":10000}`, got.Token, got.Fence)
		assert.Equal(t, answer{Status: 200, Valid: 30_000}, b.lease("PUT", sentBack))
		assert.Equal(t, answer{Status: 410, Error: "lost"}, a.lease("PUT", `{"name":"order/42","token":"another"}`))
		assert.Equal(t, answer{Status: 410, Error: "lost"}, a.lease("DELETE", `{"name":"order/42","token":"another"}`))
		assert.Equal(t, answer{Status: 204}, b.lease("DELETE", sentBack))
		assert.Equal(t, answer{Status: 410, Error: "lost"}, a.lease("DELETE", sentBack))
		assert.Equal(t, answer{Status: 410, Error: "lost"}, a.lease("PUT", sentBack))
		assert.Equal(t, answer{Status: 200, Name: "order/42"}, a.do("GET", Paths[0]+"?name=order%2F42", ""))
		c.Free("order/42")
	})
}

func TestTooFewMastersAreToldOneByOne(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, _ *server) {
		got := a.grant("n")
		for _, i := range []int{0, 1} {
			c.Servers[i].Stop()
		}
		for _, refused := range []answer{
			a.lease("POST", `{"name":"m"}`), a.lease("PUT", of("n", got.Token)),
			a.lease("DELETE", of("n", got.Token)), a.do("GET", Paths[0]+"?name=n", ""),
		} {
			assert.Equal(t, 503, refused.Status)
			assert.Equal(t, "no quorum", refused.Error)
			require.Len(t, refused.Masters, 2, refused.Why)
			assert.Equal(t, "redis://node0:6379", refused.Masters[0].Endpoint)
			assert.NotEmpty(t, refused.Masters[0].Error)
		}
	})
}

func TestWhatIsNoRequestIsRefusedInJSON(t *testing.T) {
	long := strings.Repeat("x", mostBody)
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, _ *server) {
		for _, one := range []struct {
			method, path, body string
			status             int
			says               string
		}{
			{"POST", Paths[0], ``, 400, "JSON object"},
			{"POST", Paths[0], `{"name":"n"`, 400, "JSON object"},
			{"POST", Paths[0], `["n"]`, 400, "JSON object"},
			{"POST", Paths[0], `{"name":"n"} {}`, 400, "behind"},
			{"POST", Paths[0], `{}`, 400, `"name"`},
			{"POST", Paths[0], `{"name":"n","fenced":true}`, 400, `unknown field \"fenced\"`},
			{"POST", Paths[0], `{"name":"n","ttl":30}`, 400, `\"30s\"`},
			{"POST", Paths[0], `{"name":"n","ttl":"30"}`, 400, `\"30s\"`},
			{"POST", Paths[0], `{"name":"n","ttl":"-1s"}`, 400, "no duration"},
			{"POST", Paths[0], `{"name":"n","ttl":"5h"}`, 400, "max-ttl"},
			{"POST", Paths[0], `{"name":"n","ttl":"1ns"}`, 400, "TTL"},
			{"POST", Paths[0], `{"name":"n","wait":"2h"}`, 400, "ask again"},
			{"POST", Paths[0], `{"name":"n","token":"` + long[:200] + `"}`, 400, "token"},
			{"POST", Paths[0], `{"name":"a\ud800"}`, 400, "UTF-8"},
			{"POST", Paths[0], "{\"name\":\"a\xff\"}", 400, "UTF-8"},
			{"POST", Paths[0], `{"name":"redquorum:memory"}`, 400, "redquorum:"},
			{"POST", Paths[0], `{"name":"` + long + `"}`, 413, "bytes at most"},
			{"PUT", Paths[0], `{"name":"n"}`, 400, `"token" is missing`},
			{"DELETE", Paths[0], `{"token":"t"}`, 400, `"name" is missing`},
			{"DELETE", Paths[0], ``, 400, "JSON object"},
			{"GET", Paths[0], ``, 400, "?name="},
			{"PATCH", Paths[0], `{}`, 405, "GET, POST, PUT, DELETE"},
			{"GET", Paths[1], ``, 405, "POST"},
		} {
			got := a.do(one.method, one.path, one.body)
			assert.Equal(t, one.status, got.Status, one)
			assert.Contains(t, got.Error, strings.ReplaceAll(one.says, `\"`, `"`), one.body[:min(len(one.body), 50)])
		}
		c.Free("n")
	})
}

// A program need not say that it sends JSON. A page of another site can send a form in a browser.
func TestAFormOfAPageIsNoRequest(t *testing.T) {
	fleet(t, func(t *testing.T, _ *virtual.Cluster, a, _ *server) {
		for i, of := range []struct {
			kind, header, value string
			status              int
		}{
			{"text/plain", "Origin", "https://elsewhere.example", http.StatusUnsupportedMediaType},
			{"text/plain", "Sec-Fetch-Mode", "no-cors", http.StatusUnsupportedMediaType},
			{"application/x-www-form-urlencoded", "Referer", "https://elsewhere.example/a", http.StatusUnsupportedMediaType},
			{"", "User-Agent", "Mozilla/5.0 (X11; Linux x86_64)", http.StatusUnsupportedMediaType},
			{"application/json; charset=utf-8", "User-Agent", "Mozilla/5.0 (X11; Linux x86_64)", http.StatusCreated},
			{"application/x-www-form-urlencoded", "User-Agent", "curl/8.5.0", http.StatusCreated},
			{"", "User-Agent", "python-requests/2.31", http.StatusCreated},
		} {
			w := httptest.NewRecorder()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, Paths[0], strings.NewReader(fmt.Sprintf(`{"name":"%d"}`, i)))
			require.NoError(t, err)
			r.Header.Set("Content-Type", of.kind)
			r.Header.Set(of.header, of.value)
			a.door.ServeHTTP(w, r)
			assert.Equal(t, of.status, w.Code, of)
			if of.status != http.StatusCreated {
				assert.Contains(t, w.Body.String(), "application/json")
			}
		}
	})
}

// later makes a request that waits, in the background.
func (s *server) later(ctx context.Context, path, body string) (told chan answer) {
	told = make(chan answer, 1)
	go func() {
		response, err := s.send(ctx, http.MethodPost, path, body)
		if err != nil {
			told <- answer{Error: err.Error()}
			return
		}
		defer response.Body.Close()
		a := answer{Status: response.StatusCode}
		if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
			a.Error = err.Error()
		}
		told <- a
	}()
	virtual.Settle()
	return told
}

func TestAWaitStandsInTheLineOfTheFleet(t *testing.T) {
	fleet(t, func(t *testing.T, _ *virtual.Cluster, a, b *server) {
		holds := a.grant("n")
		const body = `{"name":"n","ttl":"10s","wait":"25s"}`
		first, second := b.later(t.Context(), Paths[0], body), a.later(t.Context(), Paths[0], body)
		time.Sleep(5 * time.Second)
		assert.Equal(t, 204, a.lease("DELETE", of("n", holds.Token)).Status)
		next := <-first
		assert.Equal(t, 201, next.Status, next)
		assert.Equal(t, int64(10_000), next.Valid)
		assert.Empty(t, second)
		assert.Equal(t, 204, a.lease("DELETE", of("n", next.Token)).Status)
		next = <-second
		assert.Equal(t, 201, next.Status, "longer than the time that a request has to be read: %v", next)
		assert.Equal(t, 200, a.lease("PUT", fmt.Sprintf(`{"name":"n","token":%q,"ttl":"50s"}`, next.Token)).Status)
		began := time.Now()
		assert.Equal(t, 409, b.lease("POST", `{"name":"n","wait":"40s"}`).Status)
		assert.Equal(t, 40*time.Second, time.Since(began).Truncate(time.Second), "longer than the time of an answer")
	})
}

func TestAWaitEndsWithItsConnection(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, b *server) {
		holds := a.grant("n")
		ctx, hangUp := context.WithCancel(t.Context())
		gone := b.later(ctx, Paths[0], `{"name":"n","wait":"1m"}`)
		require.Len(t, b.door.waiting, 1)
		hangUp()
		<-gone
		virtual.Settle()
		require.Empty(t, b.door.waiting)
		assert.Equal(t, 204, a.lease("DELETE", of("n", holds.Token)).Status)
		time.Sleep(time.Second) // as long as a place in the line may be handed what nobody takes
		c.Free("n")
	})
}

func TestALeaseWhoseAnswerCannotBeWrittenIsGivenBack(t *testing.T) {
	for _, path := range Paths {
		fleet(t, func(t *testing.T, c *virtual.Cluster, a, _ *server) {
			a.failing.Store(true)
			_, err := a.send(t.Context(), http.MethodPost, path, `{"name":"n"}`)
			require.Error(t, err)
			c.Free("n")
		})
	}
}

func TestTooManyThatWaitOrHoldAreRefused(t *testing.T) {
	fleet(t, func(t *testing.T, _ *virtual.Cluster, a, _ *server) {
		a.door.waiting, a.door.streams = make(chan struct{}), make(chan struct{})
		for path, body := range map[string]string{Paths[0]: `{"name":"n","wait":"1s"}`, Paths[1]: `{"name":"n"}`} {
			refused := a.do("POST", path, body)
			assert.Equal(t, 503, refused.Status)
			assert.Contains(t, refused.Error, "too many")
		}
		a.grant("n") // who does not wait needs no place
	})
}
