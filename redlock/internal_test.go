package redlock

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock/internal/handoff"
)

// Waiters of the same age, each with a place at every node, are in another order on each list.
// Their votes split at the first hand-over. Then they get into one order, and need no standoff.
func TestWaitersOfTheSameAgeDoNotSplitTheirVotesAgainAndAgain(t *testing.T) {
	const waiters, held = 16, 500 * time.Millisecond // so a standoff lasts 60 to 100 ms
	fake.InBubble(t, 5, func(t *testing.T, clk *clocktest.Clock, servers fake.Cluster) {
		open := func() *Locker {
			l, err := New(servers.Endpoints(), WithClock(clk), WithPool(pool.WithDialer(servers.Dial)))
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, l.Close()) })
			require.NoError(t, l.Ready(t.Context()))
			return l
		}
		first, err := open().TryLock(t.Context(), "a")
		require.NoError(t, err)
		var lockers [waiters]*Locker
		for i := range lockers {
			lockers[i] = open()
		}
		for _, server := range servers {
			delay := func() time.Duration { return 100*time.Microsecond + rand.N(time.Millisecond) }
			server.Delay(delay, delay)
		}
		var all sync.WaitGroup
		for _, l := range lockers {
			names := []string{"a"}
			w := newWaiter(l, names, handoff.NameOf(names), &l.config.lock, clk.Now())
			w.overtaken = maxOvertaken
			all.Go(func() {
				assert.Nil(t, l.desk.Queue.Join(w.queue))
				defer l.desk.Queue.Leave(w.queue, nil)
				lock, err := w.seek(t.Context())
				if assert.NoError(t, err) {
					assert.NoError(t, lock.Unlock(t.Context()))
				}
			})
		}
		time.Sleep(held)
		began := clk.Now()
		assert.NoError(t, first.Unlock(t.Context()))
		all.Wait()
		took := clk.Now().Sub(began)
		t.Log("all had it after", took)
		// About two standoffs. With one or more per hand-over, it took 2.1 to 20 s.
		assert.Less(t, took, 1500*time.Millisecond)
	})
}

func TestStateMovesAlongItsEdgesOnly(t *testing.T) {
	states := []state{held, released, lost}
	allowed := map[[2]state]bool{{held, released}: true, {held, lost}: true}
	for _, from := range states {
		for _, to := range states {
			t.Run(fmt.Sprintf("%v to %v", from, to), func(t *testing.T) {
				s := from
				if allowed[[2]state{from, to}] {
					s.move(to)
					assert.Equal(t, to, s)
					return
				}
				assert.Panics(t, func() { s.move(to) })
				assert.Equal(t, from, s)
			})
		}
	}
}
