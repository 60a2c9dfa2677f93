package goredis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/redquorum/redquorum/pool"
)

// masters are all masters, by address.
type masters map[string]*master

// options returns the options of all nodes. The pool takes one of each for all of them, so what
// differs is found by the address.
func (all masters) options(given []*redis.Options) (opts []pool.Option, err error) {
	cfg, err := all.tlsConfig()
	if err != nil {
		return nil, err
	}
	if cfg != nil {
		opts = append(opts, pool.WithTLSConfig(cfg))
	}
	for _, m := range all {
		if m.provided() {
			opts = append(opts, pool.WithCredentials(all.credentials))
			break
		}
	}
	for _, m := range all {
		if m.given.Dialer != nil {
			opts = append(opts, pool.WithDialer(all.dial))
			break
		}
	}
	name := given[0].ClientName
	for _, o := range given {
		if o.ClientName != name {
			return nil, errors.New("the client names differ")
		}
	}
	if name != "" {
		opts = append(opts, pool.WithClientName(name))
	}
	return opts, nil
}

// credentials returns those of the master at an endpoint, which is without credentials itself.
func (all masters) credentials(ctx context.Context, endpoint string) (username, password string, err error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", "", err
	}
	address := u.Host
	if u.Scheme == "unix" {
		address = u.Path
	}
	m := all[address]
	if m == nil {
		return "", "", fmt.Errorf("goredis: %q is not one of the endpoints", endpoint)
	}
	return m.credentials(ctx)
}

// dial dials the master at an address by its own dialer, if it has one.
func (all masters) dial(ctx context.Context, network, address string) (net.Conn, error) {
	m := all[address]
	switch {
	case m == nil:
		return nil, fmt.Errorf("goredis: %q is not one of the endpoints", address)
	case m.given.Dialer == nil:
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return dialUntil(ctx, func() (net.Conn, error) { return m.given.Dialer(ctx, m.network, m.dialed) })
}

// dialUntil returns when ctx ends, as the pool requires. A dialer may not: go-redis' own one
// ignores ctx if it does TLS. What it still connects is closed.
func dialUntil(ctx context.Context, dial func() (net.Conn, error)) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	dialed := make(chan result, 1)
	go func() {
		conn, err := dial()
		dialed <- result{conn, err}
	}()
	select {
	case r := <-dialed:
		return r.conn, r.err
	case <-ctx.Done():
		go func() {
			if r := <-dialed; r.err == nil {
				r.conn.Close() //nolint:errcheck // nobody uses it
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// tlsConfig returns the TLS configuration of the masters that have one, or nil. They must agree in
// everything but the server name, which is in the endpoint.
func (all masters) tlsConfig() (*tls.Config, error) {
	var first *tls.Config
	for _, m := range all {
		if !m.tls() {
			continue
		}
		cfg := m.given.TLSConfig
		if first == nil {
			first = cfg
		}
		if cfg != first && !isEqual(cfg, first) {
			return nil, errors.New("the TLS configurations differ, or have functions and are not the same")
		}
	}
	if first == nil {
		return nil, nil
	}
	return named(first, ""), nil
}

// isEqual compares two configurations but for their server names. Functions are never equal, so
// what may hide some is compared by what it stands for: pools by their certificates, certificates
// by their bytes.
func isEqual(a, b *tls.Config) bool {
	if !a.RootCAs.Equal(b.RootCAs) || !a.ClientCAs.Equal(b.ClientCAs) ||
		!slices.EqualFunc(a.Certificates, b.Certificates, isSameCertificate) {
		return false
	}
	a, b = named(a, ""), named(b, "")
	for _, cfg := range []*tls.Config{a, b} {
		cfg.RootCAs, cfg.ClientCAs, cfg.Certificates = nil, nil, nil
	}
	return reflect.DeepEqual(a, b)
}

// isSameCertificate compares neither keys, which a certificate determines, nor Leaf, which is its
// first part once more.
func isSameCertificate(a, b tls.Certificate) bool {
	a.PrivateKey, a.Leaf, b.PrivateKey, b.Leaf = nil, nil, nil, nil
	return reflect.DeepEqual(a, b)
}

func named(cfg *tls.Config, name string) *tls.Config {
	cfg = cfg.Clone()
	cfg.ServerName = name
	return cfg
}
