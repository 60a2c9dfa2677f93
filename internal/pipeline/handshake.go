package pipeline

import (
	"cmp"
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

// handshakeFunc says what is said on a new connection before it is used. Where there is a password it sends AUTH; no error of
// it may repeat the password.
type handshakeFunc func(c *conn, username, password string) error

// connect dials, and shakes hands, all within the dial timeout.
func (n *Node) connect(ctx context.Context, handshake handshakeFunc) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, n.config.dialTimeout)
	defer cancel()
	network, err := n.config.dial(ctx, n.endpoint.network, n.endpoint.address)
	if err != nil {
		return nil, withoutContext(err)
	}
	closeInTime := context.AfterFunc(ctx, func() { _ = network.Close() }) //nolint:errcheck // its reads and writes fail, which is what it is for
	c, err := n.open(ctx, network, handshake)
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

func (n *Node) open(ctx context.Context, network net.Conn, handshake handshakeFunc) (*conn, error) {
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
	return c, handshake(c, username, password)
}

// handshakeAfter returns the handshake of the node's own connection, in two round trips at most.
func (n *Node) handshakeAfter(last *previous) handshakeFunc {
	return func(c *conn, username, password string) error {
		if err := c.handshake(n, username, password); err != nil {
			return err
		}
		c.guard.parser.quiet = false
		return c.kill(last)
	}
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
	optional bool                    // an ACL may forbid it
	use      func(reply any) bool    // takes the reply, and reports whether it is of the right kind
	anyway   bool                    // optional, whatever the server says: the others tell
	denied   func(words redis.Error) // told why an optional one was refused; may be nil
}

func isOK(reply any) bool { return reply == "OK" }

// handshake sends everything that a new connection needs with one write, and takes the answers.
func (c *conn) handshake(n *Node, username, password string) error {
	var refused error // the first reason that there is
	refuse := func(reason error) { refused = cmp.Or(refused, reason) }
	c.identity.Connected = n.config.clock.Now()
	steps := authenticate(username, password)
	if n.endpoint.database != 0 {
		steps = append(steps, step{outgoing: outgoing{"SELECT", []any{n.endpoint.database}}, use: isOK})
	}
	steps = append(steps, n.setName()...)
	memory := optional(c.takeMemory, "GET", MemoryKey)
	memory.anyway, memory.denied = true, c.takeNoMemory
	steps = append(steps,
		optional(func(reply any) (ok bool) { c.clientID, ok = reply.(int64); return ok }, "CLIENT", "ID"),
		memory, // before INFO: what the marker is compared with is no older than the marker
		info("server", func(text string) { refuse(c.takeServer(text, n.config.clock.Now())) }),
		info("replication", func(text string) { refuse(c.takeReplication(text)) }),
		info("cluster", func(text string) { refuse(takeCluster(text)) }),
		optional(c.takePersistence, "CONFIG", "GET", "*append*"),
		optional(c.takeBacklog, "CONFIG", "GET", "repl-backlog-ttl"),
	)
	var scripts trial
	steps = append(steps, scripts.steps()...)
	steps = append(steps, optional(func(reply any) bool { return reply == "PONG" }, "PING"))
	if err := c.exchange(steps); err != nil {
		return hidePassword(err, password)
	}
	refuse(scripts.verdict())
	c.mayLoad = scripts.load == nil
	return refused
}

// optional returns a step that an ACL may forbid.
func optional(use func(reply any) bool, name string, args ...any) step {
	return step{outgoing: outgoing{name, args}, optional: true, use: use}
}

// info returns the step that asks for a section of INFO.
func info(section string, take func(text string)) step {
	return optional(func(reply any) bool {
		text, ok := reply.([]byte)
		take(string(text))
		return ok
	}, "INFO", section)
}

// authenticate returns the AUTH of a connection, or nothing where there is no password.
func authenticate(username, password string) []step {
	switch {
	case password == "":
		return nil
	case username == "":
		return []step{{outgoing: outgoing{"AUTH", []any{password}}, use: isOK}}
	default:
		return []step{{outgoing: outgoing{"AUTH", []any{username, password}}, use: isOK}}
	}
}

// setName returns what names a connection in CLIENT LIST, or nothing where it has no name.
func (n *Node) setName() []step {
	if n.config.clientName == "" {
		return nil
	}
	return []step{optional(isOK, "CLIENT", "SETNAME", n.config.clientName)}
}

// errHidden stands for an error that repeats the password.
var errHidden = errors.New("the server's words are not shown because they repeat the password")

// hidePassword returns the error of a handshake, or errHidden: Redis repeats the arguments of a command that it does
// not know, and cuts them.
func hidePassword(err error, password string) error {
	switch {
	case password == "" || !strings.Contains(err.Error(), password[:min(len(password), 4)]):
		return err
	case errors.Is(err, ErrAuth):
		return fmt.Errorf("%w: %w", ErrAuth, errHidden)
	}
	return errHidden
}

// kill ends the previous connection at the server, if it is still the same server: a restarted one counts its
// clients anew, and the number would be somebody else's. Best effort: an ACL may forbid it.
func (c *conn) kill(last *previous) error {
	if last.clientID == 0 || last.runID == "" || last.runID != c.identity.RunID || last.clientID == c.clientID {
		return nil
	}
	err := c.exchange([]step{optional(func(reply any) bool {
		_, ok := reply.(int64)
		return ok
	}, "CLIENT", "KILL", "ID", last.clientID)})
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
		case err != nil && s.optional && (s.anyway || isDenied(words)):
			denied = words
			if s.denied != nil {
				s.denied(words)
			}
		case err != nil && failed == nil:
			failed = fmt.Errorf("%s: %w", s.name, words)
			if s.isAuth(words) {
				failed = fmt.Errorf("%w: %w", ErrAuth, failed)
			}
		}
		c.received++
	}
	return failed
}

// isAuth reports whether an error is about user and password. AUTH may also be answered for another
// reason (too many clients, data that is being loaded), and has no code of its own where the server
// wants no password or does not know AUTH.
func (s *step) isAuth(words redis.Error) bool {
	text := strings.ToUpper(string(words))
	switch code, rest, _ := strings.Cut(text, " "); code {
	case "NOAUTH", "WRONGPASS":
		return true
	case "ERR":
		return s.name == "AUTH" && (strings.Contains(rest, "AUTH") || strings.Contains(rest, "PASSWORD"))
	}
	return false
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
