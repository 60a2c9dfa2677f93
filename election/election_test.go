package election_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/redlock"
)

func TestAFollowerLeadsWithin20MsOfAResignation(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b, c := w.candidate("a"), w.candidate("b"), w.candidate("c")
		turn := []*candidate{a, b, c}
		for i := range 9 {
			leader, next := turn[i%3], turn[(i+1)%3]
			require.True(t, leader.IsLeader(), "candidates lead in turn")
			began := time.Now()
			require.NoError(t, leader.Resign(ctx))
			assert.False(t, leader.IsLeader())
			w.leads(next)
			assert.Less(t, time.Since(began), 20*time.Millisecond)
			time.Sleep(5 * time.Millisecond)
		}
		stints := w.led()
		assert.Len(t, stints, 10)
		for _, s := range stints[:9] {
			assert.ErrorIs(t, s.cause, election.ErrResigned)
		}
	})
}

func TestAFollowerLeadsWithinTTLPlus100MsOfACrash(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		all := []*candidate{w.candidate("a"), w.candidate("b"), w.candidate("c"), w.candidate("d")}
		for i := range 3 {
			leader, _ := w.leads(all...)
			time.Sleep(time.Duration(i) * 333 * time.Millisecond) // into its renewals
			leader.cable.set(true)
			all = slices.DeleteFunc(all, func(c *candidate) bool { return c == leader })
			_, took := w.leads(all...)
			assert.Less(t, took, ttl+100*time.Millisecond)
		}
		w.led()
	})
}

// A partition is a crash that the leader lives to see.
func TestALeaderThatIsCutOffEndsBeforeTheNextOneLeads(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.candidate("a"), w.candidate("b")
		a.cable.set(true)
		w.leads(b)
		stints := w.led() // asserts that a's context ended before
		require.Len(t, stints, 2)
		require.ErrorIs(t, stints[0].cause, redlock.ErrLost)
		assert.Equal(t, "b", stints[1].id)
		assert.False(t, a.IsLeader())

		a.cable.set(false)
		time.Sleep(10 * time.Second) // until it waits like others again
		require.NoError(t, b.Resign(ctx))
		w.leads(a)
		assert.Len(t, w.led(), 3)
	})
}

func TestALeaderThatSleptKnowsAtTheFirstLook(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.candidate("a")
		require.True(t, a.IsLeader())
		w.clock.Suspend(time.Hour) // no timer notices yet
		assert.False(t, a.IsLeader())
		assert.ErrorIs(t, w.last().cause, redlock.ErrLost, "the context of lead has ended too")
	})
}

func TestTheTermIsTheTokenAndIsOnRecordBeforeItIsLed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, _ := w.locker()
		recorded := 0
		e := w.election(l, "a")
		err := e.Run(ctx, func(_ context.Context, term int64) error {
			status, err := l.Inspect(ctx, name)
			require.NoError(t, err)
			assert.Equal(t, "a", status.Owner)
			for i, node := range status.Nodes {
				assert.Equal(t, term, node.Fence)
				entries := w.servers[i].Do(t, "ZRANGE", "redquorum:terms:"+name, 0, -1).([]any)
				if len(entries) > 0 {
					assert.Contains(t, string(entries[0].([]byte)), "|a")
					recorded++
				}
			}
			return nil
		})
		require.NoError(t, err)
		assert.GreaterOrEqual(t, recorded, 2)
	})
}

func TestLeadThatReturnsWhileItLeadsEndsRunAndFreesTheLock(t *testing.T) {
	for _, want := range []error{nil, errors.New("its own"), context.Canceled} {
		inBubble(t, func(t *testing.T, w *world) {
			l, _ := w.locker()
			e := w.election(l, "a")
			err := e.Run(ctx, func(context.Context, int64) error {
				assert.True(t, e.IsLeader())
				return want
			})
			assert.Equal(t, want, err)
			assert.False(t, e.IsLeader())
			status, err := l.Inspect(ctx, name)
			require.NoError(t, err)
			assert.True(t, status.Free)
		})
	}
}

func TestRunReturnsNilOrWhatLeadHasToSayWhenItsContextEnds(t *testing.T) {
	own := errors.New("its own")
	for _, c := range []struct{ lead, want error }{
		{nil, nil}, {context.Canceled, nil}, {own, own},
	} {
		inBubble(t, func(t *testing.T, w *world) {
			l, _ := w.locker()
			ctx, cancel := context.WithCancel(ctx)
			err := w.election(l, "a").Run(ctx, func(ctx context.Context, _ int64) error {
				cancel()
				<-ctx.Done()
				return c.lead
			})
			assert.Equal(t, c.want, err)
			status, err := l.Inspect(t.Context(), name)
			require.NoError(t, err)
			assert.True(t, status.Free)
		})
	}
}

