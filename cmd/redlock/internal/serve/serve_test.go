package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/leasehttp"
	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

func TestMain(m *testing.M) {
	search.RunMore(6) // they wait for other programs
	os.Exit(m.Run())
}

func TestMistakesAreUsageErrors(t *testing.T) {
	t.Parallel()
	short := filepath.Join(t.TempDir(), "short")
	require.NoError(t, os.WriteFile(short, []byte("# us\nann:too short\n"), 0o600))
	for says, args := range map[string][]string{
		"give --login-file":                    {"--listen", "0.0.0.0:0"},
		"others than this machine":             {"--listen", "192.0.2.1:80"},
		"host:port, unix:PATH or systemd":      {"--listen", "8700"},
		"unix: needs a path":                   {"--listen", "unix:"},
		"--redis: give host:port or unix:PATH": {"--demo", "--allow-locks", "--redis", "systemd"},
		"--redis-cert and --redis-key go":      {"--allow-locks", "--redis", "127.0.0.1:0", "--redis-cert", "a"},
		"--redis-cert and --redis-key: open":   {"--demo", "--allow-locks", "--redis", "127.0.0.1:0", "--redis-cert", "/none", "--redis-key", "/none"},
		"--redis and --default-ttl need":       {"--redis", "127.0.0.1:0"},
		"no socket from systemd":               {"--listen", "systemd"},
		"line 2: give USER:PASSWORD":           {"--login-file", short},
		"a path begins with /":                 {"--path-prefix", "locks"},
		"which store? Set REDLOCK_STORE, or":   {"--nodes", "a:1", "--queue", "orders"},
		"is given twice":                       {"--nodes", "a:1", "--queue", "orders", "--queue", "orders", "--store", "b:1"},
		"the store: ":                          {"--nodes", "a:1", "--queue", "orders", "--store", ":::secret"},
		"--scan and --limit":                   {"--limit", "0"},
		"serve takes no arguments":             {"redis://:secret@a:1"},
		"which masters? Set REDLOCK_NODES, or": {"--listen", "127.0.0.1:0"},
	} {
		if !slices.Contains(args, "--listen") { // on the default port may be somebody else
			args = append(args, "--listen", "127.0.0.1:0")
		}
		status, _, stderr := clitest.Line(clitest.Root(NewCommand()), append([]string{"serve"}, args...)...)
		assert.Equal(t, cli.ExitUsage, status, args)
		assert.Contains(t, stderr, says, args)
		assert.NotContains(t, stderr, "secret", args)
	}
}

func TestWhoeverHasNoPasswordIsRefusedAndWaits(t *testing.T) {
	l, err := parseLogins([]byte("# us\nann:correct horse\nbattery staple"))
	require.NoError(t, err)
	request := func(user, password string) *http.Request {
		r := httptest.NewRequest("GET", "/", nil)
		if r.SetBasicAuth(user, password); user == "bearer" {
			r.Header.Set("Authorization", "Bearer "+password)
		}
		return r
	}
	for _, c := range []struct {
		user, password, want string
		ok                   bool
	}{
		{"ann", "correct horse", "ann", true},
		{"bob", "correct horse", "", false},
		{"bob", "battery staple", "bob", true},
		{"bearer", "battery staple", "somebody with the password", true},
		{"", "battery staple", "somebody with the password", true},
		{"bearer", "correct horse", "", false},
		{"ann", "", "", false},
	} {
		r := request(c.user, c.password)
		ctx, cancel := context.WithCancel(t.Context())
		if !c.ok {
			cancel() // so that the test need not wait
		}
		user, ok := l.of(r.WithContext(ctx))
		cancel()
		assert.Equal(t, c.ok, ok, c)
		assert.Equal(t, c.want, user, c)
	}
	_, ok := l.of(httptest.NewRequest("GET", "/", nil))
	assert.False(t, ok, "without a guess nobody waits")
	_, err = parseLogins([]byte("# nobody\n"))
	require.ErrorIs(t, err, errNobody)
}

func TestWhoeverHangsUpHasHadAGuess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := parseLogins([]byte("ann:correct horse"))
		require.NoError(t, err)
		const seconds = 10
		var compared, entered atomic.Int64
		var all sync.WaitGroup
		end := time.Now().Add(seconds * time.Second)
		for range 50 {
			all.Go(func() {
				for time.Now().Before(end) {
					// It knows after a moment: a right password is answered at once.
					ctx, hangUp := context.WithTimeout(t.Context(), 20*time.Millisecond)
					r := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
					r.SetBasicAuth("ann", "correct horse")
					if compared.Add(1)%50 != 0 {
						r.SetBasicAuth("ann", "a wrong guess")
					}
					if _, ok := l.of(r); ok {
						entered.Add(1)
					}
					<-ctx.Done()
					hangUp()
				}
			})
		}
		all.Wait()
		assert.LessOrEqual(t, entered.Load(), int64(seconds), "of %d guesses, every 50th is right, and 8 a second are compared", compared.Load())
		r := httptest.NewRequest("GET", "/", nil)
		r.SetBasicAuth("ann", "correct horse")
		began := time.Now()
		_, ok := l.of(r)
		assert.True(t, ok)
		assert.LessOrEqual(t, time.Since(began), refusalPause, "behind those who guess")
		time.Sleep(refusalPause)
	})
}

