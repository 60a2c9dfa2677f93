package members

import "github.com/redquorum/redquorum/redlock/internal/members/record"

// expelCopiesLocked takes the vote from two servers whose markers have the same incarnation,
// although each marker names its own server: one has what the other held, and was trusted to have
// come back with its own data. It is no longer possible to tell which one.
func (ms *Membership) expelCopiesLocked() (forgot bool) {
	for i := range ms.members {
		for k := range i {
			a, b := &ms.members[i], &ms.members[k]
			if a.phase != phaseVoting || b.phase != phaseVoting || a.marker.Incarnation != b.marker.Incarnation ||
				a.server.RunID == record.Unknown || b.server.RunID == record.Unknown || a.server.RunID == b.server.RunID {
				continue
			}
			for _, j := range [...]int{i, k} {
				n := &ms.members[j]
				n.phase, n.reported = phaseQuarantined, n.known
				ms.forgotLocked(n)
				forgot = true
				if ms.looks {
					n.until = ms.clock.Now().Add(ms.quarantineLocked())
					continue
				}
				ms.sendLocked(j, n.server.Quarantine(record.WordLost, max(ms.quarantineLocked().Milliseconds(), n.marker.MaxTTL), n.marker, ms.clientLocked().Claim(j, ms.keeper.roster)), nil)
			}
		}
	}
	return forgot
}

// findDuplicatesLocked finds nodes that are the same server as an earlier one, by its run id, or if
// that is unknown by the incarnation of its marker.
func (ms *Membership) findDuplicatesLocked() {
	first := make(map[string]int, len(ms.members))
	for i := range ms.members {
		n := &ms.members[i]
		n.duplicate = -1
		if !n.seen {
			continue
		}
		name := n.identity.RunID
		if name == "" {
			name = n.marker.Incarnation
		}
		if name == "" {
			continue
		}
		if j, seen := first[name]; seen {
			n.duplicate = j
		} else {
			first[name] = i
		}
	}
}
