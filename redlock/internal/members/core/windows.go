package core

import (
	"math"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// Never is later than any other time.
const Never = clock.Instant(math.MaxInt64)

// AskTimeout is how long one answer of a master is awaited.
const AskTimeout = time.Second

// leastQuarantine is how long a master that may have forgotten stays out at least, however short
// locks are: whatever the protocol of members does must be over by then, and that takes round
// trips. A look takes one, a ballot two more, and an answer is awaited for a quarter of it.
//
// It makes no quarantine shorter, so what is safe for MaxTTL is safe for the longer one of the two:
// in the searches, that is the time that a master which forgot waits.
const leastQuarantine = 4 * AskTimeout

// Quarantine is how long a master that may have forgotten stays out, where locks last so long; 0
// for the shortest one.
func Quarantine(longest time.Duration) time.Duration { return max(longest, leastQuarantine) }

// Fresh is how long what masters told is acted on, where locks last so long: half as long as one of
// them stays out that has forgotten since, so that none is back by then.
func Fresh(maxTTL time.Duration) time.Duration { return Quarantine(maxTTL) / 2 }
