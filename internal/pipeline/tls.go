package pipeline

import (
	"crypto/tls"
	"errors"
	"net"
)

func (n *Node) tlsConfig() *tls.Config {
	cfg := n.config.tls.Clone()
	if cfg == nil {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if cfg.ServerName == "" {
		cfg.ServerName = n.endpoint.host
	}
	return cfg
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
func (n *Node) mayWantTLS(c *conn, err error) bool {
	if c == nil || c.received > 0 || isReply(err) || errors.Is(err, ErrProtocol) || n.endpoint.tls || n.endpoint.network != "tcp" {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counts.connects == 0
}
