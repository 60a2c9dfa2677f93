package redlock_test

import (
	"math/rand/v2"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// minHold returns the minimum hold of a lock, 0 for none: usually short, so that a name has many
// holders.
func (s *simulation) minHold(rng *rand.Rand) time.Duration {
	if !s.minHolds || rng.IntN(4) == 0 {
		return 0
	}
	return upTo(rng, []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, s.maxTTL}[rng.IntN(3)])
}

// keeps records until when nobody may acquire the names of a lock, however its tenure ends; 0 ends
// that.
func (j *judge) keeps(t *tenure, until clock.Instant) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t.kept = until
}

// judgeMinHoldsLocked checks that no tenure begins within the minimum hold of an earlier one. The
// clocks of the nodes do not drift, so there is nothing to allow for. The tenures are in order.
func (j *judge) judgeMinHoldsLocked(name string, r *record) {
	var last *tenure // whose minimum hold ends last
	for _, t := range r.had {
		if last != nil && t.from < last.kept && !t.void() {
			j.wrongLocked("%q: %s got it at %v, within the minimum hold of %s until %v",
				name, t.who, time.Duration(t.from), last.who, time.Duration(last.kept))
		}
		_, forced := j.forced.at[t.value]
		if !forced && t.kept > 0 && (last == nil || t.kept > last.kept) {
			last = t
		}
	}
}

// minHolds makes the locks of all clients have minimum holds.
func minHolds(u *users) { u.simulation.minHolds = true }
