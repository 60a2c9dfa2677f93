package election_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/redlock"
)

// A partition is a crash that the leader lives to see.
func TestAFollowerLeadsSoonAfterALeaderThatIsCutOffHasEnded(t *testing.T) {
	for _, into := range []time.Duration{0, ttl / 6, ttl / 3} { // its renewals
		inBubble(t, func(w *world) {
			a, others := w.candidate("a"), []*candidate{w.candidate("b"), w.candidate("c")}
			time.Sleep(into)
			a.cable.set(true)
			b, took := w.leads(others...)
			assert.Less(t, took, ttl+100*time.Millisecond)
			stints := w.led() // asserts that a's context ended before
			require.Len(t, stints, 2)
			require.ErrorIs(t, stints[0].cause, redlock.ErrLost)
			assert.Equal(t, b.id, stints[1].id)
			assert.False(t, a.IsLeader())

			a.cable.set(false)
			time.Sleep(10 * time.Second) // until it waits like others again
			for _, c := range others {
				c.end()
			}
			w.leads(a)
			assert.Equal(t, "a", w.last().id)
		})
	}
}

func TestALeaderThatSleptKnowsAtTheFirstLook(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.candidate("a")
		require.True(t, a.IsLeader())
		w.clock.Suspend(time.Hour) // no timer notices yet
		assert.False(t, a.IsLeader())
		assert.ErrorIs(t, w.last().cause, redlock.ErrLost, "the context of lead has ended too")
	})
}

func TestRunReturnsWhatLeadHasToSayAndFreesTheLock(t *testing.T) {
	own := errors.New("its own")
	for _, c := range []struct {
		cancelled  bool // the context of Run, while lead runs
		lead, want error
	}{
		{false, nil, nil},
		{false, own, own},
		{false, context.Canceled, context.Canceled},
		{true, nil, nil},
		{true, own, own},
		{true, context.Canceled, nil},
	} {
		inBubble(t, func(w *world) {
			a := w.stranger("a")
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			err := a.Run(ctx, func(ctx context.Context, _ int64) error {
				assert.True(t, a.IsLeader())
				if c.cancelled {
					cancel()
					<-ctx.Done()
				}
				return c.lead
			})
			assert.Equal(t, c.want, err)
			assert.False(t, a.IsLeader())
			assert.True(t, a.inspect().Free)
		})
	}
}

func TestAPanicInLeadContinuesOnceTheLockIsReleased(t *testing.T) {
	inBubble(t, func(w *world) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		a := w.stranger("a")
		assert.PanicsWithValue(t, "oh", func() {
			_ = a.Run(ctx, func(context.Context, int64) error { panic("oh") }) //nolint:errcheck // it panics
		})
		assert.True(t, a.inspect().Free)
		assert.False(t, a.IsLeader())
		led := errors.New("led")
		require.ErrorIs(t, a.Run(ctx, func(context.Context, int64) error { return led }), led, "it can run again")
	})
}

func TestAnElectionRunsOnceAtATimeUntilItsContextEnds(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.candidate("a"), w.candidate("b")
		lead := func(context.Context, int64) error { return nil }
		require.ErrorIs(t, a.Run(ctx, lead), election.ErrRunning)
		b.end()
		assert.NoError(t, <-b.ended)
		assert.True(t, a.IsLeader())
		require.NoError(t, a.Resign(ctx))
		w.leads(a) // nobody else wants it
		a.end()
		require.NoError(t, <-a.ended)
		require.NoError(t, a.Run(ctx, lead))
	})
}

func TestElectionsOfOneLockerAreCandidatesLikeOthers(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.candidate("a")
		all := []*candidate{a, a.beside("b").runs(nil), a.beside("c").runs(nil), w.candidate("d")}
		for range 8 {
			leader, _ := w.leads(all...)
			require.NoError(t, leader.Resign(ctx))
		}
		w.leads(all...)
		counts := map[string]int{}
		for _, s := range w.led() {
			counts[s.id]++
		}
		assert.Len(t, counts, 4, "each leads: %v", counts)
	})
}

func TestClosingTheLockerEndsTheLeadership(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.candidate("a"), w.candidate("b")
		require.NoError(t, b.locker.Close())
		require.ErrorIs(t, <-b.ended, redlock.ErrClosed)
		require.NoError(t, a.locker.Close())
		require.ErrorIs(t, <-a.ended, redlock.ErrClosed)
		assert.ErrorIs(t, w.last().cause, redlock.ErrClosed)
		assert.False(t, a.IsLeader())
		_, err := a.Leader(ctx)
		require.ErrorIs(t, err, redlock.ErrClosed)
		for range a.Watch(ctx) { // ends
		}
	})
}

func TestALeaderThatAnOperatorDeposesCampaignsAgain(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.candidate("a")
		require.NoError(t, admin.Of(a.locker).ForceUnlock(ctx, name))
		time.Sleep(ttl)
		w.leads(a)
		stints := w.led()
		require.Len(t, stints, 2)
		assert.ErrorIs(t, stints[0].cause, redlock.ErrLost)
		require.NoError(t, admin.Of(a.locker).ForceUnlock(ctx, name)) // a does not know yet
		require.NoError(t, a.Resign(ctx), "nothing is to be said of a leadership that was lost")
	})
}

