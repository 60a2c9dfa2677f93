package fake

import "slices"

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
	n.log.add(command)
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
	n.unsubscribeAllLocked(s)
	if i := slices.Index(n.sessions, s); i >= 0 {
		n.sessions = slices.Delete(n.sessions, i, i+1)
	}
}
