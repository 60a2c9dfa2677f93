package election_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/redlock"
)

func TestEveryCandidateAndWatcherKnowsTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.candidate("a|1"), w.candidate("b")
		l, _ := w.locker()
		watcher := w.election(l, "watcher")
		for _, e := range []*election.Election{a.Election, b.Election, watcher} {
			leader, err := e.Leader(ctx)
			require.NoError(t, err)
			assert.Equal(t, "a|1", leader.ID)
			assert.Equal(t, w.last().term, leader.Term)
			assert.True(t, leader.Until > ttl/2 && leader.Until <= ttl, "%v", leader.Until)
		}
	})
}

func TestNobodyLeadsWhereNobodyIsACandidate(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, _ := w.locker()
		e := w.election(l, "a")
		leader, err := e.Leader(ctx)
		require.NoError(t, err)
		assert.Zero(t, leader)

		lock, err := l.Lock(ctx, name, redlock.WithFencing()) // no candidate
		require.NoError(t, err)
		leader, err = e.Leader(ctx)
		require.NoError(t, err)
		assert.Zero(t, leader)
		require.NoError(t, lock.Unlock(ctx))
	})
}

// The counter that the term came from expires after ten minutes.
func TestALeaderIsKnownForAsLongAsItLeads(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.candidate("a")
		b := w.candidate("b")
		time.Sleep(30 * time.Minute)
		_, _, counted := w.servers[0].Get("redquorum:fence:" + name)
		assert.False(t, counted)
		leader, err := b.Leader(ctx)
		require.NoError(t, err)
		assert.Equal(t, w.last().term, leader.Term)
	})
}

func TestMastersThatLostTheRecordHaveItAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.candidate("a")
		b := w.candidate("b")
		for i := range w.servers {
			w.servers[i].Do(t, "DEL", "redquorum:terms:"+name)
		}
		leader, err := b.Leader(ctx)
		require.NoError(t, err)
		assert.Zero(t, leader)
		w.servers[0].Do(t, "SET", "redquorum:terms:"+name, "of another type")
		time.Sleep(6 * time.Second)
		leader, err = b.Leader(ctx)
		require.NoError(t, err)
		assert.Equal(t, w.last().term, leader.Term)
		assert.Len(t, w.servers[0].Do(t, "ZRANGE", "redquorum:terms:"+name, 0, -1), 1)
	})
}

func TestTheRecordKeepsTheNewestTerms(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, server := range w.servers {
			for term := range 256 {
				server.Do(t, "ZADD", "redquorum:terms:"+name, term+1, fmt.Sprint(term+1, " value|earlier"))
			}
		}
		w.candidate("a")
		b := w.candidate("b")
		for _, server := range w.servers {
			entries := server.Do(t, "ZRANGE", "redquorum:terms:"+name, 0, -1).([]any)
			require.Len(t, entries, 256)
			assert.Equal(t, "2 value|earlier", string(entries[0].([]byte)))
		}
		leader, err := b.Leader(ctx)
		require.NoError(t, err)
		assert.Equal(t, "a", leader.ID)
		assert.Equal(t, w.last().term, leader.Term)
	})
}

func TestWhoLeadsIsUnknownWhileAMajorityIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.candidate("a"), w.candidate("b")
		w.servers[0].Kill()
		time.Sleep(10 * time.Millisecond)
		leader, err := b.Leader(ctx)
		require.NoError(t, err)
		assert.Equal(t, "a", leader.ID)

		w.servers[1].Kill()
		time.Sleep(10 * time.Millisecond)
		_, err = b.Leader(ctx)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		leader, err = a.Leader(ctx)
		require.NoError(t, err, "the leader knows itself, as long as its validity lasts")
		assert.Equal(t, "a", leader.ID)
		time.Sleep(ttl)
		_, err = a.Leader(ctx)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	})
}

// If the record cannot be written, nobody leads, and Run says why.
func TestACandidateThatMayNotRecordItsTermDoesNotLead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, server := range w.servers {
			server.RefuseWith("NOPERM this user has no permissions", "zadd")
		}
		a := w.candidate("a")
		err := <-a.ended
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.ErrorContains(t, err, "NOPERM")
		assert.Empty(t, w.led())
		status, err := func() (redlock.Status, error) { l, _ := w.locker(); return l.Inspect(ctx, name) }()
		require.NoError(t, err)
		assert.True(t, status.Free)
	})
}

// The lock is acquired, but its term is not recorded: two masters go away in between.
func TestACandidateLeadsOnceItsTermIsOnRecord(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, server := range w.servers[:2] {
			server.OnCommand(func(c fake.Command) {
				if slices.Contains(c.Args, "256") { // the request to record
					go server.Mute(true)
				}
			})
		}
		a := w.candidate("a")
		time.Sleep(500 * time.Millisecond)
		holder, _, _ := w.servers[0].Get(name)
		assert.Contains(t, holder, "|a")
		assert.False(t, a.IsLeader())
		assert.Empty(t, w.led())
		leader, err := a.Leader(ctx)
		assert.Error(t, err, "%v", leader)
		for _, server := range w.servers[:2] {
			server.OnCommand(nil)
			server.Mute(false)
		}
		w.leads(a)
		assert.Len(t, w.led(), 1)
	})
}
