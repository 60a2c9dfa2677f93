package election_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/redlock"
)

func TestEveryCandidateAndWatcherKnowsTheLeaderForAsLongAsItLeads(t *testing.T) {
	inBubble(t, func(w *world) {
		all := []*candidate{w.candidate("a|1"), w.candidate("b"), w.stranger("watcher")}
		for _, node := range all[0].inspect().Nodes {
			assert.Equal(t, w.last().term, node.Fence, "the term is the token")
		}
		know := func() {
			for _, e := range all {
				leader := e.leader()
				assert.Equal(t, "a|1", leader.ID)
				assert.Equal(t, w.last().term, leader.Term)
				assert.True(t, leader.Until > ttl/2 && leader.Until <= ttl, "%v", leader.Until)
			}
		}
		know()
		time.Sleep(30 * time.Minute) // the counter that the term came from expires after ten
		_, _, counted := w.servers[0].Get("redquorum:fence:" + name)
		assert.False(t, counted)
		know()
	})
}

func TestMastersThatLostTheRecordHaveItAgain(t *testing.T) {
	inBubble(t, func(w *world) {
		w.candidate("a")
		b := w.candidate("b")
		for i := range w.servers {
			w.servers[i].Do(t, "DEL", termKey)
		}
		assert.Zero(t, b.leader())
		w.servers[0].Do(t, "SET", termKey, "of another type")
		time.Sleep(6 * time.Second)
		assert.Equal(t, w.last().term, b.leader().Term)
		assert.Len(t, w.servers[0].Do(t, "ZRANGE", termKey, 0, -1), 1)
	})
}

func TestWhoLeadsIsUnknownWhileAMajorityIsAway(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.candidate("a"), w.candidate("b")
		w.servers[0].Kill()
		time.Sleep(10 * time.Millisecond)
		assert.Equal(t, "a", b.leader().ID)

		w.servers[1].Kill()
		time.Sleep(10 * time.Millisecond)
		_, err := b.Leader(ctx)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.Equal(t, "a", a.leader().ID, "the leader knows itself, as long as its validity lasts")
		time.Sleep(ttl)
		_, err = a.Leader(ctx)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	})
}

// If the record cannot be written, nobody leads, and Run says why.
func TestACandidateThatMayNotRecordItsTermDoesNotLead(t *testing.T) {
	inBubble(t, func(w *world) {
		for _, server := range w.servers {
			server.RefuseWith("NOPERM this user has no permissions", "zadd")
		}
		a := w.candidate("a")
		err := <-a.ended
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.ErrorContains(t, err, "NOPERM")
		assert.Empty(t, w.led())
		assert.True(t, a.inspect().Free)
	})
}

// The masters are full between the lock and the record of its term, or the like.
func TestACandidateWaitsForMastersThatRecordNothingForNow(t *testing.T) {
	for _, code := range []string{"OOM", "MISCONF", "NOREPLICAS", "BUSY"} {
		inBubble(t, func(w *world) {
			for _, server := range w.servers {
				server.RefuseWith(code+" not now", "zadd")
			}
			a := w.candidate("a")
			time.Sleep(time.Second)
			require.Empty(t, a.ended)
			for _, server := range w.servers {
				server.RefuseWith("", "zadd")
			}
			time.Sleep(5 * time.Second)
			assert.True(t, a.IsLeader(), code)
		})
	}
}

