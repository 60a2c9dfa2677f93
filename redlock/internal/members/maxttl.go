package members

import (
	"math"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// LongestTTL is how long any lock may last, as far as it is known.
func (ms *Membership) LongestTTL() time.Duration {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.longestLocked()
}

func (ms *Membership) longestLocked() time.Duration {
	if r := ms.keeper.roster; r != nil {
		return r.Longest()
	}
	return ms.maxTTL
}

func (ms *Membership) quarantineLocked() time.Duration { return core.Quarantine(ms.longestLocked()) }

// MaxTTL is how long a lock may last: the cluster's MaxTTL, or as long as none is known any.
//
// A longer one than before is in force once all members were told it. Until then, one that forgets
// such a lock could rejoin at the version before, by the word of another one that was told no
// other, when it has waited for the shorter MaxTTL.
func (ms *Membership) MaxTTL() time.Duration { return ms.View().maxTTL }

func (ms *Membership) maxTTLLocked(r *record.Roster) time.Duration {
	switch {
	case r == nil:
		return time.Duration(math.MaxInt64)
	case ms.keeper.settled == r.Version:
		return r.MaxTTL
	default:
		return min(r.MaxTTL, r.Earlier)
	}
}

// settleLocked finds out whether all members were told the roster.
func (ms *Membership) settleLocked(reports []core.Report) {
	k := &ms.keeper
	if r := k.roster; r != nil && k.settled != r.Version && ms.clientLocked().AllKnow(r, reports, ms.clock.Now()) {
		k.settled = r.Version
	}
}

// settlesLocked reports whether the members should be asked, because each seems to have been told
// the roster by now, and a longer MaxTTL waits for that.
func (ms *Membership) settlesLocked() bool {
	r := ms.keeper.roster
	if r == nil || ms.keeper.settled == r.Version || r.MaxTTL <= r.Earlier {
		return false
	}
	nodes := ms.Nodes()
	for _, p := range r.Members {
		told := false
		for i := range ms.members {
			at := ms.members[i].place
			told = told || at.Cluster == r.Cluster && at.Member == p.ID && at.Version == r.Version && nodes[i].State() != pipeline.Down
		}
		if !told {
			return false
		}
	}
	return true
}
