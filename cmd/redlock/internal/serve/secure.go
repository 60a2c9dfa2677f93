package serve

import (
	"crypto/tls"
	"net"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

// secure returns a listener that speaks TLS, if --redis-cert is given: at sockets of the network,
// and not at those of this machine's files, which have a mode. The files are read anew by each
// connection, so that a certificate can be renewed while others use the old one.
func (f *flags) secure(l net.Listener) (net.Listener, error) {
	if f.redisCert == "" || l.Addr().Network() == "unix" {
		return l, nil
	}
	certificate := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		own, err := tls.LoadX509KeyPair(f.redisCert, f.redisKey)
		return &own, err
	}
	if _, err := certificate(nil); err != nil { // rather at the start than at the first connection
		return l, cli.Usagef("--redis-cert and --redis-key: %v", err)
	}
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate}), nil
}
