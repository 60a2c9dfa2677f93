package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// previous is the connection that a new one follows. A server that was stopped, or a proxy, may still hold commands of
// it: it is killed at the server before anything else is sent, so that a deferred release cannot come before its SET.
type previous struct {
	clientID int64
	runID    string
}

// connect dials, authenticates and introduces the client, all within the dial timeout, in two round trips at most.
func (n *Node) connect(ctx context.Context, last *previous) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, n.config.dialTimeout)
	defer cancel()
	network, err := n.config.dial(ctx, n.endpoint.network, n.endpoint.address)
	if err != nil {
		return nil, withoutContext(err)
	}
	closeInTime := context.AfterFunc(ctx, func() { _ = network.Close() }) //nolint:errcheck // its reads and writes fail, which is what it is for
	c, err := n.greet(ctx, network, last)
	if err == nil && closeInTime() {
		return c, nil
	}
	_ = network.Close() //nolint:errcheck // the connection is given up, with a better error at hand
	if ctx.Err() != nil {
		return nil, fmt.Errorf("connected, but not ready within %v", n.config.dialTimeout)
	}
	return nil, withoutContext(err)
}

// withoutContext returns an error that says the same and does not match the errors of a context: it was the dial's
// that ended, and whoever asks errors.Is means the caller's.
func withoutContext(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errors.New(err.Error())
	}
	return err
}

func (n *Node) greet(ctx context.Context, network net.Conn, last *previous) (*conn, error) {
	stream := network
	if n.endpoint.tls {
		secured := tls.Client(network, n.tlsConfig())
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("TLS: %w", err)
		}
		stream = secured
	}
	username, password := n.endpoint.username, n.endpoint.password
	if n.config.credentials != nil {
		var err error
		if username, password, err = n.config.credentials(ctx, n.name); err != nil {
			return nil, fmt.Errorf("credentials: %w", err)
		}
	}
	c := newConn(network, stream)
	c.guard.parser.quiet = password != "" // what a wrong server makes of AUTH is not shown
	if err := c.introduce(n, username, password); err != nil {
		return nil, err
	}
	c.guard.parser.quiet = false
	return c, c.kill(last)
}

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

// step is one command of the handshake.
type step struct {
	outgoing
	optional bool                 // an ACL may forbid it
	use      func(reply any) bool // takes the reply, and reports whether it is of the right kind
}

func isOK(reply any) bool { return reply == "OK" }

// introduce sends everything that a new connection needs with one write, and takes the answers.
func (c *conn) introduce(n *Node, username, password string) error {
	var steps []step
	var refused error
	c.identity.Connected = n.config.clock.Now()
	if password != "" {
		args := []any{password}
		if username != "" {
			args = []any{username, password}
		}
		steps = append(steps, step{outgoing{"AUTH", args}, false, isOK})
	}
	if n.endpoint.database != 0 {
		steps = append(steps, step{outgoing{"SELECT", []any{n.endpoint.database}}, false, isOK})
	}
	if n.config.clientName != "" {
		steps = append(steps, step{outgoing{"CLIENT", []any{"SETNAME", n.config.clientName}}, true, isOK})
	}
	steps = append(steps,
		step{outgoing{"CLIENT", []any{"ID"}}, true, func(reply any) (ok bool) { c.clientID, ok = reply.(int64); return ok }},
		step{outgoing{"INFO", []any{"server"}}, true, func(reply any) bool {
			info, ok := reply.([]byte)
			refused = errors.Join(refused, c.takeServer(string(info), n.config.clock.Now()))
			return ok
		}},
		step{outgoing{"INFO", []any{"replication"}}, true, func(reply any) bool {
			info, ok := reply.([]byte)
			refused = errors.Join(refused, takeReplication(string(info)))
			return ok
		}},
		step{outgoing{"CONFIG", []any{"GET", "append*"}}, true, c.takePersistence},
		step{outgoing{"PING", nil}, true, func(reply any) bool { return reply == "PONG" }},
	)
	err := c.exchange(steps)
	if err == nil {
		return refused
	}
	// Redis repeats the arguments of a command that it does not know, and cuts them.
	if password != "" && strings.Contains(err.Error(), password[:min(len(password), 4)]) {
		return errors.New("AUTH failed; the server's words are not shown because they repeat the password")
	}
	return err
}

// kill ends the previous connection at the server, if it is still the same server: a restarted one counts its
// clients anew, and the number would be somebody else's. Best effort: an ACL may forbid it.
func (c *conn) kill(last *previous) error {
	if last.clientID == 0 || last.runID == "" || last.runID != c.identity.RunID || last.clientID == c.clientID {
		return nil
	}
	err := c.exchange([]step{{outgoing{"CLIENT", []any{"KILL", "ID", last.clientID}}, true, func(reply any) bool {
		_, ok := reply.(int64)
		return ok
	}}})
	if err == nil {
		*last = previous{}
	}
	return err
}

// exchange sends the steps in one batch and takes all their answers.
func (c *conn) exchange(steps []step) error {
	batch := make([]outgoing, len(steps))
	for i, s := range steps {
		batch[i] = s.outgoing
	}
	if err := c.send(batch); err != nil {
		return connectionLost(err)
	}
	var failed error
	var denied redis.Error
	for _, s := range steps {
		reply, err := c.redis.Receive()
		var words redis.Error
		switch {
		case err != nil && !errors.As(err, &words):
			if failed != nil {
				return fmt.Errorf("%w: %w", failed, connectionLost(err))
			}
			if denied != "" {
				return fmt.Errorf("%w: %w", denied, connectionLost(err)) // too many clients, for one
			}
			return connectionLost(err)
		case err == nil && !s.use(reply):
			return fmt.Errorf("%w: %s was answered by a %T", ErrProtocol, s.name, reply)
		case err != nil && s.optional && isDenied(words):
			denied = words
		case err != nil && failed == nil:
			failed = fmt.Errorf("%s: %w", s.name, words)
		}
		c.received++
	}
	return failed
}

// isDenied reports whether the server refuses a command that we can do without (forbidden by an ACL, renamed away, unknown
// to a proxy or an imitation), rather than to serve us at all.
func isDenied(words redis.Error) bool {
	code, _, _ := strings.Cut(string(words), " ")
	switch code {
	case "NOAUTH", "DENIED", "LOADING", "BUSY", "MASTERDOWN":
		return false
	}
	return true
}

// infoField returns the value of a field of INFO's answer, or nothing.
func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == field {
			return value
		}
	}
	return ""
}
