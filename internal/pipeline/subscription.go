package pipeline

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redquorum/redquorum/clock"
)

// refusedPause is the longest pause between two attempts where the server refuses; the shortest is half of it. What it refuses (an
// ACL, a wrong password) stays refused until a person changes it, so many clients that ask every half second
// would only be a load on the server, and fill its ACL log.
const refusedPause = 10 * time.Second

// Listener is told what a subscription hears. All its methods are called from one goroutine of the subscription's, one
// after the other; they must be quick, must not wait, and must not call Close of the subscription or of its node.
type Listener interface {
	// Subscribed is called each time the server has confirmed the subscription: what is published from now on is heard.
	// After a break, what was published meanwhile is lost.
	Subscribed()
	// Unsubscribed is called when the subscription is not in force: the connection broke or could not be made, or the server
	// refuses (ACL). err says why, and never contains a password. It may be called again and again while attempts fail.
	// The last call of all is Unsubscribed with [ErrClosed].
	Unsubscribed(err error)
	// Message is called with each message, in the order in which the server sent them.
	Message(message string)
}

// Subscription is a connection to a node's server that hears what is published on one channel. It is made anew when it
// breaks. Make it with [Node.Subscribe]. Its methods may be called from any goroutine.
type Subscription struct {
	node    *Node
	channel string
	to      Listener
	cancel  context.CancelFunc // ends run
	stopped chan struct{}      // closed by run when it and all its goroutines have ended

	mu         sync.Mutex // guards the fields below; never held over I/O, nor while the Listener is told
	closed     bool
	conn       *conn         // nil unless the subscription is in force
	watch      *clock.Timer  // runs tick for conn
	receivedAt clock.Instant // when something last came on conn
	ping       string        // the text of the PING that has no answer yet; empty while there is none
	pingedAt   clock.Instant // when it was due
	pings      uint64
}

// Subscribe makes the node's server tell a Listener what is published on a channel. It returns at once and dials in the
// background, with the node's endpoint and options. Each subscription costs a connection and two goroutines,
// until it is closed: have few. Its state has nothing to do with the node's.
//
// A subscription breaks where the server says what no subscriber to one channel is told, or a message over 1 MiB.
// On a closed node the Listener is told nothing but Unsubscribed with [ErrClosed], from a goroutine, and the subscription is closed.
func (n *Node) Subscribe(channel string, to Listener) *Subscription {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Subscription{node: n, channel: channel, to: to, cancel: cancel, stopped: make(chan struct{})}
	n.mu.Lock()
	if n.state == Closed {
		s.closed = true
		cancel()
	} else {
		n.subscriptions[s] = struct{}{} // Close of the node finds it, or has been seen above
	}
	n.mu.Unlock()
	go s.run(ctx)
	return s
}

// Close ends the subscription. It returns nil, when its goroutines have ended and the Listener has been told Unsubscribed with
// [ErrClosed]; so it must not be called by the Listener, nor holding a mutex that the Listener takes. A second Close does
// nothing more.
func (s *Subscription) Close() error {
	s.end()
	return nil
}

func (s *Subscription) end() {
	s.cancel() // before ErrClosed can be seen: run tells it once, as the last thing
	s.mu.Lock()
	s.closed = true
	if s.conn != nil {
		s.conn.giveUpLocked(ErrClosed)
	}
	s.mu.Unlock()
	<-s.stopped
}

// run keeps the subscription in force until ctx ends. It is the goroutine that tells the Listener.
func (s *Subscription) run(ctx context.Context) {
	defer s.ended()
	n := s.node
	wait := clock.Backoff{Shortest: n.config.backoffMin, Longest: n.config.backoffMax}
	longest := max(refusedPause, 2*n.config.backoffMax)
	refused := clock.Backoff{Shortest: longest, Longest: longest}
	for ctx.Err() == nil {
		c, err := n.connect(ctx, s.handshake)
		if err == nil {
			before, began := c.received, n.config.clock.Now()
			err = s.serve(c)
			// As for the node's own connection: what broke in use is replaced at once.
			if used := c.received > before; !errors.Is(err, ErrProtocol) && (used || n.config.clock.Now().Sub(began) >= steady) {
				wait.Reset()
				s.unsubscribed(ctx, err)
				continue
			}
		}
		s.unsubscribed(ctx, err)
		if isLasting(err) {
			clock.Sleep(ctx, n.config.clock, refused.Next())
		} else {
			clock.Sleep(ctx, n.config.clock, wait.Next())
		}
	}
}

// unsubscribed tells why the subscription is not in force; once it was closed, ended does.
func (s *Subscription) unsubscribed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		s.to.Unsubscribed(err)
	}
}

// ended is the last thing that run does. The node forgets the subscription when nobody has to wait for it any more.
func (s *Subscription) ended() {
	s.to.Unsubscribed(ErrClosed)
	close(s.stopped)
	n := s.node
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.subscriptions, s)
}

// handshake sends everything that a subscriber's connection needs with one write, and takes the answers. The server is not asked
// who it is: the node asks, and a message from a wrong one would only say something that its hearer finds untrue.
func (s *Subscription) handshake(c *conn, username, password string) error {
	c.guard.pushes = true
	// The parser stays quiet for good where there is a password: what the server makes of AUTH may come late here, for
	// nobody counts the replies.
	steps := append(authenticate(username, password), s.node.setName()...)
	steps = append(steps, step{outgoing: outgoing{"SUBSCRIBE", []any{s.channel}}, use: func(reply any) bool {
		p, ok := parsePush(reply)
		return ok && p.kind == pushSubscribe && p.channel == s.channel
	}})
	if err := c.exchange(steps); err != nil {
		return hidePassword(err, password)
	}
	return nil
}

// isLasting reports whether an attempt failed by the server's will, and not by what will pass: a server that loads its
// data or runs a script serves again.
func isLasting(err error) bool {
	var words redis.Error
	if !errors.As(err, &words) {
		return errors.Is(err, errHidden)
	}
	switch code, _, _ := strings.Cut(string(words), " "); code {
	case "BUSY", "LOADING", "MASTERDOWN":
		return false
	}
	return true
}