// The lock is acquired, but its term is not recorded: two masters go away in between.
func TestACandidateLeadsOnceItsTermIsOnRecord(t *testing.T) {
	inBubble(t, func(w *world) {
		for _, server := range w.servers[:2] {
			server.OnCommand(func(c fakeredis.Command) {
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

// record is what a Watch has told.
type record struct {
	mu  sync.Mutex // guards the field below
	all []election.Leader
}

// watches begins a Watch. It ends with the test.
func (c *candidate) watches() *record {
	ctx, cancel := context.WithCancel(ctx)
	r := &record{}
	var over sync.WaitGroup
	over.Go(func() {
		for leader := range c.Watch(ctx) {
			r.mu.Lock()
			r.all = append(r.all, leader)
			r.mu.Unlock()
		}
	})
	c.w.t.Cleanup(func() { cancel(); over.Wait() })
	return r
}

// told returns what was told so far.
func (r *record) told() []election.Leader {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// judge asserts that a Watch that began before the first stint told each of them, in order.
func (r *record) judge(t *testing.T, stints []stint) {
	t.Helper()
	var terms []int64
	ids := map[int64]string{}
	for _, leader := range r.told() {
		if leader.Term != 0 && (len(terms) == 0 || leader.Term != terms[len(terms)-1]) {
			terms = append(terms, leader.Term)
			ids[leader.Term] = leader.ID
		}
	}
	assert.True(t, slices.IsSorted(terms), "%v", terms)
	assert.Len(t, slices.Compact(terms), len(ids))
	for _, s := range stints {
		assert.Equal(t, s.id, ids[s.term], "term %d", s.term)
	}
}

func TestWatchTellsEveryTermHoweverShort(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.stranger("watcher").watches()
		turn := []*candidate{w.candidate("a"), w.candidate("b"), w.candidate("c")}
		for i := range 100 {
			leader, next := turn[i%3], turn[(i+1)%3]
			require.True(t, leader.IsLeader(), "candidates lead in turn")
			began := time.Now()
			require.NoError(t, leader.Resign(ctx))
			assert.False(t, leader.IsLeader())
			w.leads(next)
			assert.Less(t, time.Since(began), 20*time.Millisecond)
		}
		for _, c := range turn {
			c.end()
		}
		time.Sleep(3 * time.Second)
		stints := w.led()
		require.GreaterOrEqual(t, len(stints), 101)
		for _, s := range stints[:100] {
			assert.ErrorIs(t, s.cause, election.ErrResigned)
		}
		assert.Less(t, stints[99].to.Sub(stints[0].from), 2*time.Second, "many in a second")
		r.judge(t, stints)
		told := r.told()
		assert.Zero(t, told[0], "nobody at first")
		assert.Zero(t, told[len(told)-1], "nobody in the end")
	})
}

// The counter that gave the leader its term ends long before its leadership does, and one master's
// clock is wrong when the next one is elected. Then there are more terms than masters keep.
func TestTermsGrowAndAreAllToldBehindALongLeadership(t *testing.T) {
	const kept, terms = 256, 276 // as the documentation says, and more
	inBubble(t, func(w *world) {
		a, watcher := w.candidate("a"), w.stranger("c")
		ctx, cancel := context.WithCancel(ctx)
		var told []int64
		var watching sync.WaitGroup
		watching.Go(func() {
			for leader := range watcher.Watch(ctx) {
				if leader.Term != 0 {
					told = append(told, leader.Term)
				}
			}
		})
		time.Sleep(11 * time.Minute)
		require.True(t, a.IsLeader())
		for _, server := range w.servers {
			_, _, there := server.Get("redquorum:fence:" + name)
			assert.False(t, there, "the counter has ended")
			_, _, there = server.Get(termKey)
			assert.True(t, there, "and the record goes on")
		}
		w.servers[0].SetClock(-time.Hour, 1)
		b := w.candidate("b")
		for range terms {
			leader, _ := w.leads(a, b)
			require.NoError(t, leader.Resign(ctx))
		}
		w.leads(a, b)
		time.Sleep(2 * time.Second)
		cancel()
		watching.Wait()
		var led []int64
		for _, s := range w.led() { // asserts that terms grew
			led = append(led, s.term)
		}
		assert.Greater(t, len(led), terms)
		assert.Equal(t, led, told)
		most := int64(0)
		for _, server := range w.servers {
			most = max(most, server.Do(t, "ZCARD", termKey).(int64))
		}
		assert.EqualValues(t, kept, most)
	})
}

func TestWatchAsksOnceASecond(t *testing.T) {
	inBubble(t, func(w *world) {
		w.stranger("watcher").watches()
		began, scripts := len(w.servers[0].Commands()), 0
		time.Sleep(10 * time.Second)
		for _, command := range w.servers[0].Commands()[began:] {
			if slices.Contains(command.Args, name) {
				scripts++
			}
		}
		assert.InDelta(t, 10, scripts, 1)
	})
}

func TestWatchTellsOfItsOwnElectionAtOnce(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.stranger("a")
		r := a.watches()
		time.Sleep(100 * time.Millisecond)
		a.runs(nil) // waits for 10 ms
		require.Len(t, r.told(), 2)
		assert.Equal(t, "a", r.told()[1].ID)
		a.end()
		time.Sleep(10 * time.Millisecond)
		require.Len(t, r.told(), 3)
		assert.Zero(t, r.told()[2])
	})
}

// Candidates lead, resign, are cut off and come back, and masters are away, at random. At most one
// leads at any moment, terms grow, and Watch tells every term.
func TestOneLeadsAndWatchTellsAllUnderRandomFaults(t *testing.T) {
	for seed := range 8 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(w *world) {
				rng := rand.New(rand.NewPCG(uint64(seed), 0))
				r := w.stranger("watcher").watches()
				var all []*candidate
				for i := range 4 {
					all = append(all, w.candidate(fmt.Sprint(i)))
				}
				for range 40 {
					w.disturb(rng, all)
				}
				for _, c := range all {
					c.cable.set(false)
				}
				time.Sleep(10 * time.Second) // the last term is recorded everywhere
				stints := w.led()
				assert.Greater(t, len(stints), 3)
				r.judge(t, stints)
			})
		})
	}
}

// disturb does something at random.
func (w *world) disturb(rng *rand.Rand, all []*candidate) {
	upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	time.Sleep(upTo(400 * time.Millisecond))
	c := all[rng.IntN(len(all))]
	switch rng.IntN(5) {
	case 0, 1:
		for _, c := range all {
			if c.IsLeader() {
				_ = c.Resign(ctx) //nolint:errcheck // it may be cut off
			}
		}
	case 2:
		c.cable.set(true)
	case 3:
		c.cable.set(false)
	case 4:
		server := w.servers[rng.IntN(len(w.servers))]
		server.Mute(true)
		time.Sleep(upTo(time.Second))
		server.Mute(false)
	}
}
