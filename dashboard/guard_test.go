package dashboard

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWithoutALoginOnlyThisMachineIsAnswered(t *testing.T) {
	d := open(t, &script{}, settings{hosts: []string{"ops.example.com"}})
	local, remote, socket := &net.TCPAddr{IP: net.IPv6loopback}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, &net.UnixAddr{}
	for _, c := range []struct {
		host   string
		to     net.Addr
		status int
	}{
		{"127.0.0.1:8700", local, 200},
		{"localhost", local, 200},
		{"[::1]:8700", local, 200},
		{"x.localhost:1", local, 200},
		{"OPS.example.com", local, 200},
		{"anything", socket, 200},
		{"localhost", remote, 403},
		{"localhost", &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1)}, 403}, // HTTP/3
		{"localhost", nil, 403},                                      // a server that does not tell
		{"ops.example.com", remote, 403},
		{"127.0.0.1.evil.com:80", local, 403},
		{"", local, 403},
		{"localhost.evil.com", local, 403},
	} {
		assert.Equal(t, c.status, do(d, "GET", "/", func(r *http.Request) {
			r.Host = c.host
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, c.to))
		}).Code, c)
	}
}

// headers sets those of a request: a name, its value, the next name.
func headers(pairs ...string) func(*http.Request) {
	return func(r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			r.Header.Set(pairs[i], pairs[i+1])
		}
	}
}

// By a bare proxy_pass to localhost, nginx asks for localhost in HTTP/1.0, whoever asks nginx.
func TestWithoutALoginWhatAProxyPassesOnIsRefused(t *testing.T) {
	d := open(t, &script{}, settings{hosts: []string{"ops.example.com"}})
	elsewhere := []string{"Referer", "https://ops.example.com/locks"}
	for what, c := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"nginx":                         {func(r *http.Request) { r.ProtoMinor = 0 }, 403},
		"apache":                        {headers("X-Forwarded-For", "192.0.2.1"), 403},
		"another one":                   {headers("X-Forwarded-Prefix", "/locks"), 403},
		"by RFC 7239":                   {headers("Forwarded", "for=192.0.2.1"), 403},
		"a cache":                       {headers("Via", "1.1 x"), 403},
		"with X-Real-IP":                {headers("X-Real-IP", "192.0.2.1"), 403},
		"a part of a page elsewhere":    {headers(append(elsewhere, "Sec-Fetch-Site", "same-origin")...), 403},
		"the same without TLS":          {headers(elsewhere...), 403},
		"a part of our page":            {headers("Referer", "http://localhost:8700/locks", "Sec-Fetch-Site", "same-origin"), 200},
		"a link on a page of a wiki":    {headers(append(elsewhere, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")...), 200},
		"a proxy with a name of a host": {func(r *http.Request) { r.Host, r.ProtoMinor = "ops.example.com", 0; headers("Via", "1.1 x")(r) }, 200},
		"a proxy's socket": {func(r *http.Request) {
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{}))
			r.Header.Set("X-Forwarded-For", "192.0.2.1")
		}, 200},
	} {
		assert.Equal(t, c.status, do(d, "GET", "/", c.change).Code, what)
	}
	assert.Contains(t, do(d, "GET", "/", headers("Via", "1.1 x")).Body.String(), "--host")
	d = open(t, &script{}, settings{login: loggedIn})
	assert.Equal(t, 200, do(d, "GET", "/", headers("Via", "1.1 x"), func(r *http.Request) { r.SetBasicAuth("ann", "right") }).Code, "with a login it is right")
}

// A page of another site in a browser on this machine cannot read what it has loaded. But the
// masters would be asked.
func TestWhatPagesOfOtherSitesLoadIsRefused(t *testing.T) {
	s := &script{}
	d := open(t, s, settings{})
	for _, c := range []struct {
		site, mode, to string
		status         int
	}{
		{"cross-site", "no-cors", "image", 403},
		{"cross-site", "cors", "empty", 403},
		{"same-site", "no-cors", "empty", 403}, // another port of localhost
		{"cross-site", "navigate", "iframe", 403},
		{"cross-site", "", "", 403},
		{"unheard-of", "cors", "empty", 403},
		{"cross-site", "navigate", "document", 200},
		{"none", "navigate", "document", 200},
		{"same-origin", "cors", "empty", 200},
		{"", "", "", 200},
	} {
		for _, target := range []string{"/", "/locks", "/api/v1/list", "/metrics", "/assets/live.js", "/healthz", "/nothing"} {
			if target == "/nothing" && c.status == 200 {
				continue
			}
			w := do(d, "GET", target, headers("Sec-Fetch-Site", c.site, "Sec-Fetch-Mode", c.mode, "Sec-Fetch-Dest", c.to))
			assert.Equal(t, c.status, w.Code, "%v %s", c, target)
		}
	}
	ctx, end := context.WithTimeout(local(t.Context()), time.Second) // of a stream, if it is one
	defer end()
	w := do(d, "GET", "/live/locks", func(r *http.Request) { *r = *r.WithContext(ctx) }, headers("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"))
	assert.Equal(t, 403, w.Code, "or other sites could hold all streams")
}

func TestProgramsAreRefusedInJSON(t *testing.T) {
	open := func(with settings) http.Handler { return open(t, &script{}, with) }
	right := func(r *http.Request) { r.SetBasicAuth("ann", "right") }
	forcing := settings{force: true, login: loggedIn}
	for what, c := range map[string]struct {
		with           settings
		method, target string
		change         func(*http.Request)
		status         int
	}{
		"no login":            {forcing, "GET", "/api/v1/list", headers(), 401},
		"a wrong login":       {forcing, "POST", "/api/v1/unlock?name=x", func(r *http.Request) { r.SetBasicAuth("ann", "no") }, 401},
		"elsewhere":           {settings{}, "GET", "/api/v1/list", func(r *http.Request) { r.Host = "evil.example" }, 403},
		"another site":        {settings{}, "GET", "/api/v1/log", headers("Sec-Fetch-Site", "cross-site"), 403},
		"a form elsewhere":    {forcing, "POST", "/api/v1/unlock?name=x", func(r *http.Request) { right(r); r.Header.Set("Origin", "https://evil.example") }, 403},
		"no such thing":       {settings{}, "GET", "/api/v1/nothing", headers(), 404},
		"read only":           {settings{}, "POST", "/api/v1/unlock?name=x", headers(), 404},
		"only to be read":     {settings{}, "DELETE", "/api/v1/list", headers(), 405},
		"only to be done":     {forcing, "GET", "/api/v1/unlock?name=x", right, 405},
		"without a name":      {settings{}, "GET", "/api/v1/inspect", headers(), 400},
		"unlock without name": {forcing, "POST", "/api/v1/unlock", right, 400},
	} {
		w := do(open(c.with), c.method, c.target, c.change)
		assert.Equal(t, c.status, w.Code, what)
		assert.Equal(t, "application/json", w.Header().Get("Content-Type"), what)
		var told map[string]string
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &told), what)
		assert.NotEmpty(t, told["error"], what)
	}
	w := do(open(settings{}), "POST", "/api/v1/list", headers())
	assert.Equal(t, "GET", w.Header().Get("Allow"))
	w = do(open(settings{}), "POST", "/locks", headers())
	assert.Equal(t, 405, w.Code)
	assert.Contains(t, w.Body.String(), "<html", "people get a page")
}
