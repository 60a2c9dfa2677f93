// Package goredis turns the options of github.com/redis/go-redis/v9 into the endpoints and pool
// options of a redlock.Locker, so that a program keeps one configuration of its masters:
//
//	endpoints, opts, err := goredis.Endpoints(a, b, c) // *redis.Options, one per master
//	if err != nil {
//		return err
//	}
//	locker, err := redlock.New(endpoints, redlock.WithPool(opts...))
//
// No go-redis client is used: the Locker makes connections of its own.
package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redquorum/redquorum/pool"
)

// Endpoints returns the endpoints of independent masters, in the same order, and the options of
// their nodes. The options are for all of these endpoints together, and for no other.
//
// It carries over the address, database, user, password and credential providers, the dialer, the
// TLS configuration and the client name. As in go-redis, a Dialer does TLS itself: TLSConfig is
// then not used, and the endpoint is redis://, not rediss://. Timeouts, retries, pool sizes and
// whatever is about answers are not carried over; a Locker has options of its own. Passwords in
// endpoints are escaped.
//
// Errors match [pool.ErrEndpoint], and say which options cannot be used:
// StreamingCredentialsProvider, OnConnect and Limiter, client names that differ, TLS configurations
// that differ in more than the server name, an address that is given twice. They contain no password. For masters that differ more
// than that, make each with pool.NewNode and use redlock.NewFromNodes.
func Endpoints(options ...*redis.Options) ([]string, []pool.Option, error) {
	if len(options) == 0 {
		return nil, nil, fmt.Errorf("goredis: %w: no options", pool.ErrEndpoint)
	}
	all := masters{}
	var endpoints []string
	for i, o := range options {
		m, err := newMaster(o)
		if err == nil && all[m.address] != nil {
			err = errors.New("the address was given before")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("goredis: options %d: %w: %w", i+1, pool.ErrEndpoint, err)
		}
		all[m.address] = m
		endpoints = append(endpoints, m.endpoint())
	}
	opts, err := all.options(options)
	if err != nil {
		return nil, nil, fmt.Errorf("goredis: %w: %w", pool.ErrEndpoint, err)
	}
	return endpoints, opts, nil
}

// master is one master, with the defaults of go-redis.
type master struct {
	given   *redis.Options // a copy: the caller's may change
	network string         // "tcp" or "unix"
	address string         // as the pool passes it to a dialer: host:port, or the path of a socket
	dialed  string         // as go-redis passes it
}

func newMaster(given *redis.Options) (*master, error) {
	if given == nil {
		return nil, errors.New("they are nil")
	}
	o := *given
	m := &master{given: &o, network: o.Network, address: o.Addr, dialed: o.Addr}
	if m.dialed == "" {
		m.address, m.dialed = "localhost:6379", "localhost:6379"
	}
	if m.network == "" {
		m.network = "tcp"
		if strings.HasPrefix(m.dialed, "/") {
			m.network = "unix"
		}
	}
	switch {
	case o.StreamingCredentialsProvider != nil:
		return nil, errors.New("StreamingCredentialsProvider cannot be carried over: use CredentialsProviderContext")
	case o.OnConnect != nil:
		return nil, errors.New("OnConnect cannot be carried over: it needs a connection of go-redis")
	case o.Limiter != nil:
		return nil, errors.New("Limiter cannot be carried over: a Locker asks all masters") //nolint:staticcheck // the name of the field
	case o.DB < 0:
		return nil, errors.New("DB is negative")
	}
	return m, m.locate()
}

// locate checks the address, and writes it as the pool does.
func (m *master) locate() error {
	switch m.network {
	case "unix":
		if !strings.HasPrefix(m.address, "/") {
			return errors.New("the path of the socket is not absolute")
		}
		if m.tls() {
			return errors.New("TLS on a unix socket cannot be carried over")
		}
		return nil
	case "tcp":
		host, port, err := net.SplitHostPort(m.dialed)
		if number, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || number == 0 || strings.ContainsAny(host, " \t\r\n") {
			return errors.New("Addr is not host:port, with a port from 1 to 65535") //nolint:staticcheck // the name of the field
		}
		if host == "" { // as package net understands it
			host = "localhost"
		}
		m.address = net.JoinHostPort(strings.ToLower(host), port)
		return nil
	}
	return errors.New("Network is neither tcp nor unix") //nolint:staticcheck // the name of the field
}

// host returns that of the address.
func (m *master) host() string {
	host, _, _ := net.SplitHostPort(m.address) //nolint:errcheck // locate has checked it
	return host
}

// tls reports whether the pool does TLS. A Dialer does its own, as in go-redis, which gives the
// options of a client (redis.Client.Options) one that does.
func (m *master) tls() bool { return m.given.TLSConfig != nil && m.given.Dialer == nil }

// provided reports whether a function gives the credentials.
func (m *master) provided() bool {
	return m.given.CredentialsProvider != nil || m.given.CredentialsProviderContext != nil
}

// credentials returns what go-redis would authenticate with.
func (m *master) credentials(ctx context.Context) (username, password string, err error) {
	switch {
	case m.given.CredentialsProviderContext != nil:
		return m.given.CredentialsProviderContext(ctx)
	case m.given.CredentialsProvider != nil:
		username, password = m.given.CredentialsProvider()
		return username, password, nil
	}
	return m.given.Username, m.given.Password, nil
}

// endpoint returns the endpoint as the pool reads it.
func (m *master) endpoint() string {
	u := url.URL{Scheme: "redis", Host: m.address}
	switch {
	case m.network == "unix":
		u = url.URL{Scheme: "unix", Path: m.address, RawQuery: "db=" + strconv.Itoa(m.given.DB)}
	case m.tls():
		u.Scheme = "rediss"
		if name := m.given.TLSConfig.ServerName; name != "" && name != m.host() {
			u.RawQuery = url.Values{"servername": {name}}.Encode()
		}
	}
	if m.network == "tcp" && m.given.DB != 0 {
		u.Path = "/" + strconv.Itoa(m.given.DB)
	}
	if m.given.Password != "" && !m.provided() { // without a password, go-redis sends no AUTH
		u.User = url.UserPassword(m.given.Username, m.given.Password)
	}
	return u.String()
}
