package clock

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Drift bounds how far two clocks may move apart while a lock is held: a share of the elapsed time,
// plus a fixed part for rounding (Redis keeps expiry in milliseconds). The zero value allows none.
// Source: the safety arguments of the Redlock article,
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/
type Drift struct {
	perBillion uint64 // share of the TTL, at most 1e9 - 1
	fixed      time.Duration
}

const billion = 1_000_000_000

// NewDrift returns the allowance rate·ttl + fixed. The rate is at least 0 and below 1, and is
// rounded up to a billionth; fixed is not negative. Anything else is an error.
func NewDrift(rate float64, fixed time.Duration) (Drift, error) {
	if math.IsNaN(rate) || rate < 0 || rate >= 1 {
		return Drift{}, fmt.Errorf("drift rate %v is not in [0, 1)", rate)
	}
	if fixed < 0 {
		return Drift{}, fmt.Errorf("fixed drift %v is negative", fixed)
	}
	perBillion := uint64(math.Ceil(rate * billion))
	if perBillion >= billion {
		return Drift{}, fmt.Errorf("drift rate %v is not below 1", rate)
	}
	return Drift{perBillion: perBillion, fixed: fixed}, nil
}

// Of returns the allowance for a TTL, rounded up. It saturates at the largest duration.
func (d Drift) Of(ttl time.Duration) time.Duration {
	if ttl <= 0 {
		return d.fixed
	}
	hi, lo := bits.Mul64(uint64(ttl), d.perBillion)
	share, rest := bits.Div64(hi, lo, billion) // hi < billion, because perBillion < billion
	if rest > 0 {
		share++
	}
	if total := share + uint64(d.fixed); total <= math.MaxInt64 {
		return time.Duration(total)
	}
	return math.MaxInt64
}

// Validity returns until when a holder may trust a lock whose TTL was set by a round that began at
// start: start + ttl - drift. Start is read before the first byte is sent, so every node started
// counting later.
func (d Drift) Validity(start Instant, ttl time.Duration) Instant {
	return start.Add(ttl - d.Of(ttl))
}
