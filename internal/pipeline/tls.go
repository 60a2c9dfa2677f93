package pipeline

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/internal/trouble"
)

// TLSFiles name files of PEM for rediss:// connections. Each connection reads them anew, so they
// may be replaced while the program runs. An empty name leaves what [WithTLSConfig] says.
type TLSFiles struct {
	Cert, Key string // of the client, for a server that wants one
	CA        string // the authorities that may have signed the server's, instead of the system's
}

// or returns the files, and those of other where there is none.
func (f TLSFiles) or(other TLSFiles) TLSFiles {
	if f.Cert == "" && f.Key == "" {
		f.Cert, f.Key = other.Cert, other.Key
	}
	f.CA = cmp.Or(f.CA, other.CA)
	return f
}

// check returns an error if a certificate has no key, or a key no certificate.
func (f TLSFiles) check() error {
	if (f.Cert == "") != (f.Key == "") {
		return fmt.Errorf("%w: a client certificate needs cert and key", ErrEndpoint)
	}
	return nil
}

// fill reads the files into a configuration. Its errors do not name the files: a name from an
// endpoint may be a part of a misplaced password.
func (f TLSFiles) fill(cfg *tls.Config) error {
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return fmt.Errorf("the file of cacert: %w", unnamed(err))
		}
		if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(text) {
			return errors.New("the file of cacert has no certificate")
		}
	}
	if f.Cert != "" {
		own, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return fmt.Errorf("the files of cert and key: %w", unnamed(err))
		}
		cfg.Certificates, cfg.GetClientCertificate = []tls.Certificate{own}, nil
	}
	return nil
}

func unnamed(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// secured is a connection with TLS.
type secured struct {
	*tls.Conn
	own   *tls.Certificate // nil if there is none
	asked bool             // the server asked for it
}

// secure begins TLS.
func (n *Node) secure(ctx context.Context, e *endpoint, network net.Conn) (*secured, error) {
	cfg, err := n.tlsConfig(e)
	if err != nil {
		return nil, err
	}
	s := &secured{}
	if cfg.GetClientCertificate == nil { // otherwise the user has one that knows better
		certificates := cfg.Certificates
		cfg.GetClientCertificate = func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			s.asked = true
			for i := range certificates {
				if request.SupportsCertificate(&certificates[i]) == nil {
					s.own = &certificates[i]
					return s.own, nil
				}
			}
			return &tls.Certificate{}, nil
		}
	}
	s.Conn = tls.Client(network, cfg)
	if err := s.HandshakeContext(ctx); err != nil {
		return nil, certificateError(err)
	}
	return s, nil
}

// ends returns when the certificates end, the server's and ours; zero for none.
func (s *secured) ends() (theirs, ours time.Time) {
	if peers := s.ConnectionState().PeerCertificates; len(peers) > 0 {
		theirs = peers[0].NotAfter
	}
	if s.own != nil && s.own.Leaf != nil {
		ours = s.own.Leaf.NotAfter
	}
	return theirs, ours
}

// explain explains why the handshake of a connection failed. With TLS 1.3 a server refuses a
// certificate only after the handshake of TLS, and if our first command crosses its alert, we see a
// connection that was reset. Then our certificate itself tells, if it has ended.
func (s *secured) explain(err error, answered bool, now time.Time) error {
	explained := certificateError(err)
	if errors.Is(explained, ErrCertificate) || answered || !s.asked {
		return explained
	}
	if s.own == nil {
		return fmt.Errorf("%w: it asks for one, and has ended the connection: %w", ErrCertificate, err)
	}
	if _, ours := s.ends(); !ours.IsZero() && ours.Before(now) {
		return fmt.Errorf("%w: ours has ended, at %s: %w", ErrCertificate, ours.UTC().Format(time.RFC3339), err)
	}
	return fmt.Errorf("%w (it has asked for our certificate, and may not accept it)", err)
}

// ErrCertificate means that the server does not accept our certificate, or wants one.
var ErrCertificate = trouble.Mark(trouble.Certificate, errors.New("pool: client certificate refused or missing"))

// refusals are the ways in which servers end TLS because of the client's certificate.
var refusals = []string{
	"tls: certificate required", "tls: bad certificate", "tls: expired certificate", "tls: revoked certificate",
	"tls: unknown certificate authority", "tls: unsupported certificate", "tls: certificate unknown", "tls: access denied",
}

// certificateError explains an end of TLS that is due to our certificate.
func certificateError(err error) error {
	text := err.Error()
	if !strings.Contains(text, "remote error: ") || !slices.ContainsFunc(refusals, func(r string) bool { return strings.Contains(text, r) }) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCertificate, err)
}

func (n *Node) tlsConfig(e *endpoint) (*tls.Config, error) {
	cfg := n.config.tls.Clone()
	if cfg == nil {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if e.serverName != "" {
		cfg.ServerName = e.serverName
	}
	if cfg.ServerName == "" {
		cfg.ServerName = e.host
	}
	return cfg, e.files.or(n.config.files).fill(cfg)
}

// whereTLS is what to look for if one side begins TLS and the other does not.
const whereTLS = "rediss:// is for servers with TLS; with a dialer that begins TLS itself, it is redis://"

// wherePlain is what to look for if a server may expect TLS.
const wherePlain = "redis:// is for servers without TLS, and for dialers that begin TLS themselves"

// whereDialed returns what to look for if a dial took too long; nothing if it was of package net,
// which says what it waited for.
func whereDialed(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return ""
	}
	return " (a dialer that begins TLS waits at a server without TLS)"
}

// tlsError is why TLS could not begin.
type tlsError struct{ err error }

func (e *tlsError) Error() string {
	var header tls.RecordHeaderError
	if errors.As(e.err, &header) {
		return "TLS: something else answered: " + whereTLS
	}
	return "TLS: " + e.err.Error()
}

func (e *tlsError) Unwrap() error { return e.err }

// mayWantTLS reports whether a connection ended as servers with TLS end those that begin without:
// over TCP, and with no answer to it or to an earlier one.
func (n *Node) mayWantTLS(e *endpoint, c *conn, err error) bool {
	if c == nil || c.in.replies > 0 || isReply(err) || errors.Is(err, ErrProtocol) || e.tls || e.network != "tcp" {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counts.connects == 0
}
