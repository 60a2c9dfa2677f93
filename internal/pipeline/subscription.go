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

// refusedPause is the longest pause between two attempts if the server refuses; the shortest is
// half of it. What a server refuses (an ACL, a wrong password) stays refused until a person changes
// it. Many clients that retry every half second would only load the server, and fill its ACL log.
const refusedPause = 10 * time.Second

// Listener receives the messages of a subscription. One goroutine of the subscription calls all its
// methods, one after the other. They must be quick, must not wait, and must not call Close of the
// subscription or of its node.
type Listener interface {
	// Subscribed is called each time the server has confirmed the subscription: what is published
	// from now on arrives. What was published during a break is lost.
	Subscribed()
	// Unsubscribed is called when the subscription is not in force: the connection broke or could
	// not be made, or the server refuses (ACL). err says why, and never contains a password. It may
	// be called repeatedly while attempts fail. The last call of all is Unsubscribed with
	// [ErrClosed].
	Unsubscribed(err error)
	// Message is called with each message, in the order in which the server sent them.
	Message(message string)
}

// Subscription is a connection to a node's server that receives what is published on one channel.
// It reconnects when it breaks. Create it with [Node.Subscribe]. Its methods are safe for
// concurrent use.
type Subscription struct {
	node    *Node
	channel string
	to      Listener
	cancel  context.CancelFunc // ends run
	stopped chan struct{}      // closed when run and all its goroutines have ended

	mu         sync.Mutex // guards the fields below; never held over I/O or a call of the Listener
	closed     bool
	conn       *conn         // nil unless the subscription is in force
	watch      *clock.Timer  // runs tick for conn
	receivedAt clock.Instant // when something last arrived on conn
	ping       string        // the text of the unanswered PING; empty if there is none
	pingedAt   clock.Instant // when it was due
	pings      uint64
}

// Subscribe makes the node's server send a Listener what is published on a channel. It returns at
// once and dials in the background, with the node's endpoint and options. Each subscription costs a
// connection and two goroutines until it is closed, so have few. Its state is independent of the
// node's.
//
// A subscription breaks if the server sends something that no subscriber to one channel receives,
// or a message over 1 MiB. On a closed node the Listener receives only Unsubscribed with
// [ErrClosed], from a goroutine, and the subscription is closed.
func (n *Node) Subscribe(channel string, to Listener) *Subscription {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Subscription{node: n, channel: channel, to: to, cancel: cancel, stopped: make(chan struct{})}
	n.mu.Lock()
	if n.state == Closed {
		s.closed = true
		cancel()
	} else {
		n.subscriptions[s] = struct{}{} // the node's Close either finds it or was seen above
	}
	n.mu.Unlock()
	go s.run(ctx)
	return s
}

// Close ends the subscription. It returns nil once its goroutines have ended and the Listener has
// received Unsubscribed with [ErrClosed]. So do not call it from the Listener, nor while holding a
// mutex that the Listener takes. A second Close does nothing more.
func (s *Subscription) Close() error {
	s.end()
	return nil
}

func (s *Subscription) end() {
	s.cancel() // before ErrClosed is visible, so that run reports it only once, at the end
	s.mu.Lock()
	s.closed = true
	if s.conn != nil {
		s.conn.giveUpLocked(ErrClosed)
	}
	s.mu.Unlock()
	<-s.stopped
}

// run keeps the subscription in force until ctx ends. It is the goroutine that calls the Listener.
func (s *Subscription) run(ctx context.Context) {
	defer s.ended()
	n := s.node
	wait := clock.Backoff{Shortest: n.config.backoffMin, Longest: n.config.backoffMax}
	longest := max(refusedPause, 2*n.config.backoffMax)
	refused := clock.Backoff{Shortest: longest, Longest: longest}
	for ctx.Err() == nil {
		c, err := n.connect(ctx, s.handshake)
		if err == nil {
			before, began := c.in.replies, n.config.clock.Now()
			err = s.serve(c)
			// As with the node's own connection, one that broke in use is replaced at once.
			if used := c.in.replies > before; !errors.Is(err, ErrProtocol) && (used || n.config.clock.Now().Sub(began) >= steady) {
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

// unsubscribed reports why the subscription is not in force. Once it was closed, ended does.
func (s *Subscription) unsubscribed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		s.to.Unsubscribed(err)
	}
}

// ended is the last thing that run does. The node forgets the subscription once nobody has to wait
// for it.
func (s *Subscription) ended() {
	s.to.Unsubscribed(ErrClosed)
	close(s.stopped)
	n := s.node
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.subscriptions, s)
}

// handshake sends everything that a subscriber's connection needs with one write, and takes the
// answers. It does not ask the server who it is: the node does, and a message from a wrong server
// would only say something that its receiver finds untrue.
func (s *Subscription) handshake(c *conn, username, password string) error {
	c.in.pushes = true
	// If there is a password, the reader stays quiet for good. Replies are not counted here, so the
	// server's reply to AUTH may still come later.
	steps := append(authenticate(username, password), s.node.setName()...)
	steps = append(steps, step{words: Command("SUBSCRIBE", s.channel), use: func(reply any) bool {
		p, ok := parsePush(reply)
		return ok && p.kind == pushSubscribe && p.channel == s.channel
	}})
	if err := c.exchange(steps); err != nil {
		return hidePassword(err, password)
	}
	return nil
}

// isLasting reports whether an attempt failed because the server refuses, not for a reason that
// will pass: a server that loads its data or runs a script will serve again.
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
