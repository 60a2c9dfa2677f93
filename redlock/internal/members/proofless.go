package members

import "github.com/redquorum/redquorum/redlock/internal/members/record"

// If the user may not read and write the marker, a server's memory is judged by what the server
// says about itself: its run id and its uptime. This is weaker (docs/operations.md, ACL, says what
// it misses), and stricter than it looks: whatever a server does not say counts against it.

// judgeProoflessLocked handles the connection of a node that cannot prove anything, and reports
// whether it forgot what it held.
func (ms *Membership) judgeProoflessLocked(n *member) (forgot bool) {
	id, before := n.identity, n.before
	first := before.Connection == 0
	replaced := !first && id.RunID != before.RunID
	n.phase, n.asking, n.retryAt, n.text, n.marker = phaseProofless, nil, never, "", record.Marker{}
	switch {
	case n.known != "": // it could prove what it remembers, and no longer can
		n.until, n.young, forgot = id.Connected.Add(ms.quarantineLocked()), false, true
		n.known, n.reported = "", ""
	case first && id.RunID == "":
		n.until = 0 // unidentified: nothing to judge it by
	case first:
		n.until = id.Started.Add(ms.quarantineLocked())
		n.young = ms.mode == Auto && n.until > ms.clock.Now()
	case !replaced || id.Durable && before.Durable && id.RunID != "":
	case before.RunID == "": // it had not said who it is, and now does
		n.until, n.young = id.Started.Add(ms.quarantineLocked()), false
	default:
		// A server that restarted, a promoted replica, another machine at this address, or a server
		// that no longer says who it is: when it started says nothing about what it knows.
		n.until, n.young, forgot = id.Connected.Add(ms.quarantineLocked()), false, true
	}
	if ms.mode == Off {
		n.until = 0
	}
	if forgot {
		ms.forgotLocked(n)
	}
	return forgot
}

// allYoungLocked reports whether no node can prove anything and all were started just now. That is
// taken for a new cluster.
func (ms *Membership) allYoungLocked() bool {
	for i := range ms.members {
		if n := &ms.members[i]; n.phase != phaseProofless || !n.young || n.duplicate >= 0 {
			return false
		}
	}
	return true
}
