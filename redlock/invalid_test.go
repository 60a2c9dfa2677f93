package redlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
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
