package redlock

import (
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/owner"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// config is what a Locker is made with.
type config struct {
	lock        lockConfig
	keyPrefix   string
	driftRate   float64
	driftFixed  time.Duration
	drift       clock.Drift   // made of the two above
	terms       wire.Terms    // of locks with the default TTL
	nodeTimeout time.Duration // 0: derived from the TTL
	maxTTL      time.Duration
	quarantine  Quarantine
	cluster     string // empty for any
	looks       bool   // see door.OnlyLooks
	hooks       *Hooks
	tracer      Tracer // nil for none
	logger      *slog.Logger
	clock       clock.Clock // nil: the system's, or the nodes'
	pool        []pool.Option

	withoutDiscovery bool
	trustMembers     bool
}

// lockConfig is what a lock is made with.
type lockConfig struct {
	ttl         time.Duration
	minValidity time.Duration
	retryMin    time.Duration
	retryMax    time.Duration
	fencing     bool
	owner       string
	named       bool // by WithOwner
	office      bool // see door.Office
	history     bool

	withoutRenewal bool
	maxHold        time.Duration // 0: no limit
	minHold        time.Duration // 0: none
}

// Quarantine says how to treat a server that may have forgotten locks. Each server has a memory
// marker, which is gone or different after the server has lost what it held. A server without a
// valid marker gets every command, but its answers do not count until everything that it may have
// forgotten has expired ([WithMaxTTL] after the loss was noticed). This is the delayed restart of
// the Redlock article, enforced by the client.
type Quarantine uint8

const (
	// QuarantineAuto: if all nodes are connected and none has a marker, the cluster is new and
	// votes at once.
	QuarantineAuto Quarantine = iota
	// QuarantineStrict: the servers of a new cluster, too, vote only after that time, or after
	// "redlock init".
	QuarantineStrict
	// QuarantineOff: every answer counts, for servers whose restart is delayed by other means. The
	// Locker then goes by its own list and [WithMaxTTL] alone, whatever a cluster's members and its
	// MaxTTL are, so all Lockers need the same of both.
	QuarantineOff
)

// check validates a lock's configuration once all of it is known.
func (c *config) check(lock *lockConfig) error {
	if err := c.checkTTL(lock.ttl); err != nil {
		return err
	}
	if lock.minHold > c.maxTTL.Truncate(time.Millisecond) { // a quarantine covers no more
		return invalid("minimum hold %v is above the maximum TTL of %v", lock.minHold, c.maxTTL)
	}
	ttl := lock.ttl.Truncate(time.Millisecond)
	if left := ttl - c.drift.Of(ttl); lock.minValidity >= left {
		return invalid("minimum validity %v: a TTL of %v leaves %v at best", lock.minValidity, lock.ttl, left)
	}
	if lock.maxHold > 0 && lock.minValidity >= lock.maxHold {
		return invalid("minimum validity %v: a maximum hold of %v leaves no more", lock.minValidity, lock.maxHold)
	}
	return nil
}

func (c *config) checkTTL(ttl time.Duration) error {
	ttl = ttl.Truncate(time.Millisecond) // as the nodes count it
	if ttl < minTTL || ttl > c.maxTTL {
		return invalid("TTL %v is not between %v and the maximum TTL of %v", ttl, minTTL, c.maxTTL)
	}
	if drift := c.drift.Of(ttl); drift >= ttl {
		return invalid("TTL %v leaves no validity: the drift allowance is %v", ttl, drift)
	}
	return nil
}

// Limits on arguments.
const (
	maxName   = 4096
	maxPrefix = 1024
	maxValue  = 1024 // of Adopt: the longest of ours has 298
	maxOwner  = owner.Most
	minTTL    = 10 * time.Millisecond // below, rounding and one round trip use up the validity
)

// The default node timeout is a twentieth of the TTL, so that a failed round costs little of it,
// within bounds that a healthy network meets and that a person does not notice.
const (
	nodeTimeoutShare = 20
	nodeTimeoutMin   = 20 * time.Millisecond
	nodeTimeoutMax   = 500 * time.Millisecond
)

// timeout returns how long a round with this TTL waits for a node.
func (c *config) timeout(ttl time.Duration) time.Duration {
	d := c.nodeTimeout
	if d == 0 {
		d = min(max(ttl/nodeTimeoutShare, nodeTimeoutMin), nodeTimeoutMax)
	}
	return min(d, ttl)
}

// A waiter that was handed a vote has the grace to confirm it: two node timeouts, because its nodes
// may be slow as well.
const (
	graceTimeouts = 2
	graceMin      = 50 * time.Millisecond
	graceMax      = 2 * time.Second // a dead waiter holds up the others for at most this long
)

func (c *config) grace(timeout time.Duration) time.Duration {
	return min(max(graceTimeouts*timeout, graceMin), graceMax)
}

// A counter lives for many TTLs after the last lock that it fenced. Forgetting it after that does
// no harm: the clock has moved on by more than the clocks of two clients can be apart (S16 in
// docs/safety.md).
const (
	fenceLifeTTLs = 10
	fenceLifeMin  = 10 * time.Minute
)

func (c *config) fenceLife() time.Duration { return max(fenceLifeTTLs*c.maxTTL, fenceLifeMin) }

// valueRoom is the room for the usual value. Longer ones take more memory.
const valueRoom = 128

// appendValue appends the value of one attempt: at least 128 random bits, and behind them when it
// began and its owner, unless that is empty.
func (c *lockConfig) appendValue(to []byte, now time.Time, waits bool) []byte {
	to = appendRandom(to)
	if c.owner == "" {
		return to
	}
	return owner.Append(to, c.owner, now, waits)
}

// appendRandom appends 130 random bits as 26 characters of base32, as rand.Text returns them.
func appendRandom(to []byte) []byte {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	var random [26]byte
	_, _ = rand.Read(random[:]) // which never fails
	for _, b := range random {
		to = append(to, digits[b%32])
	}
	return to
}

// ceilMillis rounds up to whole milliseconds, in which nodes count.
func ceilMillis(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}
