package redlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// delayed makes each server slower than the one before it, by about one step of the timings
// below.
func (c *cluster) delayed() {
	for i, s := range c.servers {
		d := time.Duration(300+100*i) * time.Microsecond
		s.Delay(func() time.Duration { return d }, func() time.Duration { return d })
	}
}

// notes returns the adoption notes on all nodes.
func (c *cluster) notes() (notes []string) {
	for _, s := range c.servers {
		for _, key := range s.Keys() {
			if strings.HasPrefix(key, "redquorum:adopt:") {
				notes = append(notes, key)
			}
		}
	}
	return notes
}

const (
	endTimings = 30
	// endStep is the time between two timings. The longest exceeds two rounds to all nodes.
	endStep = 110 * time.Microsecond
)

// endEvery is from one timing that is tried to the next.
var endEvery = unraced(3, 1)

// ending is a way for an adoption to end before it stands.
type ending struct {
	name string
	// cut runs k steps after Adopt was called.
	cut func(c *cluster, k int, adopter *redlock.Locker, old *redlock.Lock, cancel func())
	// before runs just before Adopt is called.
	before func(c *cluster, k int)
	after  func(c *cluster) // runs once Adopt has returned
	opts   []redlock.LockOption
	ends   bool // the old holder may lose its lock
}

var endings = []ending{
	{name: "close", cut: func(c *cluster, _ int, adopter *redlock.Locker, _ *redlock.Lock, _ func()) {
		assert.NoError(c.t, adopter.Close())
	}},
	{
		name: "close and fencing", opts: []redlock.LockOption{redlock.WithFencing()},
		cut: func(c *cluster, _ int, adopter *redlock.Locker, _ *redlock.Lock, _ func()) {
			assert.NoError(c.t, adopter.Close())
		},
		before: func(c *cluster, _ int) {
			c.do(1, "SET", "redquorum:fence:a", c.clock.Wall().Add(time.Second).UnixMicro())
		},
	},
	{name: "context", cut: func(_ *cluster, _ int, _ *redlock.Locker, _ *redlock.Lock, cancel func()) { cancel() }},
	{
		name: "context and fencing", opts: []redlock.LockOption{redlock.WithFencing()},
		cut: func(_ *cluster, _ int, _ *redlock.Locker, _ *redlock.Lock, cancel func()) { cancel() },
		before: func(c *cluster, _ int) {
			c.do(1, "SET", "redquorum:fence:a", c.clock.Wall().Add(time.Second).UnixMicro())
		},
	},
	{
		name: "replies lost, and context", cut: func(_ *cluster, _ int, _ *redlock.Locker, _ *redlock.Lock, cancel func()) { cancel() },
		before: func(c *cluster, k int) {
			for i := range 3 {
				c.servers[(i+k)%5].LoseReplies(1)
			}
		},
	},
	{name: "requests lost", before: func(c *cluster, k int) {
		for i := range 3 {
			c.servers[(i+k)%5].LoseRequests(1)
		}
	}},
	{name: "replies lost", before: func(c *cluster, k int) {
		for i := range 3 {
			c.servers[(i+k)%5].LoseReplies(1)
		}
	}},
	{name: "nodes silent", cut: func(c *cluster, k int, _ *redlock.Locker, _ *redlock.Lock, _ func()) {
		for i := range 3 {
			c.servers[(i+k)%5].MuteReplies(true)
		}
	}, after: func(c *cluster) {
		for _, s := range c.servers {
			s.MuteReplies(false)
		}
	}},
	{name: "connections break", cut: func(c *cluster, k int, _ *redlock.Locker, _ *redlock.Lock, _ func()) {
		for i := range 3 {
			c.servers[(i+k)%5].Disconnect()
		}
	}},
	{name: "too little validity", opts: []redlock.LockOption{
		redlock.WithTTL(100 * time.Millisecond), redlock.WithMinValidity(96 * time.Millisecond), redlock.WithFencing(),
	}},
	{name: "a durable node restarts", cut: func(c *cluster, k int, _ *redlock.Locker, _ *redlock.Lock, cancel func()) {
		c.servers[k%5].Restart(true)
		cancel()
	}},
	{
		name: "a node forgets",
		cut: func(c *cluster, k int, _ *redlock.Locker, _ *redlock.Lock, cancel func()) {
			c.servers[k%5].Restart(false)
			cancel()
		},
	},
	{name: "the old holder releases", ends: true, cut: func(_ *cluster, _ int, _ *redlock.Locker, old *redlock.Lock, cancel func()) {
		go func() { _ = old.Unlock(ctx) }() //nolint:errcheck // it may be adopted
		cancel()
	}},
	{name: "the old holder extends", ends: true, cut: func(_ *cluster, _ int, _ *redlock.Locker, old *redlock.Lock, cancel func()) {
		go func() { _ = old.Extend(ctx, 10*time.Second) }() //nolint:errcheck // it may be adopted
		cancel()
	}},
}

