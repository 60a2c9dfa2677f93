package redlock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/fuzzed"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

type anotherClock struct{ clock.Clock }

func TestNewRefusesBadArgumentsByName(t *testing.T) {
	one := []string{"localhost:6379"}
	for name, c := range map[string]struct {
		endpoints []string
		opts      []redlock.Option
		want      string
	}{
		"no endpoints":        {nil, nil, "0 endpoints"},
		"too many endpoints":  {make([]string, 65), nil, "65 endpoints"},
		"empty endpoint":      {[]string{""}, nil, "endpoint 1: "},
		"bad URL":             {[]string{"localhost:1", "http://localhost"}, nil, "endpoint 2: "},
		"twice":               {[]string{"localhost:1", "b:1", "redis://LOCALHOST:1"}, nil, "endpoints 1 and 3 are the same server"},
		"twice, databases":    {[]string{"redis://a:1/0", "redis://a:1/1"}, nil, "endpoints 1 and 2 are the same server"},
		"databases differ":    {[]string{"redis://a:1/2", "redis://b:1/2", "redis://c:1"}, nil, "endpoints 1 and 3 are in different databases: redis://a:1/2 and redis://c:1"},
		"nil option":          {one, []redlock.Option{nil}, "option 1 is nil"},
		"TTL 0":               {one, []redlock.Option{redlock.WithTTL(0)}, "TTL 0s"},
		"TTL negative":        {one, []redlock.Option{redlock.WithTTL(-1)}, "TTL 0s"},
		"TTL under 10 ms":     {one, []redlock.Option{redlock.WithTTL(9 * time.Millisecond)}, "TTL 9ms"},
		"TTL over the max":    {one, []redlock.Option{redlock.WithTTL(time.Minute + time.Millisecond)}, "TTL 1m0.001s"},
		"max TTL below TTL":   {one, []redlock.Option{redlock.WithMaxTTL(time.Second)}, "TTL 10s"},
		"max TTL":             {one, []redlock.Option{redlock.WithMaxTTL(25 * time.Hour)}, "maximum TTL"},
		"drift 1":             {one, []redlock.Option{redlock.WithDrift(1, 0)}, "drift rate"},
		"drift negative":      {one, []redlock.Option{redlock.WithDrift(-0.1, 0)}, "drift rate"},
		"drift fixed":         {one, []redlock.Option{redlock.WithDrift(0, -1)}, "fixed drift"},
		"drift over TTL":      {one, []redlock.Option{redlock.WithDrift(0, 10*time.Second)}, "leaves no validity"},
		"min validity":        {one, []redlock.Option{redlock.WithMinValidity(-1)}, "minimum validity"},
		"min validity = hold": {one, []redlock.Option{redlock.WithMinValidity(time.Second), redlock.WithMaxHold(time.Second)}, "minimum validity"},
		"min validity > TTL":  {one, []redlock.Option{redlock.WithMinValidity(10 * time.Second)}, "minimum validity"},
		"min hold":            {one, []redlock.Option{redlock.WithMinHold(-1)}, "minimum hold -1ns is negative"},
		"min hold > max TTL":  {one, []redlock.Option{redlock.WithMinHold(time.Minute + 1)}, "minimum hold 1m0.000000001s is above the maximum TTL of 1m0s"},
		"endless min hold":    {one, []redlock.Option{redlock.WithMinHold(1<<63 - 1)}, "minimum hold"},
		"node timeout 0":      {one, []redlock.Option{redlock.WithNodeTimeout(0)}, "node timeout"},
		"retry":               {one, []redlock.Option{redlock.WithRetry(time.Second, time.Millisecond)}, "retry"},
		"retry 0":             {one, []redlock.Option{redlock.WithRetry(0, 0)}, "retry"},
		"key prefix":          {one, []redlock.Option{redlock.WithKeyPrefix(strings.Repeat("a", 1025))}, "key prefix"},
		"owner":               {one, []redlock.Option{redlock.WithOwner(strings.Repeat("a", 257))}, "owner"},
		"tracer":              {one, []redlock.Option{redlock.WithTracer(nil)}, "tracer"},
		"clock":               {one, []redlock.Option{redlock.WithClock(nil)}, "clock"},
		"pool option":         {one, []redlock.Option{redlock.WithPool(pool.WithDialTimeout(-1))}, "dial timeout"},
		"clock of the pool's": {one, []redlock.Option{redlock.WithPool(pool.WithClock(anotherClock{clock.System()}))}, "clock of its own"},
	} {
		l, err := redlock.New(c.endpoints, c.opts...)
		require.ErrorIs(t, err, redlock.ErrInvalid, name)
		assert.ErrorContains(t, err, c.want, name)
		assert.Nil(t, l, name)
	}
	_, err := redlock.New([]string{"redis://:hunter2@localhost:port"})
	require.ErrorIs(t, err, redlock.ErrInvalid)
	assert.NotContains(t, err.Error(), "hunter2")
}