func TestACandidateStopsCampaigningWhenItsContextEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.candidate("a"), w.candidate("b")
		b.end()
		assert.NoError(t, <-b.ended)
		assert.True(t, a.IsLeader())
		require.NoError(t, a.Resign(ctx))
		w.leads(a) // nobody else wants it
	})
}

func TestAPanicInLeadContinuesOnceTheLockIsReleased(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, _ := w.locker()
		e := w.election(l, "a")
		assert.PanicsWithValue(t, "oh", func() {
			_ = e.Run(ctx, func(context.Context, int64) error { panic("oh") }) //nolint:errcheck // it panics
		})
		status, err := l.Inspect(ctx, name)
		require.NoError(t, err)
		assert.True(t, status.Free)
		assert.False(t, e.IsLeader())
		require.NoError(t, e.Run(ctx, func(context.Context, int64) error { return nil }), "it can run again")
	})
}

func TestAnElectionRunsOnceAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.candidate("a")
		lead := func(context.Context, int64) error { return nil }
		require.ErrorIs(t, a.Run(ctx, lead), election.ErrRunning)
		assert.True(t, a.IsLeader())
		a.end()
		require.NoError(t, <-a.ended)
		require.NoError(t, a.Run(ctx, lead))
	})
}

func TestElectionsOfOneLockerAreCandidatesLikeOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, cable := w.locker()
		var all []*candidate
		for _, id := range []string{"a", "b", "c"} {
			all = append(all, w.run(w.election(l, id), id, cable, nil))
		}
		other := w.candidate("d")
		for range 8 {
			leader, _ := w.leads(append(all, other)...)
			require.NoError(t, leader.Resign(ctx))
		}
		w.leads(append(all, other)...)
		counts := map[string]int{}
		for _, s := range w.led() {
			counts[s.id]++
		}
		assert.Len(t, counts, 4, "each leads: %v", counts)
	})
}

func TestClosingTheLockerEndsTheLeadership(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, cable := w.locker()
		a := w.run(w.election(l, "a"), "a", cable, nil)
		l2, cable2 := w.locker()
		b := w.run(w.election(l2, "b"), "b", cable2, nil)
		require.NoError(t, l2.Close())
		require.ErrorIs(t, <-b.ended, redlock.ErrClosed)
		require.NoError(t, l.Close())
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
	inBubble(t, func(t *testing.T, w *world) {
		l, _ := w.locker()
		a := w.candidate("a")
		require.NoError(t, l.ForceUnlock(ctx, name))
		time.Sleep(ttl)
		w.leads(a)
		stints := w.led()
		require.Len(t, stints, 2)
		assert.ErrorIs(t, stints[0].cause, redlock.ErrLost)
	})
}

func TestATermEndsWithItsMaximumHold(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, cable := w.locker()
		a := w.run(w.election(l, "a", election.WithLockOptions(redlock.WithMaxHold(time.Second))), "a", cable, nil)
		b := w.candidate("b")
		w.leads(b)
		stints := w.led()
		require.Len(t, stints, 2)
		assert.InDelta(t, time.Second, stints[0].to.Sub(stints[0].from), float64(50*time.Millisecond))
		assert.False(t, a.IsLeader())
	})
}

func TestBadArgumentsAreInvalid(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, _ := w.locker()
		long := string(make([]byte, 257))
		for _, c := range []struct {
			locker *redlock.Locker
			name   string
			opts   []election.Option
		}{
			{nil, name, nil},
			{l, "", nil},
			{l, "redquorum:x", nil},
			{l, name, []election.Option{nil}},
			{l, name, []election.Option{election.WithID("")}},
			{l, name, []election.Option{election.WithID(long)}},
			{l, name, []election.Option{election.WithLockOptions(redlock.WithTTL(time.Hour))}},
			{l, name, []election.Option{election.WithLockOptions(redlock.WithValue("v"))}},
			{l, name, []election.Option{election.WithLockOptions(nil)}},
		} {
			_, err := election.New(c.locker, c.name, c.opts...)
			assert.ErrorIs(t, err, election.ErrInvalid, "%q", c.name)
		}
		e := w.election(l, "a")
		var none context.Context
		assert.ErrorIs(t, e.Run(none, func(context.Context, int64) error { return nil }), election.ErrInvalid)
		assert.ErrorIs(t, e.Run(ctx, nil), election.ErrInvalid)
		assert.ErrorIs(t, e.Resign(none), election.ErrInvalid)
		_, err := e.Leader(none)
		assert.ErrorIs(t, err, election.ErrInvalid)
		for range e.Watch(none) {
			t.Error("told something")
		}
		_, err = election.New(l, name) // the default ID
		assert.NoError(t, err)
	})
}
