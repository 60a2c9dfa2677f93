package admin_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// history returns what is noted of a name, a line each, with times since the masters began.
func (c *cluster) history(l *redlock.Locker, name string) (lines []string) {
	c.T.Helper()
	entries, err := admin.Of(l).History(ctx, name)
	require.NoError(c.T, err)
	for _, e := range entries {
		line := e.Kind + " by " + e.By
		if !e.Began.IsZero() {
			line += fmt.Sprintf(" for %v", e.Time.Sub(e.Began).Round(10*time.Millisecond))
		}
		if e.Times > 1 {
			line += fmt.Sprintf(" (%d times)", e.Times)
		}
		if e.Holder != e.By {
			line += ", " + cmp.Or(e.Holder, "nobody") + " has it"
		}
		lines = append(lines, strings.TrimSuffix(line+": "+e.Why, ": "))
	}
	return lines
}

func noting(owner string) []redlock.Option {
	return []redlock.Option{redlock.WithHistory(), redlock.WithOwner(owner)}
}

func TestTheHistoryOfANameTellsWhoHadItAndWhoDidNot(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.Renewing(noting("a")...), c.Renewing(noting("b")...)
		lock := c.Lock(a, "job")
		time.Sleep(1500 * time.Millisecond)
		assert.Equal(t, []string{"began by a for 0s"}, c.history(b, "job"), "it runs")
		time.Sleep(time.Minute)
		_, err := b.TryLock(ctx, "job")
		require.ErrorIs(t, err, redlock.ErrTaken)
		virtual.Settle()
		refused := "refused by b for 0s, a has it: taken: acquire: 0 granted, 2 refused, 2 needed"
		entries, err := admin.Of(b).History(ctx, "job")
		require.NoError(t, err)
		require.Len(t, entries, 2)
		assert.WithinDuration(t, entries[0].Began, entries[1].Since, time.Second, "since when it was held")
		_, err = b.Lock(c.Within(5*time.Second), "job")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		c.Unlock(lock)
		require.NoError(t, b.Close(), "and Close writes what is left")
		time.Sleep(time.Second)
		lines := c.history(a, "job")
		require.Len(t, lines, 3)
		assert.Equal(t, []string{"ran by a for 1m6.5s", refused}, lines[:2], "one entry, at the place of its beginning")
		assert.True(t, strings.HasPrefix(lines[2], "refused by b for 5s, nobody has it: taken: acquire"), lines[2])
		assert.Empty(t, c.history(a, "another"))
	})
}

func TestTheHistoryTellsHowLocksEndedOtherwise(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l, operator := c.Renewing(noting("me")...), c.Locker()
		limited := c.Lock(l, "limited", redlock.WithMaxHold(5*time.Second))
		forced := c.Lock(l, "forced")
		time.Sleep(2 * time.Second)
		require.NoError(t, admin.Of(operator).Because("it hangs").ForceUnlock(ctx, "forced"))
		<-limited.Done()
		<-forced.Done()
		time.Sleep(2 * time.Second)
		assert.Equal(t, []string{"cut by me for 5s: its maximum hold has ended"}, c.history(operator, "limited"))
		by := fmt.Sprintf("forced by %s, me has it: it hangs", c.process(operator, "forced"))
		lost := "s: a quorum of nodes no longer has it: extend: 0 granted, 2 refused, 2 needed"
		lines := c.history(operator, "forced")
		require.Len(t, lines, 2, "the loss is in it once, although the log of all names has it, too")
		assert.Contains(t, lines, by)
		assert.Contains(t, strings.Join(lines, "\n"), lost)
	})
}

// process returns who forced a release.
func (c *cluster) process(l *redlock.Locker, name string) (by string) {
	entries, err := admin.Of(l).History(ctx, name)
	require.NoError(c.T, err)
	for _, e := range entries {
		if e.Kind == admin.KindForced {
			by = e.By
		}
	}
	assert.Contains(c.T, by, fmt.Sprintf(":%d ", os.Getpid()))
	return by
}

func TestTheHistoryTellsWhichMastersDidNotAnswer(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Renewing(noting("me")...)
		c.Servers[1].Stop()
		c.Servers[2].Stop()
		for range 10 {
			_, err := l.TryLock(ctx, "job")
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			time.Sleep(10 * time.Second)
		}
		c.Servers[1].Continue()
		c.Servers[2].Continue()
		time.Sleep(time.Minute)
		lines := c.history(l, "job")
		require.NotEmpty(t, lines)
		assert.Contains(t, lines[0], "no-quorum by me")
		assert.Contains(t, lines[0], "redis://node1:6379: ")
		assert.Contains(t, lines[0], "redis://node2:6379: ")
		assert.Contains(t, strings.Join(lines, "\n"), "times)", "one a minute, which counts the others")
		assert.LessOrEqual(t, len(lines), 3)
	})
}

