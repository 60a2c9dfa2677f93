package pipeline

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// endpoint is where a master is, and which user to connect as.
type endpoint struct {
	network  string // "tcp" or "unix"
	address  string // host:port, or a socket's path
	host     string // for the certificate
	tls      bool
	username string
	password string
	database int
	files    TLSFiles

	untrusted error // why it must not be dialed; see credentials.go
}

const defaultPort = "6379"

// parseEndpoint reads redis://, rediss:// and unix:// URLs, host:port and host. Its errors never
// contain any part of the text beyond the scheme: a misplaced character can make a password look
// like anything. (A word alone is a host, and shown as such.)
func parseEndpoint(text string) (endpoint, error) {
	if text == "" {
		return endpoint{}, fmt.Errorf("%w: empty", ErrEndpoint)
	}
	scheme, _, isURL := strings.Cut(text, "://")
	if !isURL {
		return plainEndpoint(text)
	}
	u, err := url.Parse(text)
	if err != nil {
		return endpoint{}, fmt.Errorf("%w: not a valid URL: the port is not a number, or a special character in the password is not percent-encoded (@ is %%40, / is %%2F, : is %%3A, a comma is %%2C)", ErrEndpoint)
	}
	var e endpoint
	switch strings.ToLower(scheme) {
	case "redis":
		e, err = tcpEndpoint(u)
		if err == nil && u.RawQuery != "" {
			err = fmt.Errorf("%w: query parameters are for unix:// and rediss:// only", ErrEndpoint)
		}
	case "rediss":
		if e, err = tcpEndpoint(u); err == nil {
			err = e.secure(u)
		}
	case "unix":
		e, err = unixEndpoint(u)
	default:
		return endpoint{}, fmt.Errorf("%w: scheme is not redis, rediss or unix", ErrEndpoint)
	}
	if err != nil {
		return endpoint{}, err
	}
	if u.Fragment != "" {
		return endpoint{}, fmt.Errorf("%w: has a #fragment (in a password, # is written %%23)", ErrEndpoint)
	}
	return e, e.user(u.User)
}

func plainEndpoint(text string) (endpoint, error) {
	host, port, err := net.SplitHostPort(text)
	if !strings.Contains(text, ":") {
		host, port, err = text, defaultPort, nil
	}
	if err != nil || strings.ContainsAny(text, "@/?# ") {
		return endpoint{}, fmt.Errorf("%w: neither host:port nor a redis://, rediss:// or unix:// URL", ErrEndpoint)
	}
	return hostPort(host, port)
}

func hostPort(host, port string) (endpoint, error) {
	if host == "" {
		return endpoint{}, fmt.Errorf("%w: no host", ErrEndpoint)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return endpoint{}, fmt.Errorf("%w: the port is not a number from 1 to 65535", ErrEndpoint)
	}
	if ip, err := netip.ParseAddr(host); (err != nil || ip.Zone() != "") && strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "" {
		return endpoint{}, fmt.Errorf("%w: the host is neither a name nor an IP address", ErrEndpoint)
	}
	host = strings.ToLower(host)
	return endpoint{network: "tcp", address: net.JoinHostPort(host, port), host: host}, nil
}

func tcpEndpoint(u *url.URL) (endpoint, error) {
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	e, err := hostPort(u.Hostname(), port)
	if err != nil {
		return endpoint{}, err
	}
	return e, e.selectDatabase(strings.TrimPrefix(u.Path, "/"))
}

// secure takes the files of a rediss URL: ?cert=FILE&key=FILE&cacert=FILE.
func (e *endpoint) secure(u *url.URL) error {
	e.tls = true
	query, err := url.ParseQuery(u.RawQuery)
	known := map[string]*string{"cert": &e.files.Cert, "key": &e.files.Key, "cacert": &e.files.CA}
	for name, values := range query {
		if known[name] == nil || len(values) != 1 || values[0] == "" {
			err = errors.New("unknown, empty or given twice")
			break
		}
		*known[name] = values[0]
	}
	if err != nil {
		return fmt.Errorf("%w: the query parameters of a rediss URL are cert, key and cacert, each the name of a file", ErrEndpoint)
	}
	return e.files.check()
}

func unixEndpoint(u *url.URL) (endpoint, error) {
	if u.Host != "" || u.Path == "" || u.Path == "/" {
		return endpoint{}, fmt.Errorf("%w: a unix URL is unix:///path/of/the/socket, with ?db=N for a database", ErrEndpoint)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || len(query) > 1 || (len(query) == 1 && len(query["db"]) != 1) {
		return endpoint{}, fmt.Errorf("%w: the only query parameter of a unix URL is db", ErrEndpoint)
	}
	e := endpoint{network: "unix", address: u.Path}
	return e, e.selectDatabase(query.Get("db"))
}

func (e *endpoint) selectDatabase(text string) error {
	if text == "" {
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return fmt.Errorf("%w: the database is not a number", ErrEndpoint)
	}
	e.database = int(n)
	return nil
}

func (e *endpoint) user(info *url.Userinfo) error {
	if info == nil {
		return nil
	}
	password, ok := info.Password()
	if !ok || password == "" {
		return fmt.Errorf("%w: a user without a password (a password alone has a colon in front, as :password@host)", ErrEndpoint)
	}
	e.username, e.password = info.Username(), password
	return nil
}

// String returns the endpoint without user, password and files. It is the same for two endpoints of
// the same server and database.
func (e *endpoint) String() string {
	shown := url.URL{Scheme: "redis", Host: e.address}
	if e.network == "unix" {
		shown = url.URL{Scheme: "unix", Path: e.address}
		if e.database != 0 {
			shown.RawQuery = "db=" + strconv.Itoa(e.database)
		}
		return shown.String()
	}
	if e.tls {
		shown.Scheme = "rediss"
	}
	if e.database != 0 {
		shown.Path = "/" + strconv.Itoa(e.database)
	}
	return shown.String()
}
