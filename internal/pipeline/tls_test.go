package pipeline

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// A server that ends each connection tells with which certificate it began.
func TestCertificatesThatAreRotatedAreRead(t *testing.T) {
	a, dir := redistest.NewAuthority(t), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	a.Issue(time.Hour, file("server.pem"), file("server.key"))
	own, err := tls.LoadX509KeyPair(file("server.pem"), file("server.key"))
	require.NoError(t, err)
	text, err := os.ReadFile(a.File)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(text))
	server := &tls.Config{
		Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
	serials := make(chan int64)
	dial := func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			c := tls.Server(theirs, server)
			if c.Handshake() == nil {
				serials <- c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
			}
			_ = theirs.Close()
		}()
		return ours, nil
	}
	a.Issue(time.Hour, file("c.pem"), file("c.key"))
	n, err := NewNode("rediss://"+redistest.Host()+"?cacert="+a.File, WithDialer(dial),
		WithTLSFiles(TLSFiles{Cert: file("c.pem"), Key: file("c.key")}), WithBackoff(time.Millisecond, time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(func() {
		go func() {
			for range serials { // until the node is closed
			}
		}()
		assert.NoError(t, n.Close())
	})
	assert.Equal(t, int64(3), <-serials)
	a.Issue(time.Hour, file("c.pem"), file("c.key"))
	for range 10 { // those that were under way
		if <-serials == 4 {
			return
		}
	}
	assert.Fail(t, "the new certificate is not used")
}

func TestTheCertificateHasTheNameOfTheEndpoint(t *testing.T) {
	config := WithTLSConfig(&tls.Config{ServerName: "all.example", MinVersion: tls.VersionTLS12})
	for _, c := range []struct {
		list, member string
		opts         []Option
		want         string
	}{
		{"rediss://10.0.0.5", "rediss://10.0.0.5:1", nil, "10.0.0.5"},
		{"rediss://10.0.0.5", "rediss://10.0.0.6", []Option{config}, "all.example"},
		{"rediss://10.0.0.5?servername=a.example", "rediss://10.0.0.5:1", []Option{config}, "a.example"},
		{"rediss://10.0.0.5?servername=a.example", "rediss://10.0.0.5:1?servername=b.example", nil, "b.example"},
		{"rediss://10.0.0.5?servername=a.example", "rediss://10.0.0.6", nil, "10.0.0.6"},
		{"rediss://10.0.0.5?servername=a.example", "rediss://10.0.0.6", []Option{config}, "all.example"},
	} {
		first, err := NewNode(c.list, c.opts...)
		require.NoError(t, err)
		require.NoError(t, first.Close())
		n, err := Named([]*Node{first}, c.member)
		require.NoError(t, err)
		require.NoError(t, n.Close())
		cfg, err := n.tlsConfig(n.endpoint.Load())
		require.NoError(t, err)
		assert.Equal(t, c.want, cfg.ServerName, c.member)
	}
}

// A server that does not accept our certificate may end the connection without a word that reaches
// us. If the certificate has ended, that is the cause.
func TestACertificateOfOursThatHasEndedIsTheCause(t *testing.T) {
	a, dir := redistest.NewAuthority(t), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	a.Issue(time.Hour, file("server.pem"), file("server.key"))
	theirs, err := tls.LoadX509KeyPair(file("server.pem"), file("server.key"))
	require.NoError(t, err)
	config := &tls.Config{Certificates: []tls.Certificate{theirs}, ClientAuth: tls.RequestClientCert}
	dial := func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			c := tls.Server(server, config)
			if c.Handshake() == nil {
				_ = server.Close()
			}
		}()
		return client, nil
	}
	for life, want := range map[time.Duration]string{
		-time.Hour: ErrCertificate.Error() + ": ours has ended, at ", time.Hour: "and may not accept it",
	} {
		a.Issue(life, file("c.pem"), file("c.key"))
		n, err := NewNode("rediss://"+redistest.Host()+"?cacert="+a.File, WithDialer(dial),
			WithTLSFiles(TLSFiles{Cert: file("c.pem"), Key: file("c.key")}))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, n.Close()) })
		require.Eventually(t, func() bool { return n.Stats().State == Down }, time.Minute, time.Millisecond)
		assert.ErrorContains(t, n.Stats().Err, want)
		assert.Equal(t, life < 0, errors.Is(n.Stats().Err, ErrCertificate))
	}
}
