package redlock

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/owner"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Option configures a [Locker].
type Option interface {
	apply(*config) error
}

// LockOption configures one lock. Passed to [New] it sets the default for all locks; passed to a
// call it overrides the default.
type LockOption interface {
	Option
	applyLock(*lockConfig) error
}

type lockerOption func(*config) error

func (o lockerOption) apply(c *config) error { return o(c) }

type lockOption func(*lockConfig) error

func (o lockOption) apply(c *config) error         { return o(&c.lock) }
func (o lockOption) applyLock(c *lockConfig) error { return o(c) }

// WithTTL sets how long nodes keep the lock without hearing from us (default 10 s): from 10 ms to
// the maximum of [WithMaxTTL], in whole milliseconds.
func WithTTL(ttl time.Duration) LockOption {
	return lockOption(func(c *lockConfig) error {
		c.ttl = ttl // checked against MaxTTL when all options are known
		return nil
	})
}

// WithMinValidity sets how much validity must be left when a lock is granted (default 0: any). With
// less, the lock is released again and the error is [ErrNoValidity]. It must not be negative, and
// must be below what the TTL leaves after drift, and below [WithMaxHold].
func WithMinValidity(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) error {
		if d < 0 {
			return invalid("minimum validity %v is negative", d)
		}
		c.minValidity = d
		return nil
	})
}

// WithoutRenewal turns renewal off: the validity ends after the TTL, unless Extend is called. By
// default a lock is renewed in the background as long as it is held, first after a third of its
// TTL.
func WithoutRenewal() LockOption {
	return lockOption(func(c *lockConfig) error {
		c.withoutRenewal = true
		return nil
	})
}

// WithMaxHold sets how long the lock can be held at all, renewed and extended or not (default no
// limit), so a holder that hangs loses it: from 10 ms to a year.
func WithMaxHold(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) error {
		if d < minTTL || d > 365*24*time.Hour {
			return invalid("maximum hold %v is not between %v and a year", d, minTTL)
		}
		c.maxHold = d
		return nil
	})
}

// WithMinHold sets for how long the name stays taken at least, counted from the start of the round
// that acquires the lock (default 0; at most [WithMaxTTL]). If the lock ends earlier, because it is
// released, it is lost or its process dies, nobody can acquire the name until then: "not again
// within d". So a short periodic job runs once per period, even if the clocks of the machines that
// start it differ. The masters count the time, each by its own clock (docs/safety.md, S30).
//
// Validity, renewal, Unlock, Close and hooks are as without it: once released, the lock is held by
// nobody. Inspect of package admin shows the name as taken, with the value of that lock. Nobody is
// exempt: a second Lock of the same Locker waits as well. Waiters get the name when the time is
// over. Nobody hands it over then, so the order between processes is not kept. An attempt that
// fails leaves nothing behind.
//
// A semaphore and readers refuse it ([ErrInvalid]).
//
// ForceUnlock of package admin frees the name at once, and so may [Locker.Adopt] with the value of
// the lock: the minimum hold does not travel, the adopter gives its own.
func WithMinHold(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) error {
		if d < 0 {
			return invalid("minimum hold %v is negative", d)
		}
		c.minHold = d // checked against MaxTTL when all options are known
		return nil
	})
}

// WithRetry bounds the backoff between a waiter's fallback polls (default 200 ms, 1 s; from 1 ms to
// 1 min). The backoff doubles from the first bound to the second; each pause is drawn at random
// from its upper half. A waiter also polls when the holder's time to live ends.
//
// Shorter pauses help only if wake-ups cannot arrive, because an ACL forbids publish and subscribe.
// Behind a holder that uses another Redlock library, whose release wakes nobody, the oldest waiter
// polls more often than this.
func WithRetry(shortest, longest time.Duration) LockOption {
	return lockOption(func(c *lockConfig) error {
		if shortest < time.Millisecond || longest > time.Minute || longest < shortest {
			return invalid("retry from %v to %v: both are between 1ms and 1m, the first not above the second", shortest, longest)
		}
		c.retryMin, c.retryMax = shortest, longest
		return nil
	})
}

// WithOwner sets a text of at most 256 bytes that is stored in the value, behind its random digits,
// for people who look at the key (default: user@host:pid and the name of the program; "" for none).
// It is not used to tell holders apart. With an owner the value also has the time at which the
// attempt to acquire the lock began.
func WithOwner(owner string) LockOption {
	return lockOption(func(c *lockConfig) error {
		if len(owner) > maxOwner {
			return invalid("owner has %d bytes, more than %d", len(owner), maxOwner)
		}
		c.owner, c.named = owner, true
		return nil
	})
}

// WithFencing gives the lock a fencing token, see [Lock.Fence]. It takes a script instead of a
// plain SET, and in the common case no further round trip. All clients that share a lock should use
// it: a holder without it has no token to be refused by.
func WithFencing() LockOption {
	return lockOption(func(c *lockConfig) error {
		c.fencing = true
		return nil
	})
}

// WithKeyPrefix sets what precedes a lock's name in its key (default ""; at most 1,024 bytes). All
// clients that share a lock must use the same prefix. It keeps names apart and nothing else:
// clients with other prefixes share the masters' memory markers, quarantines and [WithMaxTTL].
func WithKeyPrefix(prefix string) Option {
	return lockerOption(func(c *config) error {
		if len(prefix) > maxPrefix {
			return invalid("key prefix has %d bytes, more than %d", len(prefix), maxPrefix)
		}
		c.keyPrefix = prefix
		return nil
	})
}

