package fakeredis

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// session is the server's side of a connection. Its one goroutine is run. Bytes arrive, become
// requests and are executed when they are due; their replies leave when those are due.
type session struct {
	node *Node
	id   int64
	conn *Conn         // the server's end
	wake chan struct{} // holds one: something changed. Written by anyone, read by run

	// Owned by run.
	partial  []byte      // of a command that is not complete
	ended    bool        // no more bytes will come
	requests []request   // in the order of arrival
	waiting  int         // bytes of requests and of what a muted network never acknowledged
	flight   []packet    // replies on their way, in order
	timer    *time.Timer // for what is due next; nil until something was
	random   *rand.Rand  // of the delays; nil until they are random

	// Guarded by node.mu.
	db         int
	subscribed []string // channels
	monitors   bool     // it is subscribed to all channels
	out        []byte   // replies that have not left
	outEnds    []int    // where each of them ends
	hangUp     bool     // execute nothing more, and close once the replies have left
	dead       bool     // reset
	lossy      bool     // a muted network has swallowed something: reset when it heals
}

// request is a command on its way to the server.
type request struct {
	args []string
	size int           // bytes
	due  clock.Instant // when it arrives
	err  error         // the bytes are no command
}

// packet is a reply on its way to the client.
type packet struct {
	bytes []byte
	due   clock.Instant
}

func newSession(n *Node, id int64, conn *Conn) *session {
	s := &session{node: n, id: id, conn: conn, wake: make(chan struct{}, 1)}
	conn.in.notify = s.signal
	return s
}

// signal wakes run to handle a change. It never blocks.
func (s *session) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // it will wake anyway
	}
}

