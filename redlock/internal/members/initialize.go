package members

import (
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Initialize makes new nodes active if fresh is set, and lost ones if lost is set, unless another
// request to them is under way. It reports whether the outcome for a node is still open, and
// returns a channel that is closed at the next change.
func (ms *Membership) Initialize(fresh, lost bool) (undecided bool, changed <-chan struct{}) {
	ms.mu.Lock()
	for i := range ms.members {
		n := &ms.members[i]
		mine := n.phase == phaseQuarantined && n.duplicate < 0 && n.server.Is(n.marker) && n.err == nil &&
			ms.Nodes()[i].State() != pipeline.Down && n.pardoned != n.marker.Incarnation &&
			(fresh && n.marker.State == record.MarkerNew || lost && n.marker.State == record.MarkerLost)
		if mine && (n.asking == nil || n.asking.census != nil) {
			ms.census, n.pardoned = nil, n.marker.Incarnation
			m := n.marker
			if n.server.Named() {
				m.RunID = n.server.RunID
			}
			ms.sendLocked(i, &wire.Swap{Begin: record.WordActive, Rest: m.Rest()}, nil)
		}
		undecided = undecided || n.phase == phaseQuarantined && n.asking != nil || ms.undecidedLocked(i, ms.View())
	}
	changed = ms.changedLocked()
	outbox := ms.outbox
	ms.outbox = nil
	ms.mu.Unlock()
	ms.send(outbox)
	return undecided, changed
}
