package redlock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/fuzzed"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// fuzzDuration is at the limits of options, or anywhere.
func fuzzDuration(s *fuzzed.Source) time.Duration {
	const ms, day = int64(time.Millisecond), int64(24 * time.Hour)
	return time.Duration(s.Number(10_000*ms, 0, -1, 1, ms, 10*ms-1, 10*ms, 20*ms, 1000*ms, 60_000*ms, 60_000*ms+1,
		day/24, day, day+1, 365*day, 365*day+1, math.MaxInt64, math.MaxInt64-1, math.MinInt64))
}

func fuzzText(s *fuzzed.Source) string {
	return strings.Repeat(s.Text(), fuzzed.Pick(s, 1, 0, 16, 256, 1024))
}

// lockOptions make an option each. They set minimum, too, if they make a minimum validity.
func lockOptions(s *fuzzed.Source, minimum *time.Duration) []func() redlock.LockOption {
	return []func() redlock.LockOption{
		func() redlock.LockOption { return redlock.WithTTL(fuzzDuration(s)) },
		func() redlock.LockOption {
			*minimum = fuzzDuration(s)
			return redlock.WithMinValidity(*minimum)
		},
		redlock.WithoutRenewal,
		func() redlock.LockOption { return redlock.WithMaxHold(fuzzDuration(s)) },
		func() redlock.LockOption { return redlock.WithRetry(fuzzDuration(s), fuzzDuration(s)) },
		func() redlock.LockOption { return redlock.WithOwner(fuzzText(s)) },
		redlock.WithFencing,
		func() redlock.LockOption { return redlock.WithMinHold(fuzzDuration(s)) },
		func() redlock.LockOption { return nil },
	}
}

// options is lockOptions for New.
func options(s *fuzzed.Source, clk clock.Clock, minimum *time.Duration) (all []func() redlock.Option) {
	ofLocks := lockOptions(s, minimum)
	for _, option := range ofLocks[:len(ofLocks)-1] {
		all = append(all, func() redlock.Option { return option() })
	}
	return append(all,
		func() redlock.Option {
			return redlock.WithKeyPrefix(fuzzed.Pick(s, "", "redquorum:", "redquorum:fence:") + fuzzText(s))
		},
		func() redlock.Option {
			rate := fuzzed.Pick(s, 0, 0.01, 0.5, 1, -1, math.Nextafter(1, 0), math.NaN(), math.Inf(1), math.SmallestNonzeroFloat64)
			return redlock.WithDrift(rate, fuzzDuration(s))
		},
		func() redlock.Option { return redlock.WithNodeTimeout(fuzzDuration(s)) },
		func() redlock.Option { return redlock.WithMaxTTL(fuzzDuration(s)) },
		func() redlock.Option { return redlock.WithQuarantine(redlock.Quarantine(s.Below(256))) },
		func() redlock.Option {
			return redlock.WithHooks(redlock.Hooks{Acquired: fuzzed.Pick(s, nil, func(lock *redlock.Lock) { lock.Remaining() })})
		},
		func() redlock.Option { return redlock.WithLogger(fuzzed.Pick(s, slog.New(slog.DiscardHandler), nil)) },
		func() redlock.Option { return redlock.WithClock(fuzzed.Pick(s, clk, nil)) },
		func() redlock.Option { return redlock.WithTracer(fuzzed.Pick[redlock.Tracer](s, silentTracer{}, nil)) },
		func() redlock.Option { return redlock.WithPool(fuzzPoolOption(s, clk)) },
		func() redlock.Option { return redlock.WithPool(fuzzPoolOption(s, clk)) },
		func() redlock.Option { return nil },
	)
}

