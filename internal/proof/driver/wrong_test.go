package driver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/redlock"
)

// aboveClusters ends the names of mistakes that only the masters know.
const aboveClusters = " above the cluster's"

// mistakes are calls with an argument that is wrong, whatever the masters are like.
var mistakes = map[string]func(ctx context.Context, l *redlock.Locker, h *handle) error{
	"databases that differ": func(_ context.Context, _ *redlock.Locker, h *handle) error {
		return made([]string{"redis://a:6379/0", "redis://b:6379/1"}, h.options...)
	},
	"an empty name": func(ctx context.Context, l *redlock.Locker, _ *handle) error { return second(l.TryLock(ctx, "")) },
	"a long name": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return second(l.Lock(ctx, strings.Repeat("n", 4097)))
	},
	"a name of ours": func(ctx context.Context, l *redlock.Locker, h *handle) error {
		if h.plan.prefix != "" { // which makes it anybody's
			return second(l.TryRLock(ctx, ""))
		}
		return second(l.TryRLock(ctx, "redquorum:memory"))
	},
	"no names": func(ctx context.Context, l *redlock.Locker, _ *handle) error { return second(l.LockAll(ctx, nil)) },
	"a name twice": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return second(l.TryLockAll(ctx, []string{"x", "x"}))
	},
	"no names to any": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return second(l.TryLockAny(ctx, []string{}))
	},
	"257 names": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return second(l.LockAny(ctx, make([]string, 257)))
	},
	"a nil function": func(ctx context.Context, l *redlock.Locker, _ *handle) error { return l.Do(ctx, "x", nil) },
	"no permits":     func(_ context.Context, l *redlock.Locker, _ *handle) error { return second(l.Semaphore("x", 0)) },
	"1,025 permits":  func(_ context.Context, l *redlock.Locker, _ *handle) error { return second(l.Semaphore("x", 1025)) },
	"a TTL of 0": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return second(l.TryLock(ctx, "x", redlock.WithTTL(0)))
	},
	"a nil option": func(ctx context.Context, l *redlock.Locker, _ *handle) error { return second(l.TryLock(ctx, "x", nil)) },
	"a long owner": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return second(l.RLock(ctx, "x", redlock.WithOwner(strings.Repeat("o", 257))))
	},
	"a TTL above all": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return second(l.Lock(ctx, "x", redlock.WithTTL(25*time.Hour)))
	},
	"a TTL" + aboveClusters: func(ctx context.Context, l *redlock.Locker, h *handle) error {
		return refused(ctx, l, h, "TTL", redlock.WithTTL(2*h.plan.maxTTL))
	},
	"a minimum hold" + aboveClusters: func(ctx context.Context, l *redlock.Locker, h *handle) error {
		return refused(ctx, l, h, "minimum hold", redlock.WithMinHold(2*h.plan.maxTTL))
	},
	"a reader that is to hold": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return second(l.RLock(ctx, "x", redlock.WithMinHold(time.Second)))
	},
	"a negative minimum hold": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return second(l.TryLock(ctx, "x", redlock.WithMinHold(-time.Second)))
	},
	"a minimum validity above the TTL": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return second(l.TryLock(ctx, "x", redlock.WithTTL(100*time.Millisecond), redlock.WithMinValidity(100*time.Millisecond)))
	},
	"a maximum hold of 0": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return second(l.Lock(ctx, "x", redlock.WithMaxHold(0)))
	},
	"to inspect no name": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return second(admin.Of(l).Inspect(ctx, ""))
	},
	"to force no name":  func(ctx context.Context, l *redlock.Locker, _ *handle) error { return admin.Of(l).ForceUnlock(ctx, "") },
	"to adopt no value": func(ctx context.Context, l *redlock.Locker, _ *handle) error { return second(l.Adopt(ctx, "x", "")) },
	"a MaxTTL of 0": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return admin.Of(l).Cluster().SetMaxTTL(ctx, 0)
	},
	"to add no endpoint": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return admin.Of(l).Cluster().Add(ctx, "http://x")
	},
	"no endpoints": func(_ context.Context, _ *redlock.Locker, h *handle) error { return made(nil, h.options...) },
	"a server twice": func(_ context.Context, _ *redlock.Locker, h *handle) error {
		return made([]string{"a:1", "redis://a:1"}, h.options...)
	},
	"no nodes":            func(context.Context, *redlock.Locker, *handle) error { return second(redlock.NewFromNodes(nil)) },
	"a drift of all":      optionOf(redlock.WithDrift(1, 0)),
	"a long prefix":       optionOf(redlock.WithKeyPrefix(strings.Repeat("p", 1025))),
	"a node timeout of 0": optionOf(redlock.WithNodeTimeout(0)),
	"a MaxTTL of 25h":     optionOf(redlock.WithMaxTTL(25 * time.Hour)),
	"a nil logger":        optionOf(redlock.WithLogger(nil)),
	"a nil tracer":        optionOf(redlock.WithTracer(nil)),
	"a mode of 3":         optionOf(redlock.WithQuarantine(redlock.QuarantineOff + 1)),
	"a cluster of words":  optionOf(redlock.WithCluster("two words")),
	"a long hold":         optionOf(redlock.WithMaxHold(366 * 24 * time.Hour)),
	"a retry backwards": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return second(l.LockAny(ctx, []string{"x", "y"}, redlock.WithRetry(time.Second, time.Millisecond)))
	},
	"a long name of a semaphore": func(_ context.Context, l *redlock.Locker, _ *handle) error {
		return second(l.Semaphore(strings.Repeat("n", 4092), 1))
	},
	"a permit that is to hold": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		s, err := l.Semaphore("x", 1)
		if err != nil {
			return nil
		}
		return second(s.Acquire(ctx, redlock.WithMinHold(time.Second)))
	},
	"a minimum hold above all": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return second(l.TryLockAll(ctx, []string{"x"}, redlock.WithMinHold(25*time.Hour)))
	},
	"to adopt a long value": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return second(l.Adopt(ctx, "x", strings.Repeat("v", 1025)))
	},
	"the history of no name": func(ctx context.Context, l *redlock.Locker, _ *handle) error {
		return second(admin.Of(l).History(ctx, ""))
	},
	"to extend to nothing": func(ctx context.Context, _ *redlock.Locker, h *handle) error { return h.lock.Extend(ctx, 0) },
	"to extend for too long": func(ctx context.Context, _ *redlock.Locker, h *handle) error {
		return h.lock.Extend(ctx, 25*time.Hour)
	},
}

