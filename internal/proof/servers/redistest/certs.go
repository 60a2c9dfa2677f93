package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates for servers on [Host] and for clients.
type Authority struct {
	tb   testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64 // serial number

	File  string   // its certificate
	Names []string // of the certificates that it issues from now on, in place of [Host]
}

// NewAuthority returns an authority whose certificate is in a file of the test.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{tb: tb, File: filepath.Join(tb.TempDir(), "ca.pem")}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.write(a.cert, a.cert, nil, a.File, "")
	return a
}

// Issue writes a certificate that ends after d, and its key, into files. Each has a serial number
// of its own, from 2 on.
func (a *Authority) Issue(d time.Duration, certFile, keyFile string) {
	a.tb.Helper()
	a.last = max(a.last, 1) + 1
	addresses := []net.IP{net.ParseIP(Host())}
	if len(a.Names) > 0 {
		addresses = nil
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(a.last), Subject: pkix.Name{CommonName: "redquorum"}, NotAfter: time.Now().Add(d),
		IPAddresses: addresses, DNSNames: a.Names, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	a.write(cert, a.cert, a.key, certFile, keyFile)
}

func (a *Authority) write(cert, parent *x509.Certificate, signer *ecdsa.PrivateKey, certFile, keyFile string) *ecdsa.PrivateKey {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if signer == nil {
		signer = key
	}
	var signed, encoded []byte
	if err == nil {
		signed, err = x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, signer)
	}
	if err == nil {
		encoded, err = x509.MarshalECPrivateKey(key)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: signed}, keyFile: {Type: "EC PRIVATE KEY", Bytes: encoded}} {
		if err == nil && file != "" {
			err = os.WriteFile(file, pem.EncodeToMemory(block), 0o600)
		}
	}
	if err != nil {
		a.tb.Fatalf("redistest: certificate: %v", err)
	}
	return key
}

// StartTLS starts a server that also takes TLS, at the address that it returns, and wants a client
// certificate of the authority. Its own ends after d.
func (a *Authority) StartTLS(d time.Duration, opts ...Option) (s *Server, addr string) {
	a.tb.Helper()
	dir := a.tb.TempDir()
	cert, key := filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")
	a.Issue(d, cert, key)
	addr = FreeAddr(a.tb)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		a.tb.Fatalf("redistest: %v", err)
	}
	args := WithArgs("--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", a.File)
	return StartOne(a.tb, append(opts, args)...), addr
}
