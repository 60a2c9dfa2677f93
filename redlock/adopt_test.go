package redlock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// delayed makes each server slower than the one before it, by about one step of the timings
// below.
func (c *cluster) delayed() {
	for i, s := range c.Servers {
		d := time.Duration(300+100*i) * time.Microsecond
		virtual.Delaying(d, d)(s)
	}
}

// notes returns the adoption notes on all nodes.
func (c *cluster) notes() (notes []string) {
	for _, s := range c.Servers {
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
func endEvery() int {
	if virtual.Thorough() && !virtual.Raced {
		return 1
	}
	return 3
}

// adoption is one that ends, or is ended, after k steps.
type adoption struct {
	*cluster
	k              int
	adopter, third *redlock.Locker
	old            *redlock.Lock
	cancel         func()
}

// ofThree does something to three of five nodes.
func ofThree(do func(*fakeredis.Node)) func(*adoption) {
	return func(a *adoption) {
		for i := range 3 {
			do(a.Servers[(i+a.k)%5])
		}
	}
}

// restarts ends an adoption as a node restarts.
func restarts(kept bool) func(*adoption) {
	return func(a *adoption) {
		a.Servers[a.k%5].Restart(kept)
		a.cancel()
	}
}

func closes(a *adoption)  { assert.NoError(a.T, a.adopter.Close()) }
func cancels(a *adoption) { a.cancel() }

// counterAhead makes the node's token larger than those of the others.
func counterAhead(a *adoption) {
	a.Do(1, "SET", "redquorum:fence:a", a.Clock.Wall().Add(time.Second).UnixMicro())
}

// ending is a way for an adoption to end before it stands.
type ending struct {
	name   string
	before func(*adoption) // runs just before Adopt is called
	cut    func(*adoption) // runs k steps after Adopt was called
	after  func(*adoption) // runs once Adopt has returned
	opts   []redlock.LockOption
	ends   bool // the old holder may lose its lock
}

var endings = []ending{
	{name: "close", cut: closes},
	{name: "close and fencing", before: counterAhead, cut: closes, opts: []redlock.LockOption{redlock.WithFencing()}},
	{name: "context", cut: cancels},
	{name: "context and fencing", before: counterAhead, cut: cancels, opts: []redlock.LockOption{redlock.WithFencing()}},
	{name: "replies lost, and context", before: ofThree(func(n *fakeredis.Node) { n.LoseReplies(1) }), cut: cancels},
	{name: "requests lost", before: ofThree(func(n *fakeredis.Node) { n.LoseRequests(1) })},
	{name: "replies lost", before: ofThree(func(n *fakeredis.Node) { n.LoseReplies(1) })},
	{name: "nodes silent", cut: ofThree(virtual.Deafen), after: ofThree(virtual.Undeaf)},
	{name: "connections break", cut: ofThree((*fakeredis.Node).Disconnect)},
	{name: "too little validity", opts: []redlock.LockOption{
		redlock.WithTTL(100 * time.Millisecond), redlock.WithMinValidity(96 * time.Millisecond), redlock.WithFencing(),
	}},
	{name: "too little validity of a longer TTL", opts: []redlock.LockOption{
		redlock.WithTTL(20 * time.Second), redlock.WithMinValidity(19797500 * time.Microsecond),
	}},
	{name: "a durable node restarts", cut: restarts(true)},
	{name: "a node forgets", cut: restarts(false)},
	{name: "the old holder releases", ends: true, cut: func(a *adoption) {
		go func() { virtual.EndsOnly(a.old.Unlock(ctx)) }() // it may be adopted
		a.cancel()
	}},
	{name: "the old holder extends", ends: true, cut: func(a *adoption) {
		go func() { virtual.EndsOnly(a.old.Extend(ctx, 10*time.Second)) }() // it may be adopted
		a.cancel()
	}},
	// As a renewal does. It finds the adopter's value.
	{name: "the old holder extends, and the adopter goes on", ends: true, cut: func(a *adoption) {
		go func() { virtual.EndsOnly(a.old.Extend(ctx, 10*time.Second)) }() // it may be adopted
	}},
}

// S24 (docs/safety.md): whenever and however an adoption ends, it stands or the old holder keeps
// its lock.
func TestAnAdoptionStandsOrTheOldHolderHasItsLock(t *testing.T) {
	t.Parallel()
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			adoptions(t, func(t *testing.T, a *adoption) { e.check(t, a) })
		})
	}
}

