package pipeline

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/redquorum/redquorum/internal/trouble"
)

// The masters' list of members names endpoints, and whoever may lock may change that list. So a
// member that our own list lacks gets our credentials (password, client certificate, or what the
// function of [WithCredentials] returns) only where our configuration leads:
//
//   - with TLS, if any endpoint of our list has it, and a certificate for the host or for a name
//     that our list has for that host;
//   - on a host of our list, and then those that this host has there; on another host only with
//     [WithMemberCredentials], and then those of the first endpoint.
//
// Hosts are compared as text (IP addresses in any form): a name that is resolved would let the name
// service decide. What the masters say of users, passwords and files is ignored.

// ErrUntrusted means that there is no connection to a member that only the masters name, because
// our credentials must not go there.
var ErrUntrusted = trouble.Mark(trouble.Untrusted, errors.New("pool: credentials are not sent there"))

// WithMemberCredentials allows the credentials of the first node to go to members on any host.
func WithMemberCredentials() Option {
	return func(c *config) error {
		c.trustMembers = true
		return nil
	}
}

// NewMember returns the node of a member at an endpoint that only the masters name, with the
// options of the nodes of our list. Where our credentials must not go it is never dialed, and Down
// with [ErrUntrusted].
func NewMember(list []*Node, text string) (*Node, error) {
	e, err := parseEndpoint(text)
	if err != nil {
		return nil, err
	}
	e.username, e.password, e.files = "", "", TLSFiles{}
	from, listed := sponsor(list, &e)
	named := hasName(list, &e)
	e.inherit(from.endpoint.Load(), listed)
	switch secret := from.config.identifies(&e); {
	case !e.tls && slices.ContainsFunc(list, (*Node).hasTLS):
		e.untrusted = fmt.Errorf("%w: it is without TLS, and the list has TLS", ErrUntrusted)
	case secret && !listed && !from.config.trustMembers:
		e.untrusted = fmt.Errorf("%w: its host is not in the list: add it there, or allow all members (WithMemberCredentials, --trust-members)", ErrUntrusted)
	case secret && !named && !from.config.trustMembers:
		e.untrusted = fmt.Errorf("%w: the list has no such servername for its host: add it there, or allow all members (WithMemberCredentials, --trust-members)", ErrUntrusted)
	}
	return newNode(e, from.config), nil
}

// Named returns the node at an endpoint that the caller has named, beside a list: with the options
// of its nodes, and their credentials and files where the endpoint has none. It is an [ErrEndpoint]
// if these would leave a list with TLS for an endpoint without.
func Named(list []*Node, text string) (*Node, error) {
	e, err := parseEndpoint(text)
	if err != nil {
		return nil, err
	}
	from, listed := sponsor(list, &e)
	own := e.password != "" && from.config.credentials == nil
	e.inherit(from.endpoint.Load(), listed)
	if !own && !e.tls && from.config.identifies(&e) && slices.ContainsFunc(list, (*Node).hasTLS) {
		return nil, fmt.Errorf("%w: it is without TLS, and the list has TLS: the credentials of the list are not sent there", ErrEndpoint)
	}
	return newNode(e, from.config), nil
}

// Trust lets a node connect that was not dialed ([ErrUntrusted]): with the credentials of another
// one at the same endpoint, which the caller has named.
func (n *Node) Trust(named *Node) {
	if n.endpoint.Load().untrusted != nil {
		n.endpoint.Store(named.endpoint.Load())
	}
}

// sponsor returns the node of a list by whose credentials and options an endpoint is reached: the
// first one on its host, if there is one, otherwise the first of all.
func sponsor(list []*Node, e *endpoint) (from *Node, listed bool) {
	for _, n := range list {
		if other := n.endpoint.Load(); other.network == e.network && hostOf(other) == hostOf(e) {
			return n, true
		}
	}
	return list[0], false
}

// hasName reports whether the list has, for the host of an endpoint, the name of its certificate.
// Otherwise whoever changes the masters' list could name a certificate of their own.
func hasName(list []*Node, e *endpoint) bool {
	return e.serverName == "" || e.serverName == e.host || slices.ContainsFunc(list, func(n *Node) bool {
		other := n.endpoint.Load()
		return other.network == e.network && hostOf(other) == hostOf(e) && other.serverName == e.serverName
	})
}

// hostOf returns the host of an endpoint in its shortest form, or the path of its socket.
func hostOf(e *endpoint) string {
	if e.network == "unix" {
		return e.address
	}
	if ip, err := netip.ParseAddr(e.host); err == nil {
		return ip.Unmap().String()
	}
	return e.host
}

func (n *Node) hasTLS() bool { return n.endpoint.Load().tls }

// inherit takes the credentials and files of another endpoint where this one has none, and the name
// of its certificate if both are on one host.
func (e *endpoint) inherit(from *endpoint, oneHost bool) {
	if e.tls && oneHost && e.serverName == "" {
		e.serverName = from.serverName
	}
	if e.password == "" {
		e.username, e.password = from.username, from.password
	}
	if e.tls {
		e.files = e.files.or(from.files)
	}
}

// identifies reports whether a connection to an endpoint would show who we are.
func (c *config) identifies(e *endpoint) bool {
	if e.password != "" || c.credentials != nil {
		return true
	}
	own := c.tls != nil && (len(c.tls.Certificates) > 0 || c.tls.GetClientCertificate != nil)
	return e.tls && (own || e.files.Cert != "" || c.files.Cert != "")
}
