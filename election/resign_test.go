package election_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/redlock"
)

func TestLeadMayResignWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, cable := w.locker()
		e := w.election(l, "a")
		w.run(e, "a", cable, func(ctx context.Context) error {
			time.Sleep(time.Second)
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			began := time.Now()
			assert.NoError(t, e.Resign(child))
			assert.Equal(t, began, time.Now(), "at once")
			assert.ErrorIs(t, context.Cause(ctx), election.ErrResigned)
			assert.False(t, e.IsLeader())
			return nil
		})
		b := w.candidate("b")
		w.leads(b)
		assert.Len(t, w.led(), 2)
	})
}

// The lock is kept until lead has returned: the next one must not begin before.
func TestNobodyLeadsBeforeALeadThatResignedHasReturned(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, cable := w.locker()
		returned := time.Time{}
		a := w.run(w.election(l, "a"), "a", cable, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(3 * ttl) // renewed meanwhile
			returned = time.Now()
			return nil
		})
		b := w.candidate("b")
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err := a.Resign(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "lead has not returned")
		assert.False(t, a.IsLeader())
		require.NoError(t, a.Resign(ctx), "again")
		w.leads(b)
		stint := w.last()
		assert.Equal(t, "b", stint.id)
		assert.False(t, stint.from.Before(returned))
	})
}

func TestWhoDoesNotLeadHasNothingToResign(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.candidate("a"), w.candidate("b")
		require.NoError(t, b.Resign(ctx))
		assert.True(t, a.IsLeader())
	})
}

func TestResignSaysIfTheReleaseIsNotConfirmed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.candidate("a")
		a.cable.set(true)
		require.ErrorIs(t, a.Resign(ctx), redlock.ErrNoQuorum)
		assert.False(t, a.IsLeader())
	})
}

func TestResignHasNothingToSayOfALeadershipThatWasLost(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, _ := w.locker()
		a := w.candidate("a")
		require.NoError(t, l.ForceUnlock(ctx, name)) // a does not know yet
		require.NoError(t, a.Resign(ctx))
	})
}