func TestNewFromNodesChecksItsNodes(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		newNode := func(endpoint string) *pool.Node {
			node, err := pool.NewNode(endpoint, pool.WithClock(c.Clock), pool.WithDialer(c.Dialer()))
			require.NoError(t, err)
			t.Cleanup(func() { node.Close() })
			return node
		}
		a, again := newNode("node0:6379"), newNode("redis://node0:6379/3")
		for want, nodes := range map[string][]*pool.Node{
			"0 nodes": nil, "node 1 is nil": {nil}, "node 2 is nil": {a, nil}, "the same server": {a, again},
		} {
			_, err := redlock.NewFromNodes(nodes)
			require.ErrorIs(t, err, redlock.ErrInvalid)
			assert.ErrorContains(t, err, want)
		}
		_, err := redlock.NewFromNodes([]*pool.Node{a}, redlock.WithClock(clock.System()))
		require.ErrorIs(t, err, redlock.ErrInvalid)
		_, err = redlock.NewFromNodes([]*pool.Node{a}, redlock.WithPool(pool.WithClientName("x")))
		require.ErrorIs(t, err, redlock.ErrInvalid)
		_, err = redlock.NewFromNodes([]*pool.Node{a}, redlock.WithPool())
		require.ErrorIs(t, err, redlock.ErrInvalid)

		for range 2 { // Close leaves the nodes open
			l, err := redlock.NewFromNodes([]*pool.Node{a})
			require.NoError(t, err)
			c.Lock(l, "a")
			require.NoError(t, l.Close())
			assert.Zero(t, c.Keys())
		}
	})
}

// Those that every call refuses are in TestACallOfAnyKindRefusesBadArgumentsAndSendsNothing.
func TestCallsRefuseBadArgumentsAndSendNothing(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.Locker()
		lock := c.Lock(l, "held")
		virtual.Settle()
		before := len(c.Servers[0].Commands())
		var none context.Context
		calls := map[string]func() error{
			"empty name":    func() error { _, err := l.TryLock(ctx, ""); return err },
			"empty, shared": func() error { _, err := l.TryRLock(ctx, ""); return err },
			"long name":     func() error { _, err := l.TryLock(ctx, strings.Repeat("a", 4097)); return err },
			"min hold":      func() error { _, err := l.TryLock(ctx, "a", redlock.WithMinHold(time.Hour)); return err },
			"Ready":         func() error { return l.Ready(none) },
			"Extend ctx":    func() error { return lock.Extend(none, time.Second) },
			"Extend TTL":    func() error { return lock.Extend(ctx, 0) },
			"Extend TTL 2":  func() error { return lock.Extend(ctx, time.Hour) },
			"Verify":        func() error { return lock.Verify(none) },
			"Unlock":        func() error { return lock.Unlock(none) },
			"Do":            func() error { return l.Do(ctx, "a", nil) },
			"UnlockAll":     func() error { return l.UnlockAll(none) },
			"ForceUnlock":   func() error { return admin.Of(l).ForceUnlock(ctx, "") },
			"Adopt":         func() error { _, err := l.Adopt(ctx, "a", ""); return err },
			"Inspect":       func() error { _, err := admin.Of(l).Inspect(ctx, ""); return err },
		}
		for _, names := range [][]string{nil, {""}, {"a", "b", "a"}, {"redquorum:a"}, make([]string, 257)} {
			for call, f := range map[string]func(context.Context, []string, ...redlock.LockOption) (*redlock.Lock, error){
				"TryLockAll": l.TryLockAll, "LockAll": l.LockAll, "TryLockAny": l.TryLockAny, "LockAny": l.LockAny,
			} {
				calls[fmt.Sprintf("%s %.3q", call, names)] = func() error { _, err := f(ctx, names); return err }
			}
		}
		for name, call := range calls {
			require.ErrorIs(t, call(), redlock.ErrInvalid, name)
		}
		virtual.Settle()
		assert.Len(t, c.Servers[0].Commands(), before)
		require.NoError(t, lock.Err())

		longest := c.Lock(l, strings.Repeat("\x00", 4096), redlock.WithTTL(10*time.Millisecond))
		c.Unlock(longest) // the limits themselves are valid
	})
}

func TestKeysOfTheLibraryItselfCannotBeLocked(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		for _, test := range []struct {
			prefix, name string
			refused      bool
		}{
			{"", "redquorum:fence:a", true},
			{"", "redquorum:", true},
			{"red", "quorum:wait:a", true},
			{"redquorum:", "a", true},
			{"redquorum:x", "a", true},
			{"", "redquorum", false},
			{"a", "redquorum:fence:a", false},
			{"redq", "redquorum:fence:a", false},
		} {
			lock, err := c.Locker(redlock.WithKeyPrefix(test.prefix)).TryLock(ctx, test.name)
			if test.refused {
				require.ErrorIs(t, err, redlock.ErrInvalid, "%q %q", test.prefix, test.name)
				continue
			}
			require.NoError(t, err, "%q %q", test.prefix, test.name)
			c.Unlock(lock)
		}
	})
}

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
