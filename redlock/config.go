package redlock

import (
	"context"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/owner"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Limits on arguments.
const (
	maxName   = 4096
	maxPrefix = 1024
	maxValue  = 1024
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

func newConfig(opts []Option) (config, error) {
	c := config{
		lock:       lockConfig{ttl: 10 * time.Second, retryMin: 200 * time.Millisecond, retryMax: time.Second},
		driftRate:  0.01,
		driftFixed: 2 * time.Millisecond,
		maxTTL:     time.Minute,
	}
	for i, opt := range opts {
		if opt == nil {
			return config{}, invalid("option %d is nil", i+1)
		}
		if err := opt.apply(&c); err != nil {
			return config{}, err
		}
	}
	if !c.lock.named {
		c.lock.owner = owner.Process()
	}
	if c.lock.value != "" {
		return config{}, invalid("WithValue is for one call: a value must never be reused")
	}
	drift, err := clock.NewDrift(c.driftRate, c.driftFixed)
	if err != nil {
		return config{}, invalid("%w", err)
	}
	c.drift = drift
	c.terms = wire.NewTerms(c.lock.ttl.Truncate(time.Millisecond), c.grace(c.timeout(c.lock.ttl)))
	return c, c.check(&c.lock)
}

// check validates a lock's configuration once all of it is known.
func (c *config) check(lock *lockConfig) error {
	if err := c.checkTTL(lock.ttl); err != nil {
		return err
	}
	if lock.fencing && lock.value != "" {
		return invalid("WithFencing and WithValue cannot be combined")
	}
	if lock.value != "" && string(lock.appendChosen(nil)) == wire.Marker {
		return invalid("value %q says that readers hold a lock", wire.Marker)
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

// lockConfig returns the configuration of one call, after checking all of its arguments.
func (c *config) lockConfig(ctx context.Context, name string, opts []LockOption) (lockConfig, error) {
	switch {
	case ctx == nil:
		return c.lock, invalid("ctx is nil")
	case name == "" || len(name) > maxName:
		return c.lock, invalid("name has %d bytes, not 1 to %d", len(name), maxName)
	case isReserved(c.keyPrefix, name):
		return c.lock, invalid("name %q: keys that begin with %s are reserved", name, reserved)
	case len(opts) == 0:
		return c.lock, nil
	}
	return c.withOptions(opts)
}

// reserved is the prefix of the keys that are stored beside the locks. A lock with such a key would
// be mistaken for one of them.
const reserved = wire.Reserved

func isReserved(prefix, name string) bool {
	if len(prefix) >= len(reserved) {
		return strings.HasPrefix(prefix, reserved)
	}
	return strings.HasPrefix(reserved, prefix) && strings.HasPrefix(name, reserved[len(prefix):])
}

func (c *config) withOptions(opts []LockOption) (lockConfig, error) {
	lock := c.lock
	for i, opt := range opts {
		if opt == nil {
			return lock, invalid("option %d is nil", i+1)
		}
		if err := opt.applyLock(&lock); err != nil {
			return lock, err
		}
	}
	return lock, c.check(&lock)
}

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

// termsOf returns the terms of a new lock: those of most are encoded already.
func (c *config) termsOf(lock *Lock) *wire.Terms {
	if lock.ttl == c.lock.ttl.Truncate(time.Millisecond) && lock.life() == lock.ttl {
		return &c.terms
	}
	terms := wire.NewTerms(lock.life(), c.grace(lock.timeout))
	return &terms
}
