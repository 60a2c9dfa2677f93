package redlock_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

func TestCloseReleasesWhatIsHeldAndEndsWhatRuns(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithTTL(time.Minute))
		var locks []*redlock.Lock
		for i := range 50 {
			lock, err := l.TryLock(ctx, fmt.Sprint(i))
			require.NoError(t, err)
			locks = append(locks, lock)
		}
		assert.Equal(t, 50, l.Stats().Held)
		_, err := c.locker().TryLock(ctx, "busy")
		require.NoError(t, err)
		settle() // wait for the votes after the quorum
		var waiting sync.WaitGroup
		waiting.Go(func() {
			_, err := l.Lock(ctx, "busy")
			assert.ErrorIs(t, err, redlock.ErrClosed)
		})
		waiting.Go(func() {
			for {
				lock, err := l.TryLock(ctx, "loop")
				if err != nil {
					assert.ErrorIs(t, err, redlock.ErrClosed)
					return
				}
				time.Sleep(time.Millisecond)
				if err := lock.Unlock(ctx); err != nil {
					assert.ErrorIs(t, err, redlock.ErrClosed)
				}
			}
		})
		time.Sleep(time.Second)
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		waiting.Wait()
		settle()
		assert.Equal(t, 5, c.keys(), "the other locker's")
		for _, lock := range locks {
			require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
			require.ErrorIs(t, lock.Extend(ctx, time.Second), redlock.ErrClosed)
			require.ErrorIs(t, lock.Verify(ctx), redlock.ErrClosed)
			require.NoError(t, lock.Unlock(ctx), "Close has released it")
		}
		_, err = l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrClosed)
		_, err = l.Lock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.ErrorIs(t, l.Ready(ctx), redlock.ErrClosed)
		for _, server := range c.servers {
			assert.Equal(t, 1, server.Connections(), "the other locker's")
		}
	})
}

func TestCloseIsBoundedWhenNodesAreMute(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker()
		_, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		for _, server := range c.servers {
			server.Stop()
		}
		took := elapsed(func() { require.ErrorIs(t, l.Close(), redlock.ErrUndelivered) })
		assert.LessOrEqual(t, took, 2*time.Second)
		for _, server := range c.servers {
			server.Continue()
		}
	})
}

func TestCloseReleasesMoreThanTheNodesCanQueue(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(time.Minute))
		for i := range 33_500 {
			_, err := l.TryLock(ctx, strconv.Itoa(i))
			require.NoError(t, err)
		}
		require.NoError(t, l.Close())
		settle()
		assert.Zero(t, c.keys())
	})
}

func TestCloseUndoesLocksThatWereLostAtOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(10 * time.Second))
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		time.Sleep(3 * time.Second) // the first renewal is next, and reaches one node of three
		c.servers[0].Kill()
		c.servers[1].Kill()
		<-lock.Done()
		require.ErrorIs(t, lock.Err(), redlock.ErrLost)
		value, _, _ := c.servers[2].Get("a")
		require.Equal(t, lock.Value(), value, "it is undone once the other nodes have forgotten it")
		c.servers[0].Restart(true)
		c.servers[1].Restart(true)
		began := time.Now()
		require.NoError(t, l.Close())
		assert.Less(t, time.Since(began), time.Second+time.Millisecond)
		assert.Empty(t, c.holders("a")[2])
	})
}

// The schedule calls back for lost locks at the very moment when the Locker closes.
func TestCloseUndoesALockThatIsLostAtTheSameTime(t *testing.T) {
	for k := -20; k <= 20; k++ {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.renewing(redlock.WithTTL(10 * time.Second))
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			time.Sleep(3 * time.Second)
			c.servers[0].Kill()
			c.servers[1].Kill()
			<-lock.Done()
			// The undo is due at about this time.
			time.Sleep(102*time.Millisecond + time.Duration(k)*100*time.Microsecond)
			require.ErrorIs(t, l.Close(), redlock.ErrUndelivered, "two nodes are down")
			assert.Empty(t, c.holders("a")[2])
		})
	}
}