// run serves the connection until it is over.
func (s *session) run() {
	for s.turn() {
		var due <-chan time.Time
		if s.timer != nil {
			due = s.timer.C
		}
		select {
		case <-s.wake:
		case <-due:
		}
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.node.forget(s)
}

// turn does what can be done now, and reports whether there may be more later.
func (s *session) turn() bool {
	s.arrive()
	for s.executeNext() {
		s.arrive() // there is room again
	}
	return s.deliver()
}

// arrive turns bytes into requests, unless too many are waiting.
func (s *session) arrive() {
	if s.waiting >= DefaultBuffer || s.ended {
		return
	}
	var broken bool
	s.partial, s.ended, broken = s.conn.in.take(s.partial)
	if broken {
		s.node.lose(s)
		return
	}
	read := 0
	for read < len(s.partial) {
		args, size, err := parseRequest(s.partial[read:])
		if err != nil {
			s.queue(request{err: err})
			s.ended, read = true, len(s.partial)
			break
		}
		if size == 0 {
			break
		}
		read += size
		if len(args) > 0 {
			s.queue(request{args: args, size: size})
		}
	}
	s.partial = s.partial[:copy(s.partial, s.partial[read:])]
}

// queue appends a request. It is due after its delay, and never before the request ahead of it.
func (s *session) queue(r request) {
	r.due = s.node.clk.Now()
	if delay := s.node.requestDelay(); delay != nil {
		r.due = r.due.Add(max(delay(s), 0))
	}
	if last := len(s.requests) - 1; last >= 0 {
		r.due = max(r.due, s.requests[last].due)
	}
	s.requests = append(s.requests, r)
	s.waiting += r.size
}

// executeNext executes the oldest request if it is due, and reports whether it was.
func (s *session) executeNext() bool {
	if len(s.requests) == 0 {
		return false
	}
	r := s.requests[0]
	if !s.node.serve(s, r) {
		return false
	}
	s.requests[0] = request{}
	s.requests = s.requests[1:]
	if len(s.requests) == 0 {
		s.requests = nil
	}
	return true
}

// deliver sends the replies that are due, closes the connection if it is over, and otherwise sets
// the timer for what is due next. It reports whether the session goes on.
func (s *session) deliver() bool {
	now := s.node.clk.Now()
	s.depart(now)
	n := s.node
	n.mu.Lock()
	defer n.mu.Unlock()
	due := 0
	for due < len(s.flight) && !now.Before(s.flight[due].due) {
		s.sendLocked(s.flight[due].bytes)
		due++
	}
	s.flight = s.flight[due:]
	switch {
	case s.dead && n.network.carriesReplies():
		s.conn.Reset()
		return false
	case s.dead:
		return true // until the network heals
	}
	drained := s.ended && len(s.requests) == 0 && !n.process.stopped
	if (s.hangUp || drained) && len(s.flight) == 0 && len(s.out) == 0 && n.network.carriesReplies() {
		s.conn.end()
		return false
	}
	s.sleepLocked(now)
	return true
}

// depart sends the finished replies on their way: at once if there is no delay.
func (s *session) depart(now clock.Instant) {
	n := s.node
	n.mu.Lock()
	delay := n.network.reply
	if delay == nil && len(s.flight) == 0 {
		if len(s.out) > 0 {
			s.sendLocked(s.out)
		}
		s.out, s.outEnds = s.out[:0], s.outEnds[:0]
		n.mu.Unlock()
		return
	}
	out, ends := s.out, s.outEnds
	s.out, s.outEnds = nil, nil
	n.mu.Unlock()

	start := 0
	for _, end := range ends {
		p := packet{bytes: out[start:end], due: now}
		if delay != nil {
			p.due = now.Add(max(delay(s), 0))
		}
		if last := len(s.flight) - 1; last >= 0 {
			p.due = max(p.due, s.flight[last].due)
		}
		s.flight = append(s.flight, p)
		start = end
	}
}

// sendLocked sends bytes to the client, or loses them.
func (s *session) sendLocked(bytes []byte) {
	if !s.node.network.carriesReplies() {
		s.lossy = true
		return
	}
	s.conn.out.push(bytes)
}

// sleepLocked sets the timer for the next request or reply that is due.
func (s *session) sleepLocked(now clock.Instant) {
	var next clock.Instant
	var any bool
	if len(s.requests) > 0 && !s.node.process.stopped && !s.hangUp {
		next, any = s.requests[0].due, true
	}
	if len(s.flight) > 0 && (!any || s.flight[0].due.Before(next)) {
		next, any = s.flight[0].due, true
	}
	if !any {
		return
	}
	// Like a clock.Timer, but it makes no goroutine for each message.
	nap := max(min(next.Sub(now), clock.MaxNap), time.Nanosecond)
	if s.timer == nil {
		s.timer = time.NewTimer(nap) //nolint:forbidigo // for as long as the clock says
	} else {
		s.timer.Reset(nap)
	}
}

// replyLocked appends r to the session's output.
func (s *session) replyLocked(r reply) {
	s.out = r.appendTo(s.out)
	s.outEnds = append(s.outEnds, len(s.out))
}

// replyRawLocked appends bytes that need not be a reply.
func (s *session) replyRawLocked(raw []byte) {
	s.out = append(s.out, raw...)
	s.outEnds = append(s.outEnds, len(s.out))
}

// serve executes a request, with the faults that apply to it. It reports whether it is done with
// the request: false if the request is not due or the process is stopped.
func (n *Node) serve(s *session, r request) bool {
	n.mu.Lock()
	if s.dead || s.hangUp || n.process.stopped || n.clk.Now().Before(r.due) {
		n.mu.Unlock()
		return false
	}
	if n.network.mute {
		s.lossy = true // s.waiting stays the same: unacknowledged bytes fill the client's buffer
		n.mu.Unlock()
		return true
	}
	s.waiting -= r.size
	if r.err != nil {
		s.replyLocked(failure("ERR " + r.err.Error()))
		s.hangUp = true
		n.mu.Unlock()
		return true
	}
	if n.network.loseRequests > 0 {
		n.network.loseRequests--
		n.network.lost++
		n.resetLocked(s)
		n.mu.Unlock()
		return true
	}
	var raw []byte
	if script := n.network.replyRaw; script != nil {
		n.mu.Unlock()
		raw = script(slices.Clone(r.args))
		n.mu.Lock()
		if s.dead {
			n.mu.Unlock()
			return true
		}
	}
	command := Command{At: n.clk.Now(), Conn: s.id, Args: r.args}
	if !n.settings.unlogged {
		n.log = append(n.log, command)
	}
	n.answerLocked(s, n.executeLocked(s, r.args), raw)
	hook, onChange, changes := n.hook, n.onChange, n.changes
	n.changes = nil
	n.mu.Unlock()

	for _, c := range changes {
		onChange(c)
	}
	if hook != nil {
		hook(command)
	}
	return true
}

// answerLocked sends the answer, or what the faults make of it.
func (n *Node) answerLocked(s *session, answer reply, raw []byte) {
	f := &n.network
	if f.cutAfter > 0 {
		f.cutAfter--
		if f.cutAfter == 0 {
			f.lost++
			s.hangUp = true
			return
		}
	}
	if f.loseReplies > 0 {
		f.loseReplies--
		f.lost++
		n.resetLocked(s)
		return
	}
	start := len(s.out)
	if raw != nil {
		s.replyRawLocked(raw)
	} else {
		s.replyLocked(answer)
	}
	if f.cutReplySet {
		s.out = s.out[:min(len(s.out), start+f.cutReply)]
		s.outEnds[len(s.outEnds)-1] = len(s.out)
		s.hangUp, f.cutReplySet = true, false
		f.lost++
	}
}

// lose marks a session whose client has reset the connection.
func (n *Node) lose(s *session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s.dead, s.ended = true, true
}

// forget removes a session that is over.
func (n *Node) forget(s *session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unsubscribeLocked(s)
	if i := slices.Index(n.sessions, s); i >= 0 {
		n.sessions = slices.Delete(n.sessions, i, i+1)
	}
}
