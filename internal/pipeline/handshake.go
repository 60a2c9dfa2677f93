package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"

	"github.com/redquorum/redquorum/internal/trouble"
)

// previous is the connection that a new one follows. A stopped server, or a proxy, may still hold
// commands of it. So the server is told to kill it before anything else is sent, and a deferred
// release cannot overtake its SET.
type previous struct {
	clientID int64
	runID    string
}

// handshakeFunc is the handshake of a new connection, before it is used. It sends AUTH if there is
// a password; none of its errors may repeat the password.
type handshakeFunc func(c *conn, username, password string) error

// connect dials and performs the handshake, all within the dial timeout.
func (n *Node) connect(ctx context.Context, handshake handshakeFunc) (*conn, error) {
	e := n.endpoint.Load()
	if e.untrusted != nil {
		return nil, e.untrusted
	}
	ctx, cancel := context.WithTimeout(ctx, n.config.dialTimeout)
	defer cancel()
	network, err := n.config.dial(ctx, e.network, e.address)
	if err != nil {
		if ctx.Err() != nil {
			err = trouble.Mark(trouble.Silent, fmt.Errorf("not connected within %v: %w%s", n.config.dialTimeout, err, whereDialed(err)))
		}
		return nil, withoutContext(err)
	}
	closeInTime := context.AfterFunc(ctx, func() {
		_ = network.Close() //nolint:errcheck // makes its reads and writes fail
	})
	c, err := n.open(ctx, e, network, handshake)
	if err == nil && closeInTime() {
		return c, nil
	}
	_ = network.Close() //nolint:errcheck // given up, with a better error at hand
	if ctx.Err() != nil {
		var open *tlsError
		if errors.As(err, &open) { // each side may wait for the other to begin
			return nil, trouble.Mark(trouble.TLSAtPlain, fmt.Errorf("connected, but no TLS within %v: %s", n.config.dialTimeout, whereTLS))
		}
		return nil, trouble.Mark(trouble.Silent, fmt.Errorf("connected, but not ready within %v%s", n.config.dialTimeout, whereMute(c)))
	}
	if n.mayWantTLS(e, c, err) {
		err = trouble.Mark(trouble.PlainAtTLS, fmt.Errorf("%w; it has answered nothing: %s", err, wherePlain))
	}
	return nil, withoutContext(err)
}

// whereMute returns what to look for if a handshake took too long: nothing if some of it was
// answered.
func whereMute(c *conn) string {
	if c == nil || c.in.replies > 0 {
		return ""
	}
	return ": no answer (the server hangs, or the network loses large packets: compare the MTU along the path)"
}

// withoutContext returns an error with the same text that does not match the errors of a context:
// it was the dial's context that ended, and a caller that asks errors.Is means its own.
func withoutContext(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return trouble.Mark(trouble.Of(err), errors.New(err.Error()))
	}
	return err
}

func (n *Node) open(ctx context.Context, e *endpoint, network net.Conn, handshake handshakeFunc) (*conn, error) {
	stream := network
	var s *secured // nil without TLS
	if e.tls {
		var err error
		if s, err = n.secure(ctx, e, network); err != nil {
			return nil, &tlsError{err}
		}
		stream = s.Conn
	}
	username, password := e.username, e.password
	if n.config.credentials != nil {
		var err error
		if username, password, err = n.config.credentials(ctx, n.name); err != nil {
			return nil, fmt.Errorf("credentials: %w", err)
		}
	}
	c := newConn(network, stream)
	c.in.quiet = password != "" // a wrong server may repeat the arguments of AUTH
	if s == nil {
		return c, handshake(c, username, password)
	}
	c.identity.CertEnds, c.identity.OwnCertEnds = s.ends()
	if err := handshake(c, username, password); err != nil {
		return c, s.explain(err, c.in.replies > 0 || isReply(err), n.config.clock.Wall())
	}
	return c, nil
}

// handshakeAfter returns the handshake of the node's own connection. It takes two round trips at
// most.
func (n *Node) handshakeAfter(last *previous) handshakeFunc {
	return func(c *conn, username, password string) error {
		if err := c.handshake(n, username, password); err != nil {
			return err
		}
		c.in.quiet = false
		return c.kill(last)
	}
}

// step is one command of the handshake.
type step struct {
	words    Words
	optional bool                    // an ACL may forbid it
	use      func(reply any) bool    // takes the reply; reports whether its kind is right
	anyway   bool                    // optional whatever the error: the other steps tell
	denied   func(words redis.Error) // told why an optional step was refused; may be nil
}

func isOK(reply any) bool { return reply == "OK" }

// handshake sends everything that a new connection needs with one write, and takes the answers.
func (c *conn) handshake(n *Node, username, password string) error {
	var refused error // the first reason
	refuse := func(reason error) { refused = cmp.Or(refused, reason) }
	c.identity.Connected = n.config.clock.Now()
	steps := authenticate(username, password)
	if database := n.Database(); database != 0 {
		steps = append(steps, step{words: Command("SELECT", database), use: isOK})
	}
	steps = append(steps, n.setName()...)
	memory := optional(c.takeMemory, askForProof)
	memory.anyway, memory.denied = true, c.takeNoMemory
	steps = append(steps,
		optional(func(reply any) (ok bool) { c.clientID, ok = reply.(int64); return ok }, Command("CLIENT", "ID")),
		memory, // before INFO: the marker must not be newer than what it is compared with
		info("server", func(text string) { refuse(c.takeServer(text, n.config.clock.Now())) }),
		info("replication", func(text string) { refuse(c.takeReplication(text)) }),
		info("cluster", func(text string) { refuse(takeCluster(text)) }),
		info("memory", func(text string) { refuse(takeMemoryLimit(text)) }),
		optional(c.takeBacklog, Command("CONFIG", "GET", "repl-backlog-ttl")),
	)
	var kept persistence
	steps = append(steps, kept.steps()...)
	var scripts trial
	steps = append(steps, scripts.steps()...)
	steps = append(steps, optional(func(reply any) bool { return reply == "PONG" }, Command("PING")))
	if err := c.exchange(steps); err != nil {
		return hidePassword(err, password)
	}
	kept.judge(&c.identity)
	refuse(scripts.verdict())
	c.mayLoad, c.mayEval = scripts.load == nil, scripts.full == nil
	return refused
}