func TestCloseWaitsForAReleaseThatANodeHasNotAnswered(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithTTL(time.Minute))
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		settle()
		c.servers[2].Mute(true)
		require.NoError(t, lock.Unlock(ctx))
		time.AfterFunc(time.Second, func() { c.servers[2].Mute(false) })
		require.NoError(t, l.Close())
		assert.Zero(t, c.keys())
	})
}

func TestCloseWaitsForARestartToDeliverARelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithTTL(time.Minute))
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		settle()
		c.servers[2].Kill()
		require.NoError(t, lock.Unlock(ctx))
		time.AfterFunc(400*time.Millisecond, func() { c.servers[2].Restart(true) })
		require.NoError(t, l.Close())
		assert.Zero(t, c.keys())
	})
}

func TestCloseTellsWhichNodesHaveNotAnsweredTheirReleases(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.instantly()
		var log bytes.Buffer
		l := c.locker(redlock.WithTTL(time.Minute), redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		for _, name := range []string{"a", "b"} {
			_, err := l.TryLock(ctx, name)
			require.NoError(t, err)
		}
		settle()
		c.servers[2].Kill()
		settle()
		began := time.Now()
		err := l.Close()
		assert.Equal(t, time.Second, time.Since(began), "Close waits no longer than that")
		require.ErrorIs(t, err, redlock.ErrUndelivered)
		var node *redlock.NodeError
		require.ErrorAs(t, err, &node)
		assert.Equal(t, "redis://node2:6379", node.Endpoint)
		assert.Regexp(t, `^redlock: releases not delivered: redis://node2:6379: 2 of them: `, err.Error())
		assert.NotContains(t, err.Error(), "\n")
		assert.Equal(t, err, l.Close(), "a second call returns the same")
		assert.EqualValues(t, 2, l.Stats().Nodes[2].Dropped)
		assert.Contains(t, log.String(), "not delivered")
	})
}

func TestCloseDoesNotWaitForANodeThatHasNothingOfOurs(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.instantly()
		c.servers[2].Kill()
		l := c.locker(redlock.WithTTL(time.Minute))
		for _, name := range []string{"a", "b"} {
			_, err := l.TryLock(ctx, name)
			require.NoError(t, err)
		}
		settle()
		began := time.Now()
		require.NoError(t, l.Close())
		assert.Zero(t, time.Since(began))
		assert.Zero(t, c.keys())
	})
}

func TestCloseWaitsForWhatAnAdoptionTookToBeGivenBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		holder, adopter := c.locker(), c.locker()
		old, err := holder.TryLock(ctx, "a")
		require.NoError(t, err)
		settle()
		for _, s := range c.servers {
			s.MuteReplies(true)
		}
		_, err = adopter.Adopt(ctx, "a", old.Value())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotContains(t, c.holders("a"), "")
		time.AfterFunc(time.Second, func() {
			for _, s := range c.servers {
				s.MuteReplies(false)
			}
		})
		require.NoError(t, adopter.Close())
		assert.Equal(t, []string{old.Value(), old.Value(), old.Value()}, c.holders("a"))
		assert.Empty(t, c.notes())
	})
}

func TestCloseLeavesTheReleasesOfSharedNodesToThem(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.instantly()
		var nodes []*pool.Node
		for i := range c.servers {
			node, err := pool.NewNode(fmt.Sprintf("node%d:6379", i), pool.WithClock(c.clock), pool.WithDialer(c.dialer()))
			require.NoError(t, err)
			defer node.Close()
			nodes = append(nodes, node)
		}
		l, err := redlock.NewFromNodes(nodes)
		require.NoError(t, err)
		_, err = l.TryLock(ctx, "a")
		require.NoError(t, err)
		settle()
		c.servers[2].Kill()
		settle()
		began := time.Now()
		require.NoError(t, l.Close())
		assert.Zero(t, time.Since(began))
		c.servers[2].Restart(true)
		assert.Zero(t, nodes[2].Drain(ctx))
		assert.Zero(t, c.keys())
	})
}