// adoptions runs a test with each timing. A lock is held, and its values are on all nodes.
func adoptions(t *testing.T, test func(t *testing.T, a *adoption)) {
	t.Helper()
	for k := 0; k < endTimings; k += endEvery() {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			holder := c.Locker(redlock.WithTTL(10 * time.Second))
			a := &adoption{cluster: c, k: k, adopter: c.Locker(), third: c.Locker()}
			c.delayed()
			a.old = c.Lock(holder, "a")
			time.Sleep(100 * time.Millisecond)
			test(t, a)
		})
	}
}

func (e *ending) check(t *testing.T, a *adoption) {
	at := fmt.Sprintf("after %v", time.Duration(a.k)*endStep)
	do := func(what func(*adoption)) {
		if what != nil {
			what(a)
		}
	}
	few, cancel := context.WithCancel(ctx)
	defer cancel()
	a.cancel = cancel
	do(e.before)
	var adopted *redlock.Lock
	over := make(chan error, 1)
	go func() {
		var err error
		adopted, err = a.adopter.Adopt(few, "a", a.old.Value(), e.opts...)
		over <- err
	}()
	time.Sleep(time.Duration(a.k) * endStep)
	do(e.cut)
	failed := <-over
	do(e.after)
	time.Sleep(time.Second)
	holds := a.old.Verify(ctx)
	switch {
	case failed == nil:
		require.Error(t, holds, "%s: the next round tells the old holder", at)
	case !e.ends:
		require.NoError(t, holds, "%s: the old holder keeps its lock: %v, %v", at, failed, a.Holders("a"))
		for _, server := range a.Servers {
			_, left, _ := server.Get("a")
			require.Less(t, left, 9*time.Second, "%s: it lives no longer than it would have", at)
		}
	}
	lock, err := a.third.TryLock(ctx, "a")
	if err == nil {
		require.Error(t, a.old.Err(), "%s: two holders: %v", at, failed)
		require.True(t, adopted == nil || adopted.Err() != nil, "%s: two holders", at)
		require.NoError(t, lock.Unlock(ctx))
	} else {
		require.ErrorIs(t, err, redlock.ErrTaken, at)
		require.True(t, holds == nil || adopted != nil && adopted.Err() == nil, "%s: held by nobody: %v", at, a.Holders("a"))
	}
	time.Sleep(time.Second)
	require.Empty(t, a.notes(), at)
}

// The second adopter knows the value from Inspect. It gives up before or after the
// first one.
func TestAnAdoptionOfAnAdoptionThatFailsLeavesTheOldHolderItsLock(t *testing.T) {
	for _, patience := range []time.Duration{time.Microsecond, 2 * time.Millisecond} {
		for _, releases := range []bool{false, true} {
			adoptions(t, func(t *testing.T, a *adoption) {
				checkAdoptionOfAdoption(t, a, patience, releases)
			})
		}
	}
}

func checkAdoptionOfAdoption(t *testing.T, a *adoption, patience time.Duration, releases bool) {
	after := time.Duration(a.k) * endStep
	over := make(chan error, 1)
	go func() {
		// A round takes a millisecond.
		tooLate := redlock.WithMinValidity(9897500 * time.Microsecond)
		_, err := a.adopter.Adopt(ctx, "a", a.old.Value(), tooLate)
		over <- err
	}()
	time.Sleep(after)
	few, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if releases {
		go func() { virtual.EndsOnly(a.old.Unlock(ctx)) }() // it may be adopted
	}
	swapped := slices.DeleteFunc(a.Holders("a"), func(value string) bool { return value == "" || value == a.old.Value() })
	first := append(swapped, "no node has been asked yet")[0]
	adopted, err := a.third.Adopt(few, "a", first)
	failed := <-over
	time.Sleep(time.Second)
	require.Error(t, failed)
	switch {
	case err == nil:
		require.NoError(t, adopted.Verify(ctx))
		require.Error(t, a.old.Verify(ctx))
	case releases:
		require.Equal(t, make([]string, 5), a.Holders("a"), "after %v", after)
	default:
		require.NoError(t, a.old.Verify(ctx), "after %v: %v, %v", after, err, a.Holders("a"))
		require.Equal(t, slices.Repeat([]string{a.old.Value()}, 5), a.Holders("a"), "after %v", after)
	}
	require.Empty(t, a.notes())
}

