package redlock_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// read acquires a shared lock.
func read(t *testing.T, l *redlock.Locker, name string, opts ...redlock.LockOption) *redlock.Lock {
	t.Helper()
	lock, err := l.TryRLock(ctx, name, opts...)
	require.NoError(t, err)
	assert.True(t, lock.Shared())
	synctest.Wait() // all nodes have it: who comes next meets it at the pilot
	return lock
}

func TestReadersShareALockAndExcludeWriters(t *testing.T) {
	for _, nodes := range []int{1, 3, 5} {
		inBubble(t, nodes, func(t *testing.T, c *cluster) {
			a, b := c.locker(), c.locker()
			one, two, three := read(t, a, "a"), read(t, a, "a"), read(t, b, "a")
			settle()
			assert.Equal(t, []string{wire.Marker}, uniq(c.holders("a")))
			for _, reader := range []*redlock.Lock{one, two, three} {
				_, err := b.TryLock(ctx, "a")
				require.ErrorIs(t, err, redlock.ErrTaken)
				require.NoError(t, reader.Verify(ctx))
				require.NoError(t, reader.Unlock(ctx))
				require.ErrorIs(t, reader.Err(), redlock.ErrReleased)
				settle()
			}
			assert.Zero(t, c.keys())
			writer, err := b.TryLock(ctx, "a")
			require.NoError(t, err)
			assert.False(t, writer.Shared())
			_, err = a.TryRLock(ctx, "a")
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.NoError(t, writer.Unlock(ctx))
			require.NoError(t, read(t, a, "a").Unlock(ctx))
			settle()
			assert.Zero(t, c.keys(), "what was refused has left nothing")
		})
	}
}

func TestReadersOfALockAreRefusedByAWritersIntent(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(time.Second))
		first := read(t, l, "a")
		for i := range c.servers {
			c.do(i, "SET", "redquorum:intent:a", "a writer's", "PX", 5000)
		}
		_, err := l.TryRLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrTaken)
		time.Sleep(3 * time.Second)
		require.NoError(t, first.Err(), "a reader goes on")
		time.Sleep(3 * time.Second)
		require.NoError(t, read(t, l, "a").Unlock(ctx))
		require.NoError(t, first.Unlock(ctx))
	})
}

func TestReadersAndMutexesAreRenewedByOneScript(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(30 * time.Second))
		var readers []*redlock.Lock
		for i := range 50 {
			readers = append(readers, read(t, l, "shared"))
			_, err := l.TryLock(ctx, fmt.Sprint(i))
			require.NoError(t, err)
		}
		settle()
		before := c.clock.Now()
		time.Sleep(time.Minute)
		assert.Equal(t, 100, l.Stats().Held)
		assert.Zero(t, l.Stats().Lost)
		scripts, mixed := 0, false
		for _, command := range c.servers[0].Commands() {
			if command.At > before && command.Args[0] == "EVALSHA" {
				scripts++
				mixed = mixed || slices.Contains(command.Args, "30000") && slices.Contains(command.Args, "+30000")
			}
		}
		assert.True(t, mixed, "both in one script")
		assert.LessOrEqual(t, scripts, 36, "6 renewals of 100 locks, and some left over")
		for _, reader := range readers {
			require.NoError(t, reader.Verify(ctx))
		}
		require.NoError(t, l.UnlockAll(ctx))
		settle()
		assert.Zero(t, c.keys())
	})
}

func TestAReaderThatDiedCostsItsOwnTTLWhateverOthersRenew(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		dying := read(t, c.locker(), "a", redlock.WithTTL(20*time.Second))
		l := c.renewing(redlock.WithTTL(time.Second))
		living := read(t, l, "a")
		time.Sleep(10 * time.Second)
		require.NoError(t, living.Unlock(ctx))
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrTaken)
		living = read(t, l, "a")
		time.Sleep(11 * time.Second)
		require.ErrorIs(t, dying.Err(), redlock.ErrLost)
		require.NoError(t, living.Unlock(ctx))
		writer, err := l.TryLock(ctx, "a")
		require.NoError(t, err, "the dead reader is gone with the last one that lives")
		require.NoError(t, writer.Unlock(ctx))
	})
}

func TestAReaderIsExtendedAndHealed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithTTL(10 * time.Second))
		reader, other := read(t, l, "a"), read(t, l, "a")
		settle()
		c.do(0, "DEL", "a")
		require.NoError(t, reader.Extend(ctx, 20*time.Second))
		settle()
		assert.Greater(t, reader.Remaining(), 19*time.Second)
		assert.Equal(t, []string{wire.Marker}, uniq(c.holders("a")), "healed on the first node")
		time.Sleep(12 * time.Second)
		require.NoError(t, reader.Verify(ctx))
		require.ErrorIs(t, other.Err(), redlock.ErrLost)
		assert.EqualValues(t, 1, c.do(0, "ZCARD", "redquorum:readers:a"))
		c.do(0, "DEL", "a")
		c.do(1, "DEL", "a")
		require.ErrorIs(t, reader.Verify(ctx), redlock.ErrLost)
		settle()
		assert.Equal(t, []string{""}, uniq(c.holders("a")))
	})
}

