package redlock

import (
	"context"
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

// A writer that was overtaken waits at every node. Readers that come meanwhile would share the lock
// with those before them, and there would always be one.
func TestAWriterWithAPlaceAtEveryNodeIsServedWhateverReadersCome(t *testing.T) {
	const hold = 300 * time.Millisecond
	fake.InBubble(t, 3, func(t *testing.T, clk *clocktest.Clock, servers fake.Cluster) {
		open := func() *Locker {
			l, err := New(servers.Endpoints(), WithClock(clk), WithPool(pool.WithDialer(servers.Dial)))
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, l.Close()) })
			require.NoError(t, l.Ready(t.Context()))
			return l
		}
		ending, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for i := range 4 {
			l := open()
			all.Go(func() {
				time.Sleep(time.Duration(i) * hold / 4)
				for ending.Err() == nil {
					if lock, err := l.TryRLock(ending, "a"); err == nil {
						time.Sleep(hold)
						assert.NoError(t, lock.Unlock(t.Context()))
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		time.Sleep(time.Second)
		l := open()
		names := []string{"a"}
		w := newWaiter(l, names, handoff.NameOf(names), &l.config.lock, clk.Now())
		w.overtaken = maxOvertaken
		assert.Nil(t, l.desk.Queue.Join(w.queue))
		began := clk.Now()
		lock, err := w.seek(ending)
		l.desk.Queue.Leave(w.queue, nil)
		if assert.NoError(t, err) {
			assert.Less(t, clk.Now().Sub(began), 2*hold)
			assert.NoError(t, lock.Unlock(t.Context()))
		}
		cancel()
		all.Wait()
	})
}