// While all masters are down, notes stay with the Locker.
func TestTheHistoryTellsOfAnOutageOfAllMasters(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Renewing(noting("me")...)
		for _, server := range c.Servers {
			server.Stop()
		}
		time.Sleep(time.Minute)
		_, err := l.TryLock(ctx, "job")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		time.Sleep(time.Minute)
		for _, server := range c.Servers {
			server.Continue()
		}
		time.Sleep(time.Minute)
		lines := c.history(l, "job")
		require.Len(t, lines, 1)
		assert.Contains(t, lines[0], "no-quorum by me")
		assert.Zero(t, l.Stats().HistoryDropped)
	})
}

// Masters can tell who has a lock for as long as it has it: the first miss of a name is not kept
// until other notes are sent.
func TestTheFirstMissOfANameIsNotedAtOnceBesideOthers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.Renewing(noting("a")...), c.Locker(noting("b")...)
		miss := func(name string) {
			_, err := b.TryLock(ctx, name)
			require.ErrorIs(t, err, redlock.ErrTaken)
		}
		c.Lock(a, "long")
		miss("long")
		time.Sleep(1500 * time.Millisecond)
		short := c.Lock(a, "short")
		miss("short")
		virtual.Settle()
		c.Unlock(short)
		lines := c.history(a, "short")
		require.Len(t, lines, 1)
		assert.Contains(t, lines[0], "refused by b for 0s, a has it")

		time.Sleep(time.Minute)
		for i := range 300 {
			c.Lock(a, fmt.Sprint(i))
		}
		time.Sleep(time.Minute)
		before := c.Commands()
		for i := range 300 {
			miss(fmt.Sprint(i))
		}
		virtual.Settle()
		attempts := 2 * 3 * 300
		assert.InDelta(t, 3*64, c.Commands()-before-attempts, 3, "no more than so many in a second")
	})
}

// What one master has is enough; without a majority, something may be missing.
func TestTheHistoryIsThatOfAllMasters(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker(noting("me")...)
		for i := range 3 {
			c.Unlock(c.Lock(l, "job"))
			time.Sleep(2 * time.Second)
			c.Del("redquorum:log:job", i)
		}
		assert.Len(t, c.history(l, "job"), 2, "the first has two, the second one, and the last none")
		c.Servers[0].Stop()
		c.Servers[2].Stop()
		entries, err := admin.Of(l).History(ctx, "job")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.Len(t, entries, 1)
	})
}

// Whoever locks a name all the time has the newest of its runs, and nobody waits for them.
func TestNotesThatAreTooManyAreDroppedAndCounted(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker(noting("me")...)
		time.Sleep(time.Second)
		before := c.Commands()
		for range 1000 {
			c.Unlock(c.Lock(l, "hot"))
		}
		virtual.Settle()
		assert.Equal(t, before+3*2*1000, c.Commands(), "SET and release, as without a history")
		time.Sleep(2 * time.Second)
		lines := c.history(l, "hot")
		assert.Len(t, lines, 8)
		assert.Equal(t, uint64(1000-8), l.Stats().HistoryDropped)
	})
}

// Whoever locks many names at once has the history of all in a while, or of 72 if it is closed.
func TestNotesOfManyNamesWait(t *testing.T) {
	for closed, most := range map[bool]int{false: 250, true: 72} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l, reader := c.Locker(noting("me")...), c.Locker()
			for i := range 250 {
				c.Unlock(c.Lock(l, fmt.Sprint(i)))
			}
			noted := func() (names int) {
				for i := range 250 {
					names += len(c.history(reader, fmt.Sprint(i)))
				}
				return names
			}
			if closed {
				require.NoError(t, l.Close())
			} else {
				time.Sleep(1500 * time.Millisecond)
				assert.InDelta(t, 64, noted(), 8)
				time.Sleep(4 * time.Second)
			}
			assert.Equal(t, most, noted())
			assert.Equal(t, uint64(250-most), l.Stats().HistoryDropped)
		})
	}
}

func TestAMasterWithoutTheHistoryLocksAllTheSame(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Renewing(noting("me")...)
		for _, server := range c.Servers {
			server.RefuseWith("NOPERM no permissions", "ZADD")
		}
		lock := c.Lock(l, "job")
		time.Sleep(time.Minute)
		c.Unlock(lock)
		time.Sleep(2 * time.Second)
		assert.Empty(t, c.history(l, "job"))
		assert.Equal(t, uint64(2), l.Stats().HistoryDropped)
	})
}

// A prefix counts.
func TestTheLongestNameThatHasAHistory(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker(append(noting("me"), redlock.WithKeyPrefix("p:"))...)
		for length, runs := range map[int]int{1024: 1, 1025: 0} {
			name := strings.Repeat("n", length-len("p:"))
			c.Unlock(c.Lock(l, name))
			time.Sleep(2 * time.Second)
			assert.Len(t, c.history(l, name), runs, "%d bytes", length)
		}
		assert.Zero(t, l.Stats().HistoryDropped)
	})
}

func TestAHistoryWithoutANameIsRefused(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for _, name := range []string{"", strings.Repeat("n", 5000), "redquorum:x"} {
			_, err := admin.Of(c.Locker()).History(ctx, name)
			require.True(t, errors.Is(err, redlock.ErrInvalid), name)
		}
	})
}