// S24 (docs/safety.md): whenever and however an adoption ends, it stands or the old holder keeps
// its lock.
func TestAnAdoptionStandsOrTheOldHolderHasItsLock(t *testing.T) {
	t.Parallel()
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			for k := 0; k < endTimings; k += endEvery {
				inBubble(t, 5, func(t *testing.T, c *cluster) { e.check(t, c, k) })
			}
		})
	}
}

func (e *ending) check(t *testing.T, c *cluster, k int) {
	at := fmt.Sprintf("after %v", time.Duration(k)*endStep)
	holder, adopter, third := c.locker(redlock.WithTTL(10*time.Second)), c.locker(), c.locker()
	c.delayed()
	old, err := holder.TryLock(ctx, "a")
	require.NoError(t, err)
	time.Sleep(100 * time.Millisecond)
	if e.before != nil {
		e.before(c, k)
	}
	few, cancel := context.WithCancel(ctx)
	defer cancel()
	var adopted *redlock.Lock
	over := make(chan error, 1)
	go func() {
		var err error
		adopted, err = adopter.Adopt(few, "a", old.Value(), e.opts...)
		over <- err
	}()
	time.Sleep(time.Duration(k) * endStep)
	if e.cut != nil {
		e.cut(c, k, adopter, old, cancel)
	}
	failed := <-over
	if e.after != nil {
		e.after(c)
	}
	time.Sleep(time.Second)
	holds := old.Verify(ctx)
	switch {
	case failed == nil:
		require.Error(t, holds, "%s: the next round tells the old holder", at)
	case !e.ends:
		require.NoError(t, holds, "%s: the old holder keeps its lock: %v, %v", at, failed, c.holders("a"))
	}
	lock, err := third.TryLock(ctx, "a")
	if err == nil {
		require.Error(t, old.Err(), "%s: two holders: %v", at, failed)
		require.True(t, adopted == nil || adopted.Err() != nil, "%s: two holders", at)
		require.NoError(t, lock.Unlock(ctx))
	} else {
		require.ErrorIs(t, err, redlock.ErrTaken, at)
		require.True(t, holds == nil || adopted != nil && adopted.Err() == nil, "%s: held by nobody: %v", at, c.holders("a"))
	}
	time.Sleep(time.Second)
	require.Empty(t, c.notes(), at)
}

func TestAnAdoptionThatCannotBeUndoneLeavesTheLockToNobodyUntilItsTTLEnds(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		holder, adopter, third := c.locker(redlock.WithTTL(10*time.Second)), c.locker(), c.locker()
		c.delayed()
		old, err := holder.TryLock(ctx, "a")
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		// The values are swapped, but no reply is in.
		few, cancel := context.WithTimeout(ctx, 600*time.Microsecond)
		defer cancel()
		time.AfterFunc(550*time.Microsecond, func() {
			for _, s := range c.servers {
				s.Mute(true)
			}
		})
		_, err = adopter.Adopt(few, "a", old.Value())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, adopter.Close(), redlock.ErrUndelivered)
		for _, s := range c.servers {
			s.Mute(false)
		}
		time.Sleep(time.Second)
		require.NotContains(t, c.holders("a"), "")
		require.ErrorIs(t, old.Verify(ctx), redlock.ErrLost)
		_, err = third.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrTaken)
		time.Sleep(10 * time.Second)
		_, err = third.TryLock(ctx, "a")
		require.NoError(t, err)
		require.Empty(t, c.notes())
	})
}
