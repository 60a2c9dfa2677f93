package pipeline

import "iter"

// Unanswered returns the Sinks of the calls that have not ended. One whose outcome is on its way to
// it may be missing.
func (n *Node) Unanswered() map[Sink]struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	sinks := map[Sink]struct{}{}
	for c := range n.unansweredLocked() {
		sinks[c.Request.Sink] = struct{}{}
	}
	return sinks
}

// unansweredLocked yields the calls that have not ended.
func (n *Node) unansweredLocked() iter.Seq[*Call] {
	return func(yield func(*Call) bool) {
		for c := range n.callsLocked() {
			if !c.completed && !yield(c) {
				return
			}
		}
		if n.conn == nil {
			return
		}
		for i := range n.conn.unproven {
			if c := &n.conn.unproven[i].call; !c.completed && !yield(c) {
				return
			}
		}
	}
}

// callsLocked yields the calls that the server has not answered, queued or sent, whether or not
// they have ended.
func (n *Node) callsLocked() iter.Seq[*Call] {
	rings := []*ring{&n.queue}
	if n.conn != nil {
		rings = append(rings, &n.conn.retries, &n.conn.pending)
	}
	return func(yield func(*Call) bool) {
		for _, r := range rings {
			for i := range r.len() {
				if !yield(r.at(i)) {
					return
				}
			}
		}
	}
}