// WithDrift sets the clock drift to allow for (default 0.01, 2 ms): rate·TTL + fixed is subtracted
// from the validity of every lock. 0 <= rate < 1, and fixed must not be negative.
func WithDrift(rate float64, fixed time.Duration) Option {
	return lockerOption(func(c *config) error {
		c.driftRate, c.driftFixed = rate, fixed
		return nil
	})
}

// WithNodeTimeout sets how long a round waits for a node: from 1 ms to 1 min, and never more than
// the TTL (default TTL/20, but at least 20 ms and at most 500 ms).
func WithNodeTimeout(d time.Duration) Option {
	return lockerOption(func(c *config) error {
		if d < time.Millisecond || d > time.Minute {
			return invalid("node timeout %v is not between 1ms and 1m", d)
		}
		c.nodeTimeout = d
		return nil
	})
}

// WithMaxTTL sets the longest TTL that a lock of this Locker may have (default 1 min): from 10 ms
// to 24 h, and no shorter than [WithTTL], which is 10 s by default. A new cluster takes it for its
// own MaxTTL; in one that exists, the cluster's holds as well (SetMaxTTL of package admin), except
// with [QuarantineOff].
func WithMaxTTL(d time.Duration) Option {
	return lockerOption(func(c *config) error {
		if d < minTTL || d > 24*time.Hour {
			return invalid("maximum TTL %v is not between %v and 24h", d, minTTL)
		}
		c.maxTTL = d
		return nil
	})
}

// WithQuarantine sets how to treat servers that may have forgotten locks (default
// [QuarantineAuto]).
func WithQuarantine(mode Quarantine) Option {
	return lockerOption(func(c *config) error {
		if mode > QuarantineOff {
			return invalid("quarantine mode %d is unknown", mode)
		}
		c.quarantine = mode
		return nil
	})
}

// WithCluster makes only the members of one cluster vote (package admin tells its ID). Without it,
// the cluster is that of the masters in the list; and if these are all new, they become one. So
// with it, masters that lost everything are never taken for a new cluster.
func WithCluster(id string) Option {
	return lockerOption(func(c *config) error {
		if !record.IsCluster(id) {
			return invalid("cluster %q is not one word of at most 128 letters", id)
		}
		c.cluster = id
		return nil
	})
}

// WithMemberCredentials lets the credentials of the first endpoint (password, client certificate,
// or what [pool.WithCredentials] returns) go to every member of the cluster, whatever its host. The
// masters keep the list of members, and whoever may lock may change it.
//
// By default, a member that is not in the list of [New] gets credentials only if its host is there:
// those given for that host. With TLS anywhere in the list, members without TLS are not connected
// to, with this option or without. A member that is left out so counts as one that does not answer:
// [Stats] and the errors of calls tell it as [pool.ErrUntrusted]. Without credentials, [New]
// connects to members on any host.
func WithMemberCredentials() Option {
	return lockerOption(func(c *config) error {
		c.trustMembers = true
		return nil
	})
}

// WithoutDiscovery keeps [New] from connecting to members that the list lacks. Such a member counts
// as one that does not answer.
func WithoutDiscovery() Option {
	return lockerOption(func(c *config) error {
		c.withoutDiscovery = true
		return nil
	})
}

// WithHooks sets the [Hooks] that the Locker calls for what happens to locks and nodes.
func WithHooks(hooks Hooks) Option {
	return lockerOption(func(c *config) error {
		c.hooks = &hooks
		return nil
	})
}

// WithLogger sets a logger for nodes that come up, go down or may not vote, versions of the
// cluster's list, locks that are lost, and what Close could not deliver. Nothing else is logged per
// lock, and nothing at all without this option.
func WithLogger(logger *slog.Logger) Option {
	return lockerOption(func(c *config) error {
		if logger == nil {
			return invalid("logger is nil")
		}
		c.logger = logger
		return nil
	})
}

// WithTracer sets a [Tracer]. Without one, tracing costs nothing.
func WithTracer(tracer Tracer) Option {
	return lockerOption(func(c *config) error {
		if tracer == nil {
			return invalid("tracer is nil")
		}
		c.tracer = tracer
		return nil
	})
}

// WithClock replaces the clock, for tests. With [NewFromNodes] it must be the nodes' clock, which
// is also the default there.
func WithClock(clk clock.Clock) Option {
	return lockerOption(func(c *config) error {
		if clk == nil {
			return invalid("clock is nil")
		}
		c.clock = clk
		return nil
	})
}

// WithPool configures the nodes that [New] makes: TLS, dialer, credentials, timeouts.
// [NewFromNodes] refuses it.
func WithPool(opts ...pool.Option) Option {
	return lockerOption(func(c *config) error {
		c.pool = append(c.pool, opts...)
		if c.pool == nil { // without opts it is given all the same
			c.pool = []pool.Option{}
		}
		return nil
	})
}

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
	drift, err := clock.NewDrift(c.driftRate, c.driftFixed)
	if err != nil {
		return config{}, invalid("%w", err)
	}
	c.drift = drift
	c.terms = wire.NewTerms(c.lock.ttl.Truncate(time.Millisecond), c.grace(c.timeout(c.lock.ttl)))
	return c, c.check(&c.lock)
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
