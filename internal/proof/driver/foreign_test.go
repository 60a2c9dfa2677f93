package driver_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redquorum/redquorum/internal/proof/history"
)

// compareAndDelete is how other libraries release a lock.
const compareAndDelete = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`

// foreign takes names as other libraries do: they set a key at one master after the other, try
// again a little later, and tell nobody when they release it.
func foreign(r *run, rng *rand.Rand) {
	if r.plan.forgets || r.plan.unsettled() {
		return // which such a client would have to know of
	}
	for i := 0; r.goesOn(); i++ {
		name, value, ttl := pick(rng, "hot", "warm0", "warm1"), fmt.Sprint("foreign", i), r.plan.maxTTL/4
		if h := r.takesAsForeign(name, value, ttl); h != nil {
			left := max(ttl-ttl/50-2*time.Millisecond-r.since(h.Since), 1)
			r.pause(min(left, upTo(rng, 20*time.Millisecond)))
			h.To = r.clock.Now()
		}
		for _, m := range r.masters {
			_, _ = m.do("EVAL", compareAndDelete, 1, name, value) //nolint:errcheck // it may be down
		}
		r.pause(upTo(rng, 20*time.Millisecond))
	}
}

// takesAsForeign tries to take a name. It returns nil unless most masters had it free in time.
func (r *run) takesAsForeign(name, value string, ttl time.Duration) *history.Hold {
	began, granted := r.clock.Now(), 0
	for _, m := range r.masters {
		if said, err := m.do("SET", name, value, "NX", "PX", strconv.FormatInt(ttl.Milliseconds(), 10)); err == nil && said == "OK" {
			granted++
		}
	}
	if granted <= r.plan.masters/2 || r.since(began) >= ttl/2 {
		return nil
	}
	h := &history.Hold{Who: "a foreign client", Names: []string{name}, Value: value, Since: began, From: r.clock.Now(), To: history.Held}
	r.note(h.Who, "has %s", name)
	r.reachIf("a lock of another library", true)
	r.mu.Lock()
	r.holds = append(r.holds, h)
	r.mu.Unlock()
	return h
}
