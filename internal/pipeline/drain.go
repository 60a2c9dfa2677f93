package pipeline

import "context"

// Drain waits until the server has answered all kept calls. It returns how many it has not answered
// when ctx ends or the node is closed, which Close would drop. Without kept calls it returns at
// once. It does not stop anybody from making more.
func (n *Node) Drain(ctx context.Context) (left int) {
	for {
		n.mu.Lock()
		left = n.keptLocked()
		if left == 0 || n.state == Closed {
			n.mu.Unlock()
			return left
		}
		if n.drained == nil {
			n.drained = make(chan struct{})
		}
		drained := n.drained
		n.mu.Unlock()
		select {
		case <-drained: // there may be new calls
		case <-ctx.Done():
			n.mu.Lock()
			left = n.keptLocked()
			n.mu.Unlock()
			return left
		}
	}
}

// keptLocked returns how many kept calls the server has not answered, whether or not somebody still
// waits for them.
func (n *Node) keptLocked() (kept int) {
	for c := range n.callsLocked() {
		if c.Keep {
			kept++
		}
	}
	return kept
}

// drainedLocked wakes the callers of Drain if there is news for them.
func (n *Node) drainedLocked() {
	if n.drained != nil && (n.state == Closed || n.keptLocked() == 0) {
		close(n.drained)
		n.drained = nil
	}
}
