// Package guard says which requests the page and the doors beside it answer.
package guard

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redquorum/redquorum/internal/prose"
)

// Rules say who is answered.
type Rules struct {
	// Login returns the name of the user, and whether the request may be answered. Nil: only
	// requests from this machine are answered.
	Login func(r *http.Request) (user string, ok bool)

	// Hosts are further names of this machine, beside localhost, for requests without a login.
	Hosts []string
}

// HealthPath tells everybody that the process serves, and nothing else.
const HealthPath = "/healthz"

// Guard answers requests that may be answered by a handler, and refuses the others.
func (rules *Rules) Guard(handler http.Handler) http.Handler {
	sameOrigin := http.NewCrossOriginProtection() // of requests that change something
	sameOrigin.SetDenyHandler(http.HandlerFunc(refuseElsewhere))
	guarded := sameOrigin.Handler(handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		switch {
		case isFromElsewhere(r):
			refuseElsewhere(w, r)
		case r.URL.Path == HealthPath:
			Text(w, http.StatusOK, "ok\n")
		case rules.admits(w, r):
			guarded.ServeHTTP(w, r)
		}
	})
}

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

// isFromElsewhere reports whether a page of another site has the browser load this, as a part of
// itself or by a script. It could not read the answer, but it could have the masters asked. A link
// may lead here.
func isFromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none": // no browser, this page, or what was typed
		return false
	default:
		to := r.Header.Get("Sec-Fetch-Dest")
		return r.Header.Get("Sec-Fetch-Mode") != "navigate" || to != "" && to != "document"
	}
}

func refuseElsewhere(w http.ResponseWriter, r *http.Request) {
	refuse(w, r, http.StatusForbidden, "Requests from pages of other sites are refused.")
}

// refuse answers with a reason, as the client expects it: with JSON below /api.
func refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	if IsAPI(r) {
		Error(w, status, errors.New(why))
		return
	}
	Text(w, status, why+"\n")
}

// IsAPI reports whether a program asks.
func IsAPI(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/api/") }

// WriteJSON answers with a value, as the command writes it.
func WriteJSON[T any](w http.ResponseWriter, status int, value T) {
	var text bytes.Buffer
	_ = prose.WriteJSON(&text, value) //nolint:errcheck // what we answer can be encoded
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(text.Len())) // or whoever flushes it has not sent its end
	w.WriteHeader(status)
	_, _ = text.WriteTo(w) //nolint:errcheck // the client is gone
}

// Error answers with an error as an object.
func Error(w http.ResponseWriter, status int, err error) {
	WriteJSON(w, status, map[string]string{"error": prose.Readable(err.Error())})
}

// Text answers with a line for people.
func Text(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(line)) //nolint:errcheck // the client is gone
}

type userKey struct{}

// admits reports whether a request may be answered; otherwise it was refused.
func (rules *Rules) admits(w http.ResponseWriter, r *http.Request) bool {
	if rules.Login == nil {
		why := rules.whyNotOurs(r)
		if why != "" {
			refuse(w, r, http.StatusForbidden, "Without a login, this page is for browsers on its own machine, at localhost. "+why)
		}
		return why == ""
	}
	user, ok := rules.Login(r)
	if ok {
		*r = *r.WithContext(context.WithValue(r.Context(), userKey{}, user))
		return true
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="redlock", charset="UTF-8"`)
	refuse(w, r, http.StatusUnauthorized, "Log in.")
	return false
}

// User returns who has logged in.
func User(r *http.Request) string {
	user, _ := r.Context().Value(userKey{}).(string)
	return user
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

// whyNotOurs returns why a request without a login is not for this machine, or for a name that was
// given; empty if it is. The page of another site can have a name of its own lead here, and learns
// nothing.
//
// A proxy on this machine that sets the host itself, as nginx does with a bare proxy_pass, makes
// requests of the whole world look like those of this machine. Most proxies leave traces.
func (rules *Rules) whyNotOurs(r *http.Request) string {
	address, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	_, socket := address.(*net.UnixAddr) // browsers cannot reach one
	host := hostOf(r.Host)
	switch {
	case !IsLocal(address):
		return "This request came from elsewhere."
	case socket || slices.ContainsFunc(rules.Hosts, func(name string) bool { return strings.EqualFold(name, host) }):
		return ""
	case !isLoopback(host):
		return "This request was for another name."
	case isPassedOn(r):
		return "A proxy has passed this request on. Set a login here; or if the proxy has one, give the name that it passes on to --host."
	default:
		return ""
	}
}

// hostOf returns the host of host:port, in lower case.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	return strings.ToLower(strings.Trim(address, "[]"))
}

// isLoopback reports whether a host is always this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// tracesOfProxies are headers that proxies add, beside X-Forwarded-For and the like.
var tracesOfProxies = []string{
	"Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Envoy-External-Address", "True-Client-Ip",
	"Cf-Connecting-Ip", "Fastly-Client-Ip", "Fly-Client-Ip",
}

// isPassedOn reports whether a request for this machine shows that a proxy has made it: by headers;
// by HTTP/1.0, which nginx speaks and no browser; or because our own page, as the browser knows it,
// has another name.
func isPassedOn(r *http.Request) bool {
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Forwarded") || strings.HasPrefix(name, "X-Original") || slices.Contains(tracesOfProxies, name) {
			return true
		}
	}
	if !r.ProtoAtLeast(1, 1) {
		return true
	}
	from, err := url.Parse(r.Referer())
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin":
		return err == nil && from.Host != "" && !isLoopback(hostOf(from.Host))
	default: // a link on another site led here
		return false
	}
}