func TestAdoptTakesALockOver(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		opts := []redlock.Option{redlock.WithTTL(3 * time.Second), redlock.WithFencing()}
		first, second := c.Renewing(opts...), c.Renewing(opts...)
		old := c.Lock(first, "a", redlock.WithOwner("a"))
		virtual.Settle()
		_, err := second.Adopt(ctx, "a", "wrong")
		require.ErrorIs(t, err, redlock.ErrLost)
		_, err = second.Adopt(ctx, "free", old.Value())
		require.ErrorIs(t, err, redlock.ErrLost)
		adopted, err := second.Adopt(ctx, "a", old.Value(), redlock.WithOwner("b"))
		require.NoError(t, err)
		assert.NotEqual(t, old.Value(), adopted.Value())
		assert.Greater(t, adopted.Fence(), old.Fence(), "an adopter has a token of its own")
		virtual.Settle()
		assert.Equal(t, []string{adopted.Value()}, uniq(c.Holders("a")))
		took := virtual.Elapsed(func() { <-old.Done() })
		assert.LessOrEqual(t, took, time.Second, "the old holder learns of it at its next round")
		require.ErrorIs(t, old.Err(), redlock.ErrLost)
		require.ErrorIs(t, old.Unlock(ctx), redlock.ErrLost)
		time.Sleep(30 * time.Second)
		require.NoError(t, adopted.Err(), "an adopted lock is renewed")
		require.NoError(t, adopted.Unlock(ctx))
		virtual.Settle()
		assert.Equal(t, []string{""}, uniq(c.Holders("a")))
	})
}

// The old holder may believe in its lock until then, and nobody else may get it before.
func TestAnAdoptionWithAShorterTTLEndsNoKeyEarlier(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		held := c.Lock(c.Locker(), "a", redlock.WithTTL(10*time.Second))
		adopted, err := c.Locker().Adopt(ctx, "a", held.Value(), redlock.WithTTL(time.Second))
		require.NoError(t, err)
		virtual.Settle()
		for _, server := range c.Servers {
			value, left, _ := server.Get("a")
			assert.Equal(t, adopted.Value(), value)
			assert.Greater(t, left, 9*time.Second)
		}
	})
}

func TestAnAdoptionMayBeTheFirstCall(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.Lock(c.Locker(), "a")
		adopted, err := c.Connecting().Adopt(ctx, "a", lock.Value())
		require.NoError(t, err)
		require.NoError(t, adopted.Unlock(ctx))
	})
}

// The swap reaches every node before the release of the old holder, and the undo of the swap comes
// behind it: nobody holds the lock, and nobody gets it back.
func TestALockThatIsReleasedWhileItsAdoptionFailsStaysFree(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		if k.what == "reader" || k.what == "names" { // cannot be adopted as a whole
			return
		}
		c.Slow(200 * time.Microsecond)
		l, heir := c.Locker(redlock.WithTTL(time.Minute)), c.Locker()
		lock := c.of(k, l)
		failing, cancel := context.WithCancel(ctx)
		adopted := make(chan error, 1)
		go func() {
			_, err := heir.Adopt(failing, lock.Name(), lock.Value())
			adopted <- err
		}()
		time.Sleep(50 * time.Microsecond)
		time.AfterFunc(10*time.Microsecond, cancel)
		require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrLost)
		require.Error(t, <-adopted)
		c.LeavesNothing(time.Second)
	})
}

// The undo of a swap arrives in the last millisecond of the old holder's TTL.
func TestAnAdoptionThatFailsLeavesTheOldHolderItsLastMillisecond(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l, heir := c.Locker(redlock.WithDrift(0, 0), redlock.WithTTL(20*time.Millisecond)), c.Locker(redlock.WithDrift(0, 0))
		c.Slow(time.Millisecond)
		// Of a millisecond of the nodes, 0.4 ms are over. They take the lock at 0.9 ms.
		time.Sleep(time.Millisecond - time.Duration(c.Clock.Wall().UnixNano()%1e6) + 400*time.Microsecond)
		old := c.Lock(l, "a")
		time.Sleep(17300 * time.Microsecond)
		_, err := heir.Adopt(ctx, "a", old.Value(), redlock.WithTTL(100*time.Millisecond), redlock.WithMinValidity(99*time.Millisecond))
		require.ErrorIs(t, err, redlock.ErrNoValidity)
		time.Sleep(600 * time.Microsecond)
		require.NoError(t, old.Err())
		assert.Equal(t, []string{old.Value()}, uniq(c.Holders("a")))
	})
}
