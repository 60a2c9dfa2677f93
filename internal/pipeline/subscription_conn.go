package pipeline

import "fmt"

// serve uses a connection until it breaks, and returns why it broke.
func (s *Subscription) serve(c *conn) error {
	if !s.begin(c) {
		c.close()
		return ErrClosed
	}
	pinging := make(chan struct{})
	go func() {
		defer close(pinging)
		s.giveUp(c, s.writePings(c)) // ends the reader
	}()
	s.to.Subscribed()
	s.giveUp(c, s.read(c)) // ends a blocked write
	close(c.gone)
	<-pinging
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.ping = nil, ""
	s.watch.Stop()
	return c.err
}

// begin makes c the connection of the subscription, unless the subscription was closed meanwhile.
func (s *Subscription) begin(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	config := &s.node.config
	s.conn, s.receivedAt = c, config.clock.Now()
	// tick takes mu, so it finds watch set.
	s.watch = config.clock.AfterFunc(idlePing, func() { s.tick(c) })
	return true
}

// giveUp ends a connection. The first reason counts.
func (s *Subscription) giveUp(c *conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.giveUpLocked(err)
}

// read hands the messages to the Listener until the connection ends.
func (s *Subscription) read(c *conn) error {
	for {
		reply, err := c.receive()
		if err != nil && !isReply(err) {
			return connectionLost(err)
		}
		p, err := s.take(c, reply, err)
		if err != nil {
			return err
		}
		if p.kind == pushMessage {
			s.to.Message(p.text)
		}
	}
}

// take checks one reply, and counts it as a sign of life. Its errors contain nothing of the reply,
// which may repeat a password.
func (s *Subscription) take(c *conn, reply any, refusal error) (push, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.err != nil {
		return push{}, c.err // given up: the Listener does not need what has been read already
	}
	p, ok := push{kind: pushPong, text: s.ping}, true
	if refusal == nil {
		p, ok = parsePush(reply)
	}
	switch {
	case !ok:
		return push{}, fmt.Errorf("%w: a subscriber received %T", ErrProtocol, reply)
	case p.kind == pushPong && (s.ping == "" || p.text != s.ping):
		return push{}, fmt.Errorf("%w: a reply that nobody asked for", ErrProtocol)
	case p.kind == pushPong:
		// An error is an answer, too: an ACL may forbid PING.
		s.ping = ""
	case p.kind != pushMessage || p.channel != s.channel:
		return push{}, fmt.Errorf("%w: the server changed the subscription", ErrProtocol)
	}
	s.receivedAt = s.node.config.clock.Now()
	return p, nil
}

// tick runs when something may be due. It has an idle connection PINGed, and gives up the
// connection if that PING is not answered. The time counts from the PING, not from the last
// message, because a process that did not run for a while did not receive either.
func (s *Subscription) tick(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c || c.err != nil {
		return
	}
	config := &s.node.config
	now := config.clock.Now()
	if s.ping == "" {
		if pingAt := s.receivedAt.Add(idlePing); pingAt > now {
			s.watch.Reset(pingAt.Sub(now))
			return
		}
		s.pings++
		s.ping, s.pingedAt = fmt.Sprint("redquorum-subscriber-", s.pings), now
		select {
		case c.wake <- struct{}{}:
		default: // the writer has not taken the last signal, and will find this PING
		}
	}
	giveUpAt := max(s.pingedAt, s.receivedAt).Add(config.dialTimeout) // any reply is a sign of life
	if giveUpAt > now {
		s.watch.Reset(giveUpAt.Sub(now))
		return
	}
	c.giveUpLocked(fmt.Errorf("%w: nothing received for %v", ErrStalled, now.Sub(s.receivedAt)))
}

// writePings sends a PING whenever tick wants one. tick itself does not write, because a write may
// wait for a peer that takes nothing, and tick is what ends such a write.
func (s *Subscription) writePings(c *conn) error {
	for {
		select {
		case <-c.wake:
		case <-c.gone:
			return nil
		}
		s.mu.Lock()
		text := s.ping
		s.mu.Unlock()
		if text == "" {
			continue // a wrong server answered too early
		}
		if err := c.send([]outgoing{plain(Command("PING", text))}); err != nil {
			return connectionLost(err)
		}
	}
}