func fuzzPoolOption(s *fuzzed.Source, clk clock.Clock) pool.Option {
	noCredentials := func(context.Context, string) (string, string, error) { return "", "", nil }
	return fuzzed.Pick(s,
		func() pool.Option {
			return pool.WithTLSConfig(fuzzed.Pick(s, &tls.Config{MinVersion: tls.VersionTLS13}, nil))
		},
		func() pool.Option { return pool.WithDialer(nil) },
		func() pool.Option { return pool.WithCredentials(fuzzed.Pick(s, noCredentials, nil)) },
		func() pool.Option { return pool.WithClientName(s.Text()) },
		func() pool.Option { return pool.WithDialTimeout(fuzzDuration(s)) },
		func() pool.Option { return pool.WithStallTimeout(fuzzDuration(s)) },
		func() pool.Option { return pool.WithBackoff(fuzzDuration(s), fuzzDuration(s)) },
		func() pool.Option {
			return fuzzed.Pick(s, pool.WithClock(clk), pool.WithClock(nil), pool.WithClock(anotherClock{clk}), nil)
		},
	)()
}

type silentTracer struct{}

func (silentTracer) Start(ctx context.Context, _ redlock.Operation) (context.Context, func(error)) {
	return ctx, func(error) {}
}

// FuzzOptions checks that any options of a Locker and of a call are refused as ErrInvalid, or make
// one that works: on masters that answer at once, it gets the lock, alone, and gives it back.
func FuzzOptions(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		inBubble(t, 1, func(t *testing.T, c *cluster) {
			s := fuzzed.New(data)
			var opts []redlock.Option
			var minimum time.Duration
			for range s.Below(8) {
				opts = append(opts, fuzzed.Pick(s, options(s, c.Clock, &minimum)...)())
			}
			opts = append(opts, redlock.WithClock(c.Clock), redlock.WithPool(pool.WithDialer(c.Dialer())))
			l, err := redlock.New(c.Servers.Endpoints(), opts...)
			if err != nil {
				require.ErrorIs(t, err, redlock.ErrInvalid)
				require.Nil(t, l)
				return
			}
			defer func() { require.NoError(t, l.Close()) }()
			virtual.Settle()
			var own []redlock.LockOption
			for range s.Below(4) {
				own = append(own, fuzzed.Pick(s, lockOptions(s, &minimum)...)())
			}
			c.lockWith(l, s, minimum, own)
		})
	})
}

// lockWith makes one of the calls that take a lock, with a minimum validity.
func (c *cluster) lockWith(l *redlock.Locker, s *fuzzed.Source, minimum time.Duration, own []redlock.LockOption) {
	call, alone := l.TryLock, true
	switch s.Below(4) {
	case 1:
		call = l.Lock
	case 2:
		call, alone = l.TryRLock, false
	case 3:
		permits := fuzzed.Pick(s, 1, 0, -1, 1024, 1025)
		semaphore, err := l.Semaphore("name", permits)
		if err != nil {
			require.ErrorIs(c.T, err, redlock.ErrInvalid)
			return
		}
		alone = permits == 1
		call = func(ctx context.Context, _ string, own ...redlock.LockOption) (*redlock.Lock, error) {
			return semaphore.TryAcquire(ctx, own...)
		}
	}
	limited, cancel := context.WithTimeout(ctx, 10*time.Second) // Lock tries again and again
	defer cancel()
	lock, err := call(limited, "name", own...)
	if errors.Is(err, redlock.ErrNoValidity) || errors.Is(err, context.DeadlineExceeded) {
		// It was missed by the nanoseconds that the call took, and no more.
		virtual.Settle()
		began := c.Clock.Now()
		again, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		lock, err = call(again, "name", append(own, redlock.WithMinValidity(minimum-time.Microsecond))...)
		require.NoError(c.T, err)
		require.Greater(c.T, lock.Remaining()+c.Clock.Now().Sub(began), minimum)
	}
	if err != nil {
		require.ErrorIs(c.T, err, redlock.ErrInvalid)
		require.Nil(c.T, lock)
		require.Zero(c.T, c.Keys())
		return
	}
	assert.Positive(c.T, lock.Remaining())
	require.NoError(c.T, lock.Err())
	require.NoError(c.T, lock.Verify(ctx))
	if alone {
		ended, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		// With no value of its own, nor the minimum hold of the Locker, which permits cannot have.
		_, err = call(ended, "name", redlock.WithMinHold(0))
		require.ErrorIs(c.T, err, redlock.ErrTaken)
	}
	require.NoError(c.T, lock.Unlock(ctx))
}
