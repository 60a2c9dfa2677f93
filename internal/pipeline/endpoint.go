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

	serverName string // that the certificate must have, if it is not the host

	untrusted error // why it must not be dialed; see credentials.go
}

const defaultPort = "6379"

// parseEndpoint reads redis://, rediss:// and unix:// URLs, host:port and host, and passes over
// blanks and invisible characters around them. Its errors never contain any part of the text: a
// misplaced character can make a password look like anything.
func parseEndpoint(text string) (endpoint, error) {
	text = strings.TrimFunc(text, isBlank)
	if isList(text) { // which may be read as one path or one parameter
		return endpoint{}, wrong(severalInOne)
	}
	e, err := readEndpoint(text)
	if why := mistake(text); err != nil && why != "" {
		err = wrong(why)
	}
	return e, err
}

// wrong says what is wrong with an endpoint.
func wrong(why string) error { return fmt.Errorf("%w: %s", ErrEndpoint, why) }

func readEndpoint(text string) (endpoint, error) {
	if text == "" {
		return endpoint{}, wrong("empty")
	}
	scheme, _, isURL := strings.Cut(text, "://")
	if !isURL {
		return plainEndpoint(text)
	}
	u, err := url.Parse(text)
	if err != nil {
		return endpoint{}, wrong("not a valid URL: the port is not a number, or " + notEncoded)
	}
	var e endpoint
	switch strings.ToLower(scheme) {
	case "redis":
		e, err = tcpEndpoint(u)
		if err == nil && u.RawQuery != "" {
			err = wrong("query parameters are for unix:// and rediss:// only")
		}
	case "rediss":
		if e, err = tcpEndpoint(u); err == nil {
			err = e.secure(u)
		}
	case "unix":
		e, err = unixEndpoint(u)
	default:
		return endpoint{}, wrong("the scheme is not redis, rediss or unix: for valkey:// and tcp:// write redis://, with TLS rediss://")
	}
	if err != nil {
		return endpoint{}, err
	}
	if u.Fragment != "" {
		return endpoint{}, wrong("has a #fragment (in a password, # is written %23)")
	}
	return e, e.user(u.User)
}

func plainEndpoint(text string) (endpoint, error) {
	host, port, err := net.SplitHostPort(text)
	if !strings.Contains(text, ":") {
		host, port, err = text, defaultPort, nil
	}
	if err != nil || strings.ContainsAny(text, "@/?# ") {
		return endpoint{}, wrong("neither host:port nor a redis://, rediss:// or unix:// URL")
	}
	return hostPort(host, port)
}

func hostPort(host, port string) (endpoint, error) {
	if host == "" {
		return endpoint{}, wrong("no host")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return endpoint{}, wrong("the port is not a number from 1 to 65535")
	}
	if host, err = hostName(host); err != nil {
		return endpoint{}, wrong("the host is " + err.Error())
	}
	return endpoint{network: "tcp", address: net.JoinHostPort(host, strconv.FormatUint(n, 10)), host: host}, nil
}

// hostName returns a name or an IP address as it is written everywhere: one form for one host.
func hostName(text string) (string, error) {
	if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
		return ip.String(), nil
	}
	switch text = strings.ToLower(text); {
	case strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "":
		return "", errors.New("neither a name nor an IP address")
	case strings.Trim(text, "0123456789") == "":
		return "", errors.New("a number alone: before a port there is a host")
	}
	return text, nil
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
	return e, e.selectDatabase(strings.TrimSuffix(strings.TrimPrefix(u.Path, "/"), "/"))
}

// secure takes the parameters of a rediss URL: ?cert=FILE&key=FILE&cacert=FILE&servername=NAME.
func (e *endpoint) secure(u *url.URL) error {
	e.tls = true
	query, err := url.ParseQuery(u.RawQuery)
	known := map[string]*string{"cert": &e.files.Cert, "key": &e.files.Key, "cacert": &e.files.CA, "servername": &e.serverName}
	for name, values := range query {
		if known[name] == nil || len(values) != 1 || values[0] == "" {
			err = errors.New("unknown, empty or given twice")
			break
		}
		*known[name] = values[0]
	}
	if err != nil {
		return wrong("the query parameters of a rediss URL are cert, key and cacert, each the name of a file, and servername")
	}
	if e.serverName != "" {
		if e.serverName, err = hostName(e.serverName); err != nil {
			return wrong("the servername is " + err.Error())
		}
	}
	return e.files.check()
}

func unixEndpoint(u *url.URL) (endpoint, error) {
	if u.Host != "" || u.Path == "" || u.Path == "/" {
		return endpoint{}, wrong("a unix URL has three slashes, unix:///path/of/the/socket, and ?db=N for a database")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || len(query) > 1 || (len(query) == 1 && len(query["db"]) != 1) {
		return endpoint{}, wrong("the only query parameter of a unix URL is db")
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
		return wrong("the database is not a number")
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
		return wrong("a user without a password (a password alone has a colon in front, as :password@host)")
	}
	e.username, e.password = info.Username(), password
	return nil
}

// listed returns the endpoint as the masters' list of members has it: with the name of its
// certificate, which a client needs that has no other list.
func (e *endpoint) listed() string { return WithServerName(e.String(), e.serverName) }

// WithServerName returns an endpoint with the name that its certificate must have; "" for the host.
func WithServerName(endpoint, name string) string {
	if name == "" {
		return endpoint
	}
	return endpoint + serverNameParameter + name
}

// CutServerName returns the two parts of what [WithServerName] returns.
func CutServerName(text string) (endpoint, name string) {
	endpoint, name, _ = strings.Cut(text, serverNameParameter)
	return endpoint, name
}

const serverNameParameter = "?servername="

// String returns the endpoint without user, password, files and the name of its certificate. It is
// the same for two endpoints of the same server and database.
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
