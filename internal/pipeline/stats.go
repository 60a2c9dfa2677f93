package pipeline

// Stats says what a node has done and what state it is in, at one moment.
type Stats struct {
	Endpoint string // without user and password
	State    State
	Err      error  // why the node is Down; nil in other states
	RunID    string // of the server that answers, or answered last; empty if unknown
	Product  string // of that server: "redis", "valkey" and the like; empty if unknown
	Version  string // of that product
	Waiting  int    // unanswered calls, queued or sent
	Kept     int    // kept calls that nobody waits for any more, delivered when the node is back
	Calls    uint64 // calls made
	Timeouts uint64 // calls that ended at their deadline
	Connects uint64 // connections established
	Dropped  uint64 // kept calls given up, because there were too many or the node was closed
}

type counts struct{ calls, timeouts, connects, dropped, pings uint64 }

// Stats returns the current figures.
func (n *Node) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := Stats{
		Endpoint: n.name, State: n.state,
		RunID: n.identity.RunID, Product: n.identity.Product, Version: n.identity.Version,
		Calls: n.counts.calls, Timeouts: n.counts.timeouts, Connects: n.counts.connects, Dropped: n.counts.dropped,
	}
	if n.state == Down {
		s.Err = n.downErr
	}
	for range n.unansweredLocked() {
		s.Waiting++
	}
	for c := range n.callsLocked() {
		if c.completed && c.Keep {
			s.Kept++
		}
	}
	return s
}

// State returns the current state of the node.
func (n *Node) State() State {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state
}
