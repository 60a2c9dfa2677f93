package redlock

import (
	"log/slog"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/pool"
)

// Option configures a [Locker].
type Option interface {
	apply(*config) error
}

// LockOption configures one lock. Given to [New] it is the default of all locks, given to a call it overrides that.
type LockOption interface {
	Option
	applyLock(*lockConfig) error
}

// config is what a Locker is made with.
type config struct {
	lock        lockConfig
	keyPrefix   string
	driftRate   float64
	driftFixed  time.Duration
	drift       clock.Drift   // of the two above
	nodeTimeout time.Duration // 0: from the TTL
	maxTTL      time.Duration
	quarantine  Quarantine
	hooks       *Hooks
	logger      *slog.Logger
	clock       clock.Clock // nil: the system's, or the nodes'
	pool        []pool.Option
}

// lockConfig is what a lock is made with.
type lockConfig struct {
	ttl         time.Duration
	minValidity time.Duration
	retryMin    time.Duration
	retryMax    time.Duration
	fencing     bool
	yields      bool   // to waiters elsewhere, also when the round is won
	part        bool   // of a set that takes its names one after the other
	value       string // empty: a random one for every attempt
	owner       string

	withoutRenewal bool
	maxHold        time.Duration // 0: no limit
}

type lockerOption func(*config) error

func (o lockerOption) apply(c *config) error { return o(c) }

type lockOption func(*lockConfig) error

func (o lockOption) apply(c *config) error         { return o(&c.lock) }
func (o lockOption) applyLock(c *lockConfig) error { return o(c) }

// WithTTL is how long nodes keep the lock without hearing from us (10 s). From 10 ms to the maximum of [WithMaxTTL];
// whole milliseconds count.
func WithTTL(ttl time.Duration) LockOption {
	return lockOption(func(c *lockConfig) error {
		c.ttl = ttl // its limits need MaxTTL: checked when all options are known
		return nil
	})
}

// WithMinValidity is how much validity must be left when a lock is granted (0: any); with less, it is released again
// and the error is [ErrNoValidity]. Not negative, and below what a TTL leaves after drift.
func WithMinValidity(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) error {
		if d < 0 {
			return invalid("minimum validity %v is negative", d)
		}
		c.minValidity = d
		return nil
	})
}

// WithoutRenewal lets the validity end after the TTL, unless Extend is called. Without this option a lock is renewed in the
// background, from a third of its TTL on, as long as it is held.
func WithoutRenewal() LockOption {
	return lockOption(func(c *lockConfig) error {
		c.withoutRenewal = true
		return nil
	})
}

// WithMaxHold is how long the lock can be held at all, renewed and extended or not (no limit): a holder that hangs loses it.
// From 10 ms to a year.
func WithMaxHold(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) error {
		if d < minTTL || d > 365*24*time.Hour {
			return invalid("maximum hold %v is not between %v and a year", d, minTTL)
		}
		c.maxHold = d
		return nil
	})
}

// WithRetry bounds the pause after which one who waits asks for the lock, in case that nobody woke him (200 ms, 1 s): it doubles from the first
// to the second, and each is taken at random from its upper half. He also asks when the holder's time to live ends. From 1 ms to 1 min.
//
// Shorter pauses help only where wake-ups cannot come: where an ACL forbids publish and subscribe.
// Behind a holder of another Redlock library, whose release wakes nobody, the oldest waiter asks
// more often than that.
func WithRetry(shortest, longest time.Duration) LockOption {
	return lockOption(func(c *lockConfig) error {
		if shortest < time.Millisecond || longest > time.Minute || longest < shortest {
			return invalid("retry from %v to %v: both are between 1ms and 1m, the first not above the second", shortest, longest)
		}
		c.retryMin, c.retryMax = shortest, longest
		return nil
	})
}

// WithValue sets the lock's value, 1 to 1,024 bytes, instead of a random one. It must never be used
// again: whoever knows it can release the lock, and a late release of one attempt would hit the
// next (docs/safety.md, What you can void). So it is for a single call; given to [New], it is
// [ErrInvalid]. Waiters take it for the value of another library, and ask more often. For handing a
// lock to another process under a value that both know.
func WithValue(value string) LockOption {
	return lockOption(func(c *lockConfig) error {
		if value == "" || len(value) > maxValue {
			return invalid("value has %d bytes, not 1 to %d", len(value), maxValue)
		}
		c.value = value
		return nil
	})
}

