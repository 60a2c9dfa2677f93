package scenario_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// authority signs certificates of servers at this process's address.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pool        *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority for a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := &authority{key: newKey(t), pool: x509.NewCertPool()}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	require.NoError(t, err)
	a.certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.pool.AddCert(a.certificate)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

// issue writes a server's certificate and key to files.
func (a *authority) issue(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "a server"}, IPAddresses: []net.IP{net.ParseIP(redistest.Host())},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return writePEM(t, "server.crt", "CERTIFICATE", der), writePEM(t, "server.key", "PRIVATE KEY", keyDER)
}

func writePEM(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return file
}

// listenTLS makes a server listen on a TLS port too, and returns the address of that port. It skips
// the test if the server was built without TLS.
func listenTLS(t *testing.T, server *redistest.Server, a *authority) string {
	t.Helper()
	known, err := redis.Strings(server.Do("CONFIG", "GET", "tls-port"))
	require.NoError(t, err)
	if len(known) == 0 {
		t.Skip("this redis-server was built without TLS")
	}
	certFile, keyFile := a.issue(t)
	do(t, server, "CONFIG", "SET", "tls-cert-file", certFile, "tls-key-file", keyFile, "tls-auth-clients", "no",
		"tls-ca-cert-file", writePEM(t, "ca.crt", "CERTIFICATE", a.certificate.Raw))
	for attempt := 1; ; attempt++ {
		address := redistest.FreeAddr(t)
		_, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		_, err = server.Do("CONFIG", "SET", "tls-port", port)
		if err == nil {
			return address
		}
		require.Less(t, attempt, 5, err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	server := redistest.StartOne(t, redistest.WithPassword("secret"))
	address := listenTLS(t, server, a)
	endpoint := fmt.Sprintf("rediss://:secret@%s/4", address)
	worksWith(t, endpoint, server, 4, redlock.WithPool(pool.WithTLSConfig(&tls.Config{RootCAs: a.pool, MinVersion: tls.VersionTLS12})))

	for name, wrong := range map[string]struct {
		endpoint, words string
		dial            time.Duration
	}{
		"unknown authority": {endpoint, `TLS: .*certificate signed by unknown authority`, patience / 2},
		"plain text to TLS": {fmt.Sprintf("redis://:secret@%s", address), `connection (lost|closed).*redis:// is for servers without TLS|protocol error`, patience / 2},
		// Each side waits for the other to begin.
		"TLS to a plain port": {fmt.Sprintf("rediss://:secret@%s", server.Addr()), `connected, but no TLS within 1s: rediss:// is for servers with TLS|TLS: something else answered`, time.Second},
	} {
		l := cluster.NewLocker(t, []string{wrong.endpoint}, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience),
			redlock.WithPool(pool.WithDialTimeout(wrong.dial)))
		_, err := l.TryLock(t.Context(), cluster.LockName(t))
		t.Log(name, ": ", err)
		require.ErrorIs(t, err, redlock.ErrNoQuorum, name)
		var failure *redlock.QuorumError
		require.ErrorAs(t, err, &failure)
		assert.Regexp(t, wrong.words, failure.Nodes.Error(), name)
		assert.NotContains(t, err.Error(), "secret")
	}
}