func TestATermEndsWithItsMaximumHold(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.candidate("a", election.WithLockOptions(redlock.WithMaxHold(time.Second)))
		w.leads(w.candidate("b"))
		stints := w.led()
		require.Len(t, stints, 2)
		assert.InDelta(t, time.Second, stints[0].to.Sub(stints[0].from), float64(50*time.Millisecond))
		assert.False(t, a.IsLeader())
	})
}

func TestLeadMayResignWithItsContext(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.stranger("a")
		a.runs(func(ctx context.Context) error {
			time.Sleep(time.Second)
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			began := time.Now()
			assert.NoError(t, a.Resign(child))
			assert.Equal(t, began, time.Now(), "at once")
			assert.ErrorIs(t, context.Cause(ctx), election.ErrResigned)
			assert.False(t, a.IsLeader())
			return nil
		})
		w.leads(w.candidate("b"))
		assert.Len(t, w.led(), 2)
	})
}

// Otherwise it would wait for itself.
func TestLeadMayResignWhenItsTermIsOver(t *testing.T) {
	for name, end := range map[string]func(a *candidate){
		"lost":       func(a *candidate) { a.cable.set(true) },
		"Run ends":   func(a *candidate) { a.end() },
		"Close":      func(a *candidate) { go a.locker.Close() },
		"by another": func(a *candidate) { go func() { assert.NoError(a.w.t, a.Resign(ctx)) }() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				a, resigned := w.stranger("a"), make(chan struct{})
				a.runs(func(lead context.Context) error {
					defer close(resigned)
					end(a)
					<-lead.Done()
					lasting, cancel := context.WithTimeout(context.WithoutCancel(lead), time.Second)
					defer cancel()
					for _, given := range []context.Context{lead, lasting} {
						began := time.Now()
						assert.NoError(t, a.Resign(given))
						assert.Equal(t, began, time.Now(), "at once")
					}
					a.end()
					return nil
				})
				<-resigned
			})
		})
	}
}

// The lock is kept until lead has returned: the next one must not begin before.
func TestNobodyLeadsBeforeALeadThatResignedHasReturned(t *testing.T) {
	inBubble(t, func(w *world) {
		returned := time.Time{}
		a := w.stranger("a").runs(func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(3 * ttl) // renewed meanwhile
			returned = time.Now()
			return nil
		})
		b := w.candidate("b")
		require.NoError(t, b.Resign(ctx), "who does not lead has nothing to resign")
		assert.True(t, a.IsLeader())
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

func TestResignSaysIfTheReleaseIsNotConfirmed(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.candidate("a")
		a.cable.set(true)
		require.ErrorIs(t, a.Resign(ctx), redlock.ErrNoQuorum)
		assert.False(t, a.IsLeader())
	})
}

func TestBadArgumentsAreInvalid(t *testing.T) {
	inBubble(t, func(w *world) {
		e := w.stranger("a")
		for _, c := range []struct {
			locker *redlock.Locker
			name   string
			opts   []election.Option
		}{
			{nil, name, nil},
			{e.locker, "", nil},
			{e.locker, "redquorum:x", nil},
			{e.locker, name, []election.Option{nil}},
			{e.locker, name, []election.Option{election.WithID("")}},
			{e.locker, name, []election.Option{election.WithID(strings.Repeat("x", 257))}},
			{e.locker, name, []election.Option{election.WithLockOptions(redlock.WithTTL(time.Hour))}},
			{e.locker, name, []election.Option{election.WithLockOptions(nil)}},
		} {
			_, err := election.New(c.locker, c.name, c.opts...)
			assert.ErrorIs(t, err, election.ErrInvalid, "%q", c.name)
		}
		var none context.Context
		assert.ErrorIs(t, e.Run(none, func(context.Context, int64) error { return nil }), election.ErrInvalid)
		assert.ErrorIs(t, e.Run(ctx, nil), election.ErrInvalid)
		assert.ErrorIs(t, e.Resign(none), election.ErrInvalid)
		_, err := e.Leader(none)
		assert.ErrorIs(t, err, election.ErrInvalid)
		for range e.Watch(none) {
			t.Error("told something")
		}
		_, err = election.New(e.locker, name) // the default ID
		assert.NoError(t, err)
	})
}

// The lock is handed over as the masters come back, and the caller learns of it.
func TestResignAgainTellsTheReleaseAsItIsNow(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.candidate("a")
		away := func(muted bool) {
			for _, server := range w.servers[1:] {
				server.Mute(muted)
			}
		}
		away(true)
		for range 3 {
			require.ErrorIs(t, a.Resign(ctx), redlock.ErrNoQuorum)
			assert.False(t, a.IsLeader())
		}
		away(false)
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, a.Resign(ctx))
	})
}