func TestThePagesAreBelowThePrefixAlone(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, r.URL.Path, http.StatusOK) })
	handler := (&flags{prefix: "/locks/"}).handler(page, nil, nil)
	for path, want := range map[string]string{
		"/locks/api": "/api\n", "/locks/": "/\n", "/nothing": "404 page not found\n",
		"/api/v1/lease": "{\n  \"error\": \"this server has everything below /locks\"\n}\n",
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		assert.Equal(t, want, w.Body.String())
	}
}

func TestASocketIsForItsOwnerAndGroupAndAnOldOneIsReplaced(t *testing.T) {
	t.Chdir(t.TempDir()) // whose path may be longer than that of a socket can be
	const path = "web.sock"
	f := flags{listen: "unix:" + path}
	first, err := f.open()
	require.NoError(t, err)
	first = first.(*ownSocket).UnixListener // as of a process that was killed
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o660), info.Mode().Perm())
	_, err = f.open()
	require.ErrorContains(t, err, "somebody listens")
	require.NoError(t, first.Close())
	second, err := f.open()
	require.NoError(t, err)
	defer second.Close()
}

// A socket of somebody else tells no more than an error.
func TestASocketOnWhichSomebodyMayListenStays(t *testing.T) {
	for what, make := range map[string]func(path string) (end func() error, err error){
		"alive": func(path string) (func() error, error) {
			l, err := net.Listen("unix", path)
			return func() error { return l.Close() }, err
		},
		"of another kind": func(path string) (func() error, error) {
			c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
			return func() error { return c.Close() }, err
		},
		"with a full queue": func(path string) (func() error, error) {
			l, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			err = errors.Join(err, syscall.Bind(l, &syscall.SockaddrUnix{Name: path}), syscall.Listen(l, 0))
			c, err2 := net.Dial("unix", path)
			return func() error { return errors.Join(c.Close(), syscall.Close(l)) }, errors.Join(err, err2)
		},
	} {
		t.Chdir(t.TempDir()) // as above
		const path = "web.sock"
		end, err := make(path)
		require.NoError(t, err, what)
		before, err := os.Lstat(path)
		require.NoError(t, err, what)
		_, err = listenUnix("--listen", path)
		require.ErrorContains(t, err, "listen", what)
		after, err := os.Lstat(path)
		require.NoError(t, err, what)
		assert.True(t, os.SameFile(before, after), what)
		require.NoError(t, end(), what)
	}
}

func TestASocketThatTookThePlaceOfOursStays(t *testing.T) {
	t.Chdir(t.TempDir()) // as above
	const path = "web.sock"
	first, err := listenUnix("--listen", path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	second, err := listenUnix("--listen", path)
	require.NoError(t, err)
	require.NoError(t, first.Close())
	require.FileExists(t, path)
	require.NoError(t, second.Close())
	require.NoFileExists(t, path)
}

func TestTheSignalToEndEndsStreamsAsWell(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- serve(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			assert.NoError(t, http.NewResponseController(w).Flush())
			<-r.Context().Done()
		}))
	}()
	response, err := http.Get("http://" + listener.Addr().String())
	require.NoError(t, err)
	defer response.Body.Close()
	stop()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		require.Fail(t, "it goes on")
	}
}

// start runs `redlock serve`. It returns what was said, one text for each line.
func start(t *testing.T, lines int, args ...string) (said []string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	root := clitest.Root(NewCommand())
	root.SetErr(write)
	root.SetArgs(append([]string{"serve"}, args...))
	ended := make(chan error)
	go func() { ended <- root.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
	})
	for range lines {
		text := make([]byte, 4096)
		n, err := read.Read(text)
		require.NoError(t, err)
		said = append(said, strings.TrimSuffix(string(text[:n]), "\n"))
	}
	return said
}

func TestTheDemoServesAHeldLock(t *testing.T) {
	t.Parallel()
	said := start(t, 2, "--demo", "--listen", "127.0.0.1:0", "--allow-force")
	assert.Regexp(t, "the password [A-Z2-7]{26}$", said[0])
	password := said[0][len(said[0])-26:]
	url := strings.TrimPrefix(said[1], "redlock: serving ")
	clitest.WaitFor(t, "a lock", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"api/v1/inspect?name=nightly", nil)
		require.NoError(t, err)
		r.SetBasicAuth("me", password)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return strings.Contains(string(body), `"verdict": "held"`) && strings.Contains(string(body), "deploy@web-")
	})
	response, err := http.Get(url)
	require.NoError(t, err)
	assert.Equal(t, http.StatusUnauthorized, response.StatusCode)
	require.NoError(t, response.Body.Close())
}

