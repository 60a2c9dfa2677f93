package goredis_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/contrib/goredis"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// TestConfigurationsReadOncePerMasterAreEqual has each master read the same files anew.
func TestConfigurationsReadOncePerMasterAreEqual(t *testing.T) {
	authorities, ours, other := issue(t), issue(t), issue(t)
	read := func(roots, clients, own *pair) *tls.Config {
		certificate, err := tls.X509KeyPair(own.certificate, own.key)
		require.NoError(t, err)
		return &tls.Config{
			RootCAs: roots.pool(t), ClientCAs: clients.pool(t), Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12,
		}
	}
	endpoints := func(second *tls.Config) error {
		first := &redis.Options{Addr: "a:1", TLSConfig: read(authorities, authorities, ours)}
		_, _, err := goredis.Endpoints(first, &redis.Options{Addr: "b:1", TLSConfig: second})
		return err
	}
	require.NoError(t, endpoints(read(authorities, authorities, ours)))
	for name, second := range map[string]*tls.Config{
		"roots":        read(other, authorities, ours),
		"client roots": read(authorities, other, ours),
		"certificate":  read(authorities, authorities, other),
	} {
		require.ErrorContains(t, endpoints(second), "the TLS configurations differ", name)
	}
	for name, change := range map[string]func(*tls.Config){
		"no roots":       func(cfg *tls.Config) { cfg.RootCAs = nil },
		"no certificate": func(cfg *tls.Config) { cfg.Certificates = nil },
		"chain":          func(cfg *tls.Config) { cfg.Certificates[0].Certificate = append(cfg.Certificates[0].Certificate, nil) },
		"version":        func(cfg *tls.Config) { cfg.MinVersion = tls.VersionTLS13 },
		"function":       func(cfg *tls.Config) { cfg.VerifyConnection = func(tls.ConnectionState) error { return nil } },
	} {
		second := read(authorities, authorities, ours)
		change(second)
		require.ErrorContains(t, endpoints(second), "the TLS configurations differ", name)
	}
}

// pair is a certificate and its key, as files have them.
type pair struct{ certificate, key []byte }

// issue makes a certificate.
func issue(t *testing.T) *pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(redistest.Host())}, DNSNames: []string{"example.com"},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return &pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// pool reads the certificate anew.
func (p *pair) pool(t *testing.T) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(p.certificate))
	return pool
}

// startTLS returns the options of three servers behind TLS, without a configuration, and the roots
// of their certificate, which is for the host of the servers and example.com.
func startTLS(t *testing.T) (options []*redis.Options, roots *x509.CertPool) {
	t.Helper()
	own := issue(t)
	certificate, err := tls.X509KeyPair(own.certificate, own.key)
	require.NoError(t, err)
	for _, server := range redistest.Start(t, 3) {
		listener, err := redistest.Listen()
		require.NoError(t, err)
		secured := tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
		t.Cleanup(func() { assert.NoError(t, secured.Close()) })
		go func() {
			for {
				client, err := secured.Accept()
				if err != nil {
					return
				}
				go join(client, server.Addr())
			}
		}()
		options = append(options, &redis.Options{Addr: listener.Addr().String()})
	}
	return options, own.pool(t)
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
			o.TLSConfig = &tls.Config{RootCAs: roots, ServerName: []string{redistest.Host(), ""}[i%2], MinVersion: tls.VersionTLS12}
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
	t.Run("with names that differ", func(t *testing.T) {
		options[1].TLSConfig.ServerName = "example.com"
		requireLock(t, options...)
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
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		assert.ErrorContains(t, locker.Ready(ctx), "example.org")
	})
}
