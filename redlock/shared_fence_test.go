package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

func TestAReadersTokenIsTheTimeAndTakesNoSecondRound(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithFencing())
		wall := c.clock.Wall().UnixMicro()
		one, two := read(t, l, "a"), read(t, l, "a")
		assert.Equal(t, wall, one.Fence())
		assert.GreaterOrEqual(t, two.Fence(), wall)
		require.NoError(t, l.UnlockAll(ctx))
		assert.Zero(t, l.Stats().SecondRounds)
	})
}

func TestTokensOrderReadersAndWritersWhateverClocksShow(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		lockers := []*redlock.Locker{c.fencing(0), c.fencing(time.Hour), c.fencing(-time.Hour)}
		var write, reads int64
		for i := range 30 {
			down := c.servers[i%5]
			down.Stop()
			l := lockers[i%len(lockers)]
			if i%4 == 0 {
				write = c.fenced(l, max(write, reads))
				assert.LessOrEqual(t, c.ahead(write).Abs(), 11*time.Second, "kept near the nodes' time")
			} else {
				one, two := read(t, l, "a"), read(t, lockers[(i+1)%len(lockers)], "a")
				for _, reader := range []*redlock.Lock{one, two} {
					assert.GreaterOrEqual(t, reader.Fence(), write)
					reads = max(reads, reader.Fence())
				}
				c.unlock(one, two)
			}
			down.Continue()
			settle()
		}
		for _, l := range lockers {
			assert.LessOrEqual(t, l.Stats().SecondRounds, l.Stats().Acquired, "one round trip more at most")
		}
	})
}

// The quorum is one node that is ahead, and one that must be raised.
func TestAReaderRaisesTheNodesThatAreBehindIt(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		ahead := c.clock.Wall().Add(9 * time.Second).UnixMicro()
		c.do(0, "SET", "redquorum:fence:a", ahead)
		c.servers[2].Stop()
		l := c.locker(redlock.WithFencing())
		one, two := read(t, l, "a"), read(t, l, "a")
		assert.Equal(t, ahead, one.Fence())
		assert.Equal(t, ahead, two.Fence(), "readers may have equal tokens")
		assert.Equal(t, []int64{ahead, ahead}, c.fences("a")[:2])
		assert.EqualValues(t, 1, l.Stats().SecondRounds)
		require.NoError(t, l.UnlockAll(ctx))
		c.servers[2].Continue()
		settle()
	})
}

func TestAReaderLeavesANodeWithAWrongClockOut(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		far := c.clock.Wall().Add(time.Hour).UnixMicro()
		c.do(0, "SET", "redquorum:fence:a", far)
		l := c.locker(redlock.WithFencing())
		wall := c.clock.Wall()
		reader := read(t, l, "a")
		assert.WithinDuration(t, wall, time.UnixMicro(reader.Fence()), time.Second)
		require.NoError(t, reader.Unlock(ctx))
		settle()
		c.servers[2].Stop()
		_, err := l.TryRLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		c.servers[2].Continue()
		settle()
		assert.Empty(t, uniq(c.holders("a"))[0])
	})
}
