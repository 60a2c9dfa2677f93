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
)

// record is what a Watch has told.
type record struct {
	mu  sync.Mutex // guards the field below
	all []election.Leader
}

// watch begins a Watch of its own. It ends with the test.
func (w *world) watch() *record {
	w.t.Helper()
	l, _ := w.locker()
	return w.watchWith(w.election(l, "watcher"))
}

func (w *world) watchWith(e *election.Election) *record {
	ctx, cancel := context.WithCancel(ctx)
	r := &record{}
	var over sync.WaitGroup
	over.Go(func() {
		for leader := range e.Watch(ctx) {
			r.mu.Lock()
			r.all = append(r.all, leader)
			r.mu.Unlock()
		}
	})
	w.t.Cleanup(func() { cancel(); over.Wait() })
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
	inBubble(t, func(t *testing.T, w *world) {
		r := w.watch()
		all := []*candidate{w.candidate("a"), w.candidate("b"), w.candidate("c")}
		for range 100 {
			leader, _ := w.leads(all...)
			require.NoError(t, leader.Resign(ctx))
		}
		for _, c := range all {
			c.end()
		}
		time.Sleep(3 * time.Second)
		stints := w.led()
		require.GreaterOrEqual(t, len(stints), 100)
		assert.Less(t, stints[99].to.Sub(stints[0].from), 2*time.Second, "many in a second")
		r.judge(t, stints)
		told := r.told()
		assert.Zero(t, told[0], "nobody at first")
		assert.Zero(t, told[len(told)-1], "nobody in the end")
	})
}

func TestWatchBeginsWithTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.candidate("a")
		r := w.watch()
		time.Sleep(10 * time.Second)
		told := r.told()
		require.Len(t, told, 1)
		assert.Equal(t, "a", told[0].ID)
		assert.Equal(t, w.last().term, told[0].Term)
		assert.Positive(t, told[0].Until)
	})
}

func TestWatchTellsOfItsOwnElectionAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, cable := w.locker()
		e := w.election(l, "a")
		r := w.watchWith(e)
		time.Sleep(100 * time.Millisecond)
		a := w.run(e, "a", cable, nil) // waits for 10 ms
		require.Len(t, r.told(), 2)
		assert.Equal(t, "a", r.told()[1].ID)
		a.end()
		time.Sleep(10 * time.Millisecond)
		require.Len(t, r.told(), 3)
		assert.Zero(t, r.told()[2])
	})
}

func TestWatchAsksOnceASecond(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.watch()
		began := len(w.servers[0].Commands())
		time.Sleep(10 * time.Second)
		var scripts int
		for _, command := range w.servers[0].Commands()[began:] {
			if slices.Contains(command.Args, name) {
				scripts++
			}
		}
		assert.InDelta(t, 10, scripts, 1)
	})
}

func TestWatchEndsWithItsLoop(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.candidate("a")
		for leader := range a.Watch(ctx) {
			assert.Equal(t, "a", leader.ID)
			break
		}
	})
}

// Candidates lead, resign, are cut off and come back, and masters are away, at random. At most one
// leads at any moment, terms grow, and Watch tells every term.
func TestOneLeadsAndWatchTellsAllUnderRandomFaults(t *testing.T) {
	for seed := range 8 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				rng := rand.New(rand.NewPCG(uint64(seed), 0))
				r := w.watch()
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
	time.Sleep(upTo(rng, 400*time.Millisecond))
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
		time.Sleep(upTo(rng, time.Second))
		server.Mute(false)
	}
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
