package goredis_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/contrib/goredis"
	"github.com/redquorum/redquorum/internal/cluster"
	"github.com/redquorum/redquorum/internal/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// startTLS returns the options of three servers behind TLS, without a configuration, and the roots
// of their certificates, which are for 127.0.0.1 and example.com.
func startTLS(t *testing.T) (options []*redis.Options, roots *x509.CertPool) {
	t.Helper()
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	t.Cleanup(certified.Close)
	roots = x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	for _, server := range redistest.Start(t, 3) {
		listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates}) //nolint:gosec // a test
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, listener.Close()) })
		go func() {
			for {
				client, err := listener.Accept()
				if err != nil {
					return
				}
				go join(client, server.Addr())
			}
		}()
		options = append(options, &redis.Options{Addr: listener.Addr().String()})
	}
	return options, roots
}

// join passes bytes on until one side closes.
func join(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		io.Copy(server, client) //nolint:errcheck // the other side sees the end
		server.Close()
	}()
	io.Copy(client, server) //nolint:errcheck // the other side sees the end
}

func TestTLSIsCarriedOver(t *testing.T) {
	options, roots := startTLS(t)
	t.Run("with the names of the hosts", func(t *testing.T) {
		for i, o := range options {
			o.TLSConfig = &tls.Config{RootCAs: roots, ServerName: []string{"127.0.0.1", ""}[i%2], MinVersion: tls.VersionTLS12}
		}
		requireLock(t, options...)
	})
	t.Run("by the dialer of a client", func(t *testing.T) {
		var clients []*redis.Options
		for _, o := range options {
			client := redis.NewClient(o)
			clients = append(clients, client.Options())
			require.NoError(t, client.Close())
		}
		requireLock(t, clients...)
	})
	t.Run("with one name for all", func(t *testing.T) {
		for _, o := range options {
			o.TLSConfig.ServerName = "example.com"
		}
		requireLock(t, options...)
	})
	t.Run("with one configuration that has functions", func(t *testing.T) {
		verified := make(chan struct{}, 100)
		cfg := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, VerifyConnection: func(tls.ConnectionState) error {
			verified <- struct{}{}
			return nil
		}}
		for _, o := range options {
			o.TLSConfig = cfg
		}
		requireLock(t, options...)
		assert.GreaterOrEqual(t, len(verified), 6, "go-redis and the Locker")
	})
	t.Run("and the wrong name is refused", func(t *testing.T) {
		for _, o := range options {
			o.TLSConfig = &tls.Config{RootCAs: roots, ServerName: "example.org", MinVersion: tls.VersionTLS12}
		}
		endpoints, opts, err := goredis.Endpoints(options...)
		require.NoError(t, err)
		locker := cluster.NewLocker(t, endpoints, redlock.WithPool(opts...))
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		assert.ErrorContains(t, locker.Ready(ctx), "example.org")
	})
}