// WithOwner is a text of at most 256 bytes that is stored behind the random value, as value|owner, for people who look at
// the key. It is not used to tell holders apart.
func WithOwner(owner string) LockOption {
	return lockOption(func(c *lockConfig) error {
		if len(owner) > maxOwner {
			return invalid("owner has %d bytes, more than %d", len(owner), maxOwner)
		}
		c.owner = owner
		return nil
	})
}

// WithFencing gives the lock a fencing token, see [Lock.Fence]. It costs a script in place of a plain SET, and in the ordinary
// case no further round trip. All who share a lock should use it: a holder without it has no token to be refused by.
// It does not go together with [WithValue]: a token belongs to a value that is used once.
func WithFencing() LockOption {
	return lockOption(func(c *lockConfig) error {
		c.fencing = true
		return nil
	})
}

// WithKeyPrefix is put before a lock's name to make its key (""). At most 1,024 bytes. All who share a lock must share it.
func WithKeyPrefix(prefix string) Option {
	return lockerOption(func(c *config) error {
		if len(prefix) > maxPrefix {
			return invalid("key prefix has %d bytes, more than %d", len(prefix), maxPrefix)
		}
		c.keyPrefix = prefix
		return nil
	})
}

// WithDrift is the clock drift to allow for (0.01, 2 ms): rate·TTL + fixed is taken off the validity of every lock.
// 0 <= rate < 1, fixed not negative.
func WithDrift(rate float64, fixed time.Duration) Option {
	return lockerOption(func(c *config) error {
		c.driftRate, c.driftFixed = rate, fixed
		return nil
	})
}

// WithNodeTimeout is how long a round waits for a node (TTL/20, held between 20 ms and 500 ms). From 1 ms to 1 min; never
// more than the TTL.
func WithNodeTimeout(d time.Duration) Option {
	return lockerOption(func(c *config) error {
		if d < time.Millisecond || d > time.Minute {
			return invalid("node timeout %v is not between 1ms and 1m", d)
		}
		c.nodeTimeout = d
		return nil
	})
}

// WithMaxTTL is the longest TTL that any lock may have (1 min). From 10 ms to 24 h. All who share the nodes should agree on it.
func WithMaxTTL(d time.Duration) Option {
	return lockerOption(func(c *config) error {
		if d < minTTL || d > 24*time.Hour {
			return invalid("maximum TTL %v is not between %v and 24h", d, minTTL)
		}
		c.maxTTL = d
		return nil
	})
}

// WithQuarantine says what to do with servers that may have forgotten locks ([QuarantineAuto]).
func WithQuarantine(mode Quarantine) Option {
	return lockerOption(func(c *config) error {
		if mode > QuarantineOff {
			return invalid("quarantine mode %d is unknown", mode)
		}
		c.quarantine = mode
		return nil
	})
}

// WithHooks makes the Locker call hooks for what happens to locks and nodes.
func WithHooks(hooks Hooks) Option {
	return lockerOption(func(c *config) error {
		c.hooks = &hooks
		return nil
	})
}

// WithLogger makes the Locker log nodes that come up, go down or may not vote, locks that are lost,
// and what Close could not deliver. Nothing is logged per lock otherwise, and nothing at all
// without this option.
func WithLogger(logger *slog.Logger) Option {
	return lockerOption(func(c *config) error {
		if logger == nil {
			return invalid("logger is nil")
		}
		c.logger = logger
		return nil
	})
}

// WithClock replaces the clock, for tests. With [NewFromNodes] it must be the nodes' clock, which is also the default there.
func WithClock(clk clock.Clock) Option {
	return lockerOption(func(c *config) error {
		if clk == nil {
			return invalid("clock is nil")
		}
		c.clock = clk
		return nil
	})
}

// WithPool configures the nodes that [New] makes: TLS, dialer, credentials, timeouts. [NewFromNodes] refuses it.
func WithPool(opts ...pool.Option) Option {
	return lockerOption(func(c *config) error {
		c.pool = append(c.pool, opts...)
		return nil
	})
}

// Quarantine says what to do with a server that may have forgotten locks. Each server has a memory
// marker, which is gone or another one when it has lost what it held; a server without a valid one
// gets every command, and its answers do not count, until all that it may have forgotten has
// expired ([WithMaxTTL] after the loss was noticed). It is the delayed restart of the Redlock
// article, enforced by the client.
type Quarantine uint8

const (
	// QuarantineAuto: where all nodes are there and none has a marker, the cluster is new, and
	// votes at once.
	QuarantineAuto Quarantine = iota
	// QuarantineStrict: the servers of a new cluster, too, vote only after that time, or after
	// "redlock init".
	QuarantineStrict
	// QuarantineOff: every answer counts. For servers whose restart is delayed by other means.
	QuarantineOff
)