// made makes a Locker, which must fail before it dials.
func made(endpoints []string, opts ...redlock.Option) error {
	l, err := redlock.New(endpoints, opts...)
	if err == nil {
		_ = l.Close()
	}
	return err
}

// optionOf makes a Locker with an option that is wrong.
func optionOf(opt redlock.Option) func(context.Context, *redlock.Locker, *handle) error {
	return func(_ context.Context, _ *redlock.Locker, h *handle) error {
		return made([]string{"a:1"}, append(slices.Clone(h.options), opt)...)
	}
}

func second[T any](_ T, err error) error { return err }

// refused asks for a lock with an option that is wrong, which the error must name.
func refused(ctx context.Context, l *redlock.Locker, h *handle, what string, opt redlock.LockOption) error {
	lock, err := l.TryLock(ctx, h.fresh(), opt)
	switch {
	case err == nil:
		_ = lock.Unlock(ctx) //nolint:errcheck // the fault is that there is a lock
	case is(err, redlock.ErrInvalid) && !strings.Contains(err.Error(), what+" "):
		return fmt.Errorf("does not name the %s: %s", what, err.Error()) // which is not ErrInvalid
	}
	return err
}

// errs makes a mistake, and must be told so.
func errs(a *actor) {
	life, h := a.life(), a.old()
	if h == nil {
		return
	}
	for what, call := range mistakes { // any of them
		ended := h.lock.Err() != nil
		err := call(a.base, life.locker, h)
		unknown := strings.HasSuffix(what, aboveClusters) && (a.plan.lists || is(err, redlock.ErrNoQuorum)) // no master has told the limit
		excused := unknown || strings.HasPrefix(what, "to extend") && (ended || h.lock.Err() != nil) || life.closed.Load()
		a.promise("mistakes are ErrInvalid", is(err, redlock.ErrInvalid) || excused, "%s: %s: %v", a.who, what, err)
		return
	}
}
