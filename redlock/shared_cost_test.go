package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock"
)

// sent counts those that the servers got since an instant, by the server that got the most and
// in total, without handshakes and extensions.
func (c *cluster) sent(since clock.Instant) (most, total int) {
	for _, server := range c.servers {
		n := 0
		for _, command := range server.Commands() {
			if command.At > since && !ofHandshake(command.Args) {
				n++
			}
		}
		most, total = max(most, n), total+n
	}
	return most, total
}

// While a lock is held for long, those that wait for it ask now and then, because messages may be
// lost. A writer behind readers and a reader behind a writer ask their pilot as a writer behind a
// writer does. A writer behind readers also renews its intents.
func TestReadersAndWritersPollNoHarderThanThoseOfAMutex(t *testing.T) {
	type acquire func(*redlock.Locker) func(context.Context, string, ...redlock.LockOption) (*redlock.Lock, error)
	read := func(l *redlock.Locker) func(context.Context, string, ...redlock.LockOption) (*redlock.Lock, error) {
		return l.RLock
	}
	write := func(l *redlock.Locker) func(context.Context, string, ...redlock.LockOption) (*redlock.Lock, error) {
		return l.Lock
	}
	counts := func(holds, waits acquire) (most, total int) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			c.slow(time.Millisecond)
			l := c.locker(redlock.WithTTL(time.Hour), redlock.WithMaxTTL(time.Hour))
			lock, err := holds(l)(ctx, "a")
			require.NoError(t, err)
			got := waitingFor(t, waits(c.renewing()))
			time.Sleep(time.Second)
			began := c.clock.Now()
			time.Sleep(time.Minute)
			most, total = c.sent(began)
			require.NoError(t, lock.Unlock(ctx))
			lock = <-got
			require.NoError(t, lock.Unlock(ctx))
		})
		return most, total
	}
	mutex, _ := counts(write, write)
	behindWriter, all := counts(write, read)
	t.Log("mutex", mutex, "reader behind a writer", behindWriter, all)
	assert.InDelta(t, mutex, behindWriter, 15)
	behindReader, all := counts(read, write)
	t.Log("writer behind a reader", behindReader, all)
	assert.InDelta(t, mutex, behindReader, 15)
	assert.LessOrEqual(t, all, 3*(mutex+15), "an intent at each other node for each poll")
}

// More wait than one release serves.
func TestManyReadersOfOneNameWaitAndAreServedTogether(t *testing.T) {
	const readers = 200
	for _, nodes := range []int{3, 5} { // with fewer, the turns of other libraries come in between
		inBubble(t, nodes, func(t *testing.T, c *cluster) {
			const latency = 2 * time.Millisecond
			c.slow(latency)
			var lockers []*redlock.Locker
			for range 4 {
				lockers = append(lockers, c.renewing())
			}
			writer, err := lockers[0].TryLock(ctx, "a")
			require.NoError(t, err)
			got := make(chan *redlock.Lock, readers)
			for i := range readers {
				go func() {
					lock, err := lockers[i%len(lockers)].RLock(ctx, "a")
					assert.NoError(t, err)
					got <- lock
				}()
			}
			time.Sleep(5 * time.Second)
			require.Empty(t, got)
			began := c.clock.Now()
			require.NoError(t, writer.Unlock(ctx))
			var locks []*redlock.Lock
			for range readers {
				locks = append(locks, <-got)
			}
			took := c.clock.Now().Sub(began)
			t.Log(nodes, "nodes:", took)
			assert.Less(t, took, 12*latency, "a few round trips")
			next := waitingFor(t, lockers[1].Lock)
			time.Sleep(30 * time.Second)
			for _, lock := range locks {
				require.NoError(t, lock.Verify(ctx), "all are renewed")
			}
			for _, lock := range locks[1:] {
				require.NoError(t, lock.Unlock(ctx))
			}
			require.Empty(t, next)
			began = c.clock.Now()
			require.NoError(t, locks[0].Unlock(ctx))
			lock := <-next
			assert.Less(t, c.clock.Now().Sub(began), 6*latency)
			require.NoError(t, lock.Unlock(ctx))
			settle()
			assert.Zero(t, c.keys())
		})
	}
}