func TestALostReaderLeavesNothingBehind(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithTTL(time.Second))
		c.servers[0].Stop()
		reader := read(t, l, "a")
		settle()
		require.NoError(t, l.ForceUnlock(ctx, "a"))
		require.ErrorIs(t, reader.Extend(ctx, time.Second), redlock.ErrLost, "a quorum says so, and sets it again")
		c.servers[0].Continue()
		settle()
		assert.Zero(t, c.keys())
		writer, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		require.NoError(t, writer.Unlock(ctx))
	})
}

func TestReadersHaveNoValueOrMinimumHoldOfTheirOwnAndAreNotAdopted(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.locker()
		for _, opt := range []redlock.LockOption{redlock.WithValue("mine"), redlock.WithMinHold(time.Second)} {
			_, err := l.TryRLock(ctx, "a", opt)
			require.ErrorIs(t, err, redlock.ErrInvalid)
		}
		_, err := l.TryRLock(ctx, "")
		require.ErrorIs(t, err, redlock.ErrInvalid)
		reader := read(t, l, "a", redlock.WithOwner("me"))
		for _, value := range []string{wire.Marker, reader.Value()} {
			_, err := l.Adopt(ctx, "a", value)
			require.Error(t, err, value)
		}
		_, err = l.Adopt(ctx, "a", wire.Marker)
		require.ErrorIs(t, err, redlock.ErrInvalid)
		_, err = l.TryLock(ctx, "b", redlock.WithValue(wire.Marker))
		require.ErrorIs(t, err, redlock.ErrInvalid)
		_, err = l.TryLock(ctx, "b", redlock.WithValue(wire.Marker[:26]), redlock.WithOwner(wire.Marker[27:]))
		require.ErrorIs(t, err, redlock.ErrInvalid)
		require.NoError(t, reader.Verify(ctx))
		require.NoError(t, reader.Unlock(ctx))
	})
}

func TestInspectShowsReaders(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		one := read(t, l, "a", redlock.WithOwner("me"), redlock.WithTTL(5*time.Second))
		two := read(t, l, "a", redlock.WithTTL(7*time.Second))
		settle()
		status, err := l.Inspect(ctx, "a")
		require.NoError(t, err)
		assert.Equal(t, "readers", status.Owner)
		assert.False(t, status.Free)
		for _, node := range status.Nodes {
			require.Len(t, node.Readers, 2)
			for i, reader := range []*redlock.Lock{one, two} {
				assert.Equal(t, reader.Value(), node.Readers[i].Value)
				assert.InDelta(t, reader.Remaining(), node.Readers[i].TTL, float64(time.Second))
			}
			assert.Equal(t, "me", node.Readers[0].Owner)
		}
		require.NoError(t, l.UnlockAll(ctx))
		writer, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		status, err = l.Inspect(ctx, "a")
		require.NoError(t, err)
		assert.Equal(t, writer.Value(), status.Value)
		assert.Empty(t, status.Nodes[0].Readers)
	})
}

// The marker ends with the reader that lives longest: earlier, a writer would come in beside that
// reader; later, nobody would hold the name that it keeps.
func TestTheMarkerLivesAsLongAsTheReaderThatLivesLongest(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		lives := func(want time.Duration) {
			t.Helper()
			settle()
			for _, server := range c.servers {
				value, left, _ := server.Get("a")
				assert.Equal(t, wire.Marker, value)
				assert.InDelta(t, want, left, float64(2*time.Millisecond))
			}
		}
		first := read(t, l, "a", redlock.WithTTL(3*time.Second))
		lives(3 * time.Second)
		second := read(t, l, "a", redlock.WithTTL(time.Second))
		lives(3 * time.Second)
		require.NoError(t, second.Extend(ctx, 5*time.Second))
		lives(5 * time.Second)
		require.NoError(t, first.Extend(ctx, 2*time.Second))
		lives(5 * time.Second)
		require.NoError(t, second.Unlock(ctx))
		lives(2 * time.Second)
	})
}

// A reader that has expired is not one of those that stay.
func TestTheLastReaderThatLivesHandsTheNameOver(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		a, b := c.locker(), c.locker()
		reader := read(t, a, "a", redlock.WithTTL(20*time.Second))
		for i := range c.servers { // as if it had read until now, and had died
			c.do(i, "ZADD", "redquorum:readers:a", c.clock.Wall().Add(time.Second).UnixMilli(), "DEAD")
		}
		writer := waitingFor(t, b.Lock)
		time.Sleep(2 * time.Second)
		require.NoError(t, reader.Unlock(ctx))
		require.NoError(t, (<-writer).Unlock(ctx))
		assert.NotZero(t, a.Stats().HandedOver)
	})
}