func TestAQueueIsOnThePage(t *testing.T) {
	t.Parallel()
	store := redlocktest.Start(t, 1)
	said := start(t, 1, "--demo", "--listen", "127.0.0.1:0", "--queue", "orders", "--store", store.Endpoints()[0])
	status, body := request(t, http.DefaultClient, http.MethodGet, strings.TrimPrefix(said[0], "redlock: serving ")+"api/v1/queues", "")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, `"queue": "orders"`)
	assert.Contains(t, body, `"dead": 0`)
}

// request returns the status and the body of an answer.
func request(t *testing.T, client *http.Client, method, url, body string, change ...func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	for _, f := range change {
		f(r)
	}
	response, err := client.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func TestProgramsTakeLocksByASocketWithoutALogin(t *testing.T) {
	t.Chdir(t.TempDir()) // as above
	const path = "locks.sock"
	start(t, 1, "--demo", "--listen", "unix:"+path, "--allow-locks")
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	const url, body = "http://redlock/api/v1/lease", `{"name":"order/42","ttl":"5s","token":"mine","owner":"worker 3"}`
	clitest.WaitFor(t, "a lock", func() bool { // when the masters vote
		status, _ := request(t, client, http.MethodPost, url, body)
		return status == http.StatusCreated
	})
	status, text := request(t, client, http.MethodPost, url, body)
	assert.Equal(t, http.StatusConflict, status, text)
	status, text = request(t, client, http.MethodGet, "http://redlock/metrics", "")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, text, "redquorum_serve_leases_total{door=\"http\",result=\"granted\"} 1\n")
	assert.Contains(t, text, "redquorum_serve_leases_total{door=\"http\",result=\"taken\"} 1\n")
	assert.Contains(t, text, "redquorum_serve_leases_waiting{door=\"http\"} 0\n")
	assert.Contains(t, text, "redquorum_serve_leases_streamed{door=\"http\"} 0\n")
	assert.Contains(t, text, "redquorum_quorum_nodes ", "with the figures of the page")
	_, text = request(t, client, http.MethodGet, "http://redlock/api/v1/inspect?name=order%2F42", "")
	assert.Contains(t, text, `"owner": "worker 3 (by http, from unix)"`)
	status, text = request(t, client, http.MethodDelete, url, body)
	assert.Equal(t, http.StatusBadRequest, status, text)
	status, text = request(t, client, http.MethodDelete, url, `{"name":"order/42","token":"mine"}`)
	assert.Equal(t, http.StatusNoContent, status, text)
}

// doorsWithoutMasters refuse what says no name.
var doorsWithoutMasters = doors{http: leasehttp.New(nil, clock.System())}

func TestWhoMayTakeLocks(t *testing.T) {
	handler := func(f *flags, allowed bool) http.Handler {
		var doors *doors
		if allowed {
			doors = &doorsWithoutMasters
		}
		l, err := parseLogins([]byte("ann:correct horse"))
		require.NoError(t, err)
		if f.loginFile == "" {
			l = nil
		}
		return f.handler(http.NotFoundHandler(), doors, l)
	}
	local, remote := &net.TCPAddr{IP: net.IPv6loopback}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}
	for what, c := range map[string]struct {
		handler http.Handler
		change  func(*http.Request)
		to      net.Addr
		status  int
	}{
		"this machine":         {handler(&flags{}, true), nil, local, 400},
		"a socket":             {handler(&flags{}, true), nil, &net.UnixAddr{}, 400},
		"elsewhere":            {handler(&flags{}, true), nil, remote, 403},
		"another name":         {handler(&flags{}, true), func(r *http.Request) { r.Host = "evil.example" }, local, 403},
		"another site":         {handler(&flags{}, true), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, local, 403},
		"another origin":       {handler(&flags{}, true), func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, local, 403},
		"a proxy":              {handler(&flags{}, true), func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.7") }, local, 403},
		"without a login":      {handler(&flags{loginFile: "f"}, true), nil, local, 401},
		"with a login":         {handler(&flags{loginFile: "f"}, true), func(r *http.Request) { r.SetBasicAuth("ann", "correct horse") }, remote, 400},
		"without --allow-lock": {handler(&flags{}, false), nil, local, 404},
	} {
		for _, path := range []string{"/api/v1/lease", "/api/v1/hold"} {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}"))
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, c.to))
			r.Host = "localhost"
			r.Header.Set("Content-Type", "application/json")
			if c.change != nil {
				c.change(r)
			}
			w := httptest.NewRecorder()
			c.handler.ServeHTTP(w, r)
			assert.Equal(t, c.status, w.Code, what)
			assert.Equal(t, "application/json", w.Header().Get("Content-Type"), what)
			assert.Contains(t, w.Body.String(), `"error": "`, what)
		}
	}
}