// optional returns a step that an ACL may forbid.
func optional(use func(reply any) bool, words Words) step {
	return step{words: words, optional: true, use: use}
}

// info returns the step that asks for a section of INFO.
func info(section string, take func(text string)) step {
	return optional(func(reply any) bool {
		text, ok := reply.([]byte)
		take(printableLines(string(text)))
		return ok
	}, Command("INFO", section))
}

// authenticate returns the AUTH step of a connection, or nothing if there is no password.
func authenticate(username, password string) []step {
	switch {
	case password == "":
		return nil
	case username == "":
		return []step{{words: Command("AUTH", password), use: isOK}}
	default:
		return []step{{words: Command("AUTH", username, password), use: isOK}}
	}
}

// setName returns the step that names a connection in CLIENT LIST, or nothing if it has no name.
func (n *Node) setName() []step {
	if n.config.clientName == "" {
		return nil
	}
	return []step{optional(isOK, Command("CLIENT", "SETNAME", n.config.clientName))}
}

// errHidden stands for an error that repeats the password.
var errHidden = errors.New("the server's error is not shown because it repeats the password")

// hidePassword returns the error of a handshake, or errHidden: Redis repeats the arguments of a
// command that it does not know, and truncates them.
func hidePassword(err error, password string) error {
	switch {
	case password == "" || !strings.Contains(err.Error(), Printable(beginning(password))):
		return err
	case errors.Is(err, ErrAuth):
		return trouble.Mark(trouble.Of(err), fmt.Errorf("%w: %w", ErrAuth, errHidden))
	}
	return errHidden
}

// beginning returns the first characters of a password, in 4 bytes or one character.
func beginning(password string) string {
	n := 0
	for n < len(password) {
		_, size := utf8.DecodeRuneInString(password[n:])
		if n > 0 && n+size > 4 {
			break
		}
		n += size
	}
	return password[:n]
}

// kill ends the previous connection at the server if it is still the same server. A restarted
// server numbers its clients anew, so the number would be another client's. Best effort: an ACL may
// forbid it.
func (c *conn) kill(last *previous) error {
	if last.clientID == 0 || last.runID == "" || last.runID != c.identity.RunID || last.clientID == c.clientID {
		return nil
	}
	err := c.exchange([]step{optional(func(reply any) bool {
		_, ok := reply.(int64)
		return ok
	}, Command("CLIENT", "KILL", "ID", last.clientID))})
	if err == nil {
		*last = previous{}
	}
	return err
}

// exchange sends the steps in one batch and takes all their answers.
func (c *conn) exchange(steps []step) error {
	batch := make([]outgoing, len(steps))
	for i, s := range steps {
		batch[i] = plain(s.words)
	}
	if err := c.send(batch); err != nil {
		return connectionLost(err)
	}
	var failed error
	var denied redis.Error
	for _, s := range steps {
		reply, err := c.receive()
		var words redis.Error
		switch {
		case err != nil && !errors.As(err, &words):
			if failed == nil && denied != "" {
				failed = denied // e.g. too many clients
			}
			if failed != nil { // it says more than that the connection has ended
				return trouble.Mark(trouble.Of(failed), fmt.Errorf("%w: %w", failed, connectionLost(err)))
			}
			return connectionLost(err)
		case err == nil && !s.use(reply):
			return fmt.Errorf("%w: %s was answered with %T", ErrProtocol, s.words.name(), reply)
		case err != nil && s.optional && (s.anyway || isDenied(words)):
			denied = words
			if s.denied != nil {
				s.denied(words)
			}
		case err != nil && failed == nil:
			failed = fmt.Errorf("%s: %w", s.words.name(), words)
			if s.isAuth(words) {
				failed = fmt.Errorf("%w: %w", ErrAuth, failed)
				if trouble.Of(failed) == "" { // in words of its own
					failed = trouble.Mark(trouble.WrongPassword, failed)
				}
			}
		}
	}
	return failed
}

// isAuth reports whether an error is about user and password. AUTH may also fail for another reason
// (too many clients, a dataset that is being loaded), and its error has no code of its own if the
// server wants no password or does not know AUTH.
func (s *step) isAuth(words redis.Error) bool {
	text := strings.ToUpper(string(words))
	switch code, rest, _ := strings.Cut(text, " "); code {
	case "NOAUTH", "WRONGPASS":
		return true
	case "ERR":
		return s.words.name() == "AUTH" && (strings.Contains(rest, "AUTH") || strings.Contains(rest, "PASSWORD"))
	}
	return false
}

// isDenied reports whether the server refuses a command that we can do without (forbidden by an
// ACL, renamed, unknown to a proxy or an imitation), as opposed to refusing to serve us at all.
func isDenied(words redis.Error) bool {
	code, _, _ := strings.Cut(string(words), " ")
	switch code {
	case "NOAUTH", "DENIED", "LOADING", "BUSY", "MASTERDOWN":
		return false
	}
	return true
}

// infoField returns the value of a field of an INFO reply, or nothing.
func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == field {
			return value
		}
	}
	return ""
}
