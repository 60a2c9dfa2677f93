package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

func TestReadersShareALockAndExcludeWriters(t *testing.T) {
	for _, nodes := range []int{1, 3, 5} {
		inBubble(t, nodes, func(t *testing.T, c *cluster) {
			a, b := c.Locker(), c.Locker()
			readers := []*redlock.Lock{c.Read(a), c.Read(a), c.Read(b)}
			virtual.Settle()
			assert.Equal(t, []string{wire.Marker}, uniq(c.Holders("a")))
			for _, reader := range readers {
				c.Taken(b, "a")
				require.NoError(t, reader.Verify(ctx))
				c.Unlock(reader)
				virtual.Settle()
			}
			assert.Zero(t, c.Keys())
			writer := c.Lock(b, "a")
			_, err := a.TryRLock(ctx, "a")
			require.ErrorIs(t, err, redlock.ErrTaken)
			c.Unlock(writer)
			c.Unlock(c.Read(a))
			c.LeavesNothing(0) // not even of what was refused
		})
	}
}

// intent lets all nodes know that a writer waits, as they do when it announces itself.
func (c *cluster) intent(writer string, life time.Duration) {
	c.T.Helper()
	c.Set("redquorum:intent:a", writer, life)
}

func TestReadersOfALockAreRefusedByAWritersIntent(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Renewing(redlock.WithTTL(time.Second))
		first := c.Read(l)
		c.intent("a writer's", 5*time.Second)
		_, err := l.TryRLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrTaken)
		time.Sleep(3 * time.Second)
		require.NoError(t, first.Err(), "a reader goes on")
		time.Sleep(3 * time.Second)
		c.Unlock(c.Read(l), first)
	})
}

func TestAReaderThatDiedCostsItsOwnTTLWhateverOthersRenew(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		dying := c.Read(c.Locker(), redlock.WithTTL(20*time.Second))
		l := c.Renewing(redlock.WithTTL(time.Second))
		living := c.Read(l)
		time.Sleep(10 * time.Second)
		c.Unlock(living)
		c.Taken(l, "a")
		living = c.Read(l)
		time.Sleep(11 * time.Second)
		require.ErrorIs(t, dying.Err(), redlock.ErrLost)
		c.Unlock(living)
		c.Unlock(c.Lock(l, "a")) // the dead reader is gone with the last one that lives
	})
}

func TestReadersAreNotAdoptedNorIsTheirMarker(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.Locker()
		reader := c.Read(l, redlock.WithOwner("me"))
		_, err := l.Adopt(ctx, "a", reader.Value())
		require.Error(t, err)
		_, err = l.Adopt(ctx, "a", wire.Marker)
		require.ErrorIs(t, err, redlock.ErrInvalid)
		require.NoError(t, reader.Verify(ctx))
	})
}

// The marker ends with the reader that lives longest: earlier, a writer would come in beside that
// reader; later, nobody would hold the name that it keeps.
func TestTheMarkerLivesAsLongAsTheReaderThatLivesLongest(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker()
		lives := func(want time.Duration) {
			t.Helper()
			virtual.Settle()
			for _, server := range c.Servers {
				value, left, _ := server.Get("a")
				assert.Equal(t, wire.Marker, value)
				assert.InDelta(t, want, left, float64(2*time.Millisecond))
			}
		}
		first := c.Read(l, redlock.WithTTL(3*time.Second))
		lives(3 * time.Second)
		second := c.Read(l, redlock.WithTTL(time.Second))
		lives(3 * time.Second)
		require.NoError(t, second.Extend(ctx, 5*time.Second))
		lives(5 * time.Second)
		require.NoError(t, first.Extend(ctx, 2*time.Second))
		lives(5 * time.Second)
		c.Unlock(second)
		lives(2 * time.Second)
	})
}

// A reader that has expired is not one of those that stay.
func TestTheLastReaderThatLivesHandsTheNameOver(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Slow(time.Millisecond)
		l := c.Locker()
		reader := c.Read(l, redlock.WithTTL(20*time.Second))
		for i := range c.Servers { // as if it had read until now, and had died
			c.Do(i, "ZADD", "redquorum:readers:a", c.Clock.Wall().Add(time.Second).UnixMilli(), "DEAD")
		}
		writer := c.Waiting(c.Locker(), "a")
		time.Sleep(2 * time.Second)
		c.Unlock(reader)
		c.Unlock(<-writer)
		assert.NotZero(t, l.Stats().HandedOver)
	})
}

func TestTokensOrderReadersAndWritersWhateverClocksShow(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		lockers := []*redlock.Locker{c.fencing(0), c.fencing(time.Hour), c.fencing(-time.Hour)}
		var write, reads int64
		for i := range 30 {
			down := c.Servers[i%5]
			down.Stop()
			l := lockers[i%len(lockers)]
			if i%4 == 0 {
				write = c.fenced(l, max(write, reads))
				assert.LessOrEqual(t, c.ahead(write).Abs(), 11*time.Second, "kept near the nodes' time")
			} else {
				one, two := c.Read(l), c.Read(lockers[(i+1)%len(lockers)])
				for _, reader := range []*redlock.Lock{one, two} {
					assert.GreaterOrEqual(t, reader.Fence(), write)
					reads = max(reads, reader.Fence())
				}
				c.Unlock(one, two)
			}
			down.Continue()
			virtual.Settle()
		}
		for _, l := range lockers {
			assert.LessOrEqual(t, l.Stats().SecondRounds, l.Stats().Acquired, "one round trip more at most")
		}
	})
}

// Another reader leaves in the last millisecond of the one that lives longest.
func TestAReaderKeepsItsLastMillisecond(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l, other := c.Locker(redlock.WithDrift(0, 0)), c.Locker(redlock.WithDrift(0, 0))
		// 0.9 ms of a millisecond of the node are over.
		time.Sleep(time.Millisecond - time.Duration(c.Clock.Wall().UnixNano()%1e6) + 900*time.Microsecond)
		first, second := c.Read(l, redlock.WithTTL(20*time.Millisecond)), c.Read(other)
		time.Sleep(19*time.Millisecond + 200*time.Microsecond)
		c.Unlock(second)
		require.NoError(t, first.Err())
		c.Taken(other, "a")
	})
}
