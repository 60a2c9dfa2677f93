package admin_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/door"
	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// log returns the log, without the process that wrote it.
func (c *cluster) log(l *redlock.Locker) (lines []string) {
	c.T.Helper()
	entries, err := door.Of(l).ReadLog(ctx, "")
	require.NoError(c.T, err)
	for _, e := range entries {
		assert.WithinDuration(c.T, c.Clock.Wall(), time.UnixMilli(e.Millis), time.Hour)
		assert.Contains(c.T, e.By, fmt.Sprintf(":%d ", os.Getpid()))
		lines = append(lines, strings.Join([]string{e.Kind, e.Key, e.Holder, e.Why}, ", "))
	}
	return lines
}

func TestTheLogTellsOfForcedReleasesAndOfLosses(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l, operator := c.Renewing(redlock.WithKeyPrefix("p:"), redlock.WithOwner("me")), c.Locker(redlock.WithKeyPrefix("p:"))
		c.Servers[0].Stop() // a master that is away keeps nobody from it
		lock := c.Lock(l, "a")
		time.Sleep(time.Second)
		taken, err := door.Of(operator).Force(ctx, "a", "its host burns", nil)
		require.NoError(t, err)
		require.NoError(t, taken.Unlogged)
		assert.Equal(t, lock.Value(), taken.Value)
		assert.LessOrEqual(t, lock.Remaining(), taken.Left, "by then its holder knows")
		assert.InDelta(t, 9, taken.Left.Seconds(), 1)
		<-lock.Done()
		virtual.Settle()
		require.NoError(t, admin.Of(operator).ForceUnlock(ctx, "a"), "and there was nothing to tell")
		c.Servers[0].Continue()
		assert.Equal(t, []string{
			"forced, p:a, me, its host burns", "lost, p:a, me, a quorum of nodes no longer has it: extend: 0 granted, 3 refused, 3 needed",
		}, c.log(l))
	})
}

// The token of a lease of redlock serve is for its holder alone, and the log for everybody.
func TestTheLogDoesNotTellTheTokenOfALease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Renewing(redlock.WithOwner("lease;door=http;from=a:1;owner=w;token=secret"))
		lock := c.Lock(l, "a")
		require.NoError(t, admin.Of(c.Locker()).ForceUnlock(ctx, "a"))
		<-lock.Done()
		virtual.Settle()
		lines := c.log(l)
		require.Len(t, lines, 2)
		for _, line := range lines {
			assert.Contains(t, line, ", a, w (by http, from a:1), ")
		}
	})
}

// Between an operator's look and its release, the lock goes to the next.
func TestAForcedReleaseTakesWhatWasMeant(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		operator := c.Locker()
		force := func(values ...string) error {
			_, err := door.Of(operator).Force(ctx, "a", "gone", values)
			return err
		}
		first := c.Lock(c.Renewing(), "a")
		next := c.Waiting(c.Renewing(), "a")
		virtual.Settle()
		require.ErrorIs(t, force("another"), journal.ErrChanged)
		require.NoError(t, first.Verify(ctx))
		require.NoError(t, force("another", first.Value()), "the next one has it now")
		second := <-next
		require.ErrorIs(t, force(first.Value()), journal.ErrChanged)
		require.NoError(t, second.Verify(ctx), "nobody meant it")
		c.Set("a", "what a minority has", time.Minute, 2)
		require.NoError(t, force(second.Value()))
		assert.Equal(t, []byte("what a minority has"), c.Do(2, "GET", "a"), "it is another attempt's")
		require.NoError(t, force("free"), "and nobody holds it")
	})
}

// Two operators want the same. A version is one line, however many had it chosen.
func TestTheLogTellsHowTheMembersChanged(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		l, other := c.Among([]int{0, 1, 2}), c.Among([]int{0, 1, 2})
		for _, change := range []operation{add(3), setMaxTTL(2 * virtual.MaxTTL), remove(0)} {
			done := c.Ending(func() error { return change(admin.Of(other).Cluster(), c.Within(time.Minute)) })
			c.change(l, change)
			if err := <-done; err != nil {
				require.ErrorIs(t, err, redlock.ErrNotMember, "it is removed already")
			}
		}
		lines := c.log(l)
		require.Len(t, lines, 3)
		id, _, _ := strings.Cut(strings.TrimPrefix(lines[0], "added, , , member "), ",")
		assert.Equal(t, []string{
			"added, , , member " + id + ", redis://node3:6379; version 2, 4 members",
			"max-ttl, , , from 10s to 20s; version 3, 4 members",
			"removed, , , member redis://node0:6379, redis://node0:6379; version 4, 3 members",
		}, lines)
	})
}

func TestTheLogIsBounded(t *testing.T) {
	const kept, size = 256, 1024 // as the documentation says
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker()
		var locks []*redlock.Lock
		for i := range 50 {
			locks = append(locks, c.Lock(l, fmt.Sprint(i)))
		}
		time.Sleep(2 * time.Minute) // all are lost at once
		<-locks[49].Done()
		virtual.Settle()
		assert.Len(t, c.log(l), 8, "a Locker does not write when the masters have other things to do")
		last := c.Lock(l, "last", redlock.WithTTL(time.Second))
		time.Sleep(time.Minute)
		<-last.Done()
		virtual.Settle()
		lines := c.log(l)
		assert.Contains(t, lines[len(lines)-1], "lost, last, ")
		assert.Contains(t, lines[len(lines)-1], "(and before it, 42 others of this process)")

		for i := range kept {
			e := journal.Entry{Kind: "x", Why: fmt.Sprint(i, strings.Repeat("\x00é", 1000))}
			require.NoError(t, door.Of(l).WriteLog(ctx, e))
			time.Sleep(time.Millisecond)
		}
		lines = c.log(l)
		assert.Len(t, lines, kept)
		assert.False(t, slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "lost") }), "the oldest went")
		for i := range c.Servers {
			entries := c.Do(i, "ZRANGE", virtual.LogKey, 0, -1).([]any)
			assert.Len(t, entries, kept)
			for _, entry := range entries {
				assert.LessOrEqual(t, len(entry.([]byte)), size)
			}
			assert.InDelta(t, 90*24*3600*1000, c.Do(i, "PTTL", virtual.LogKey), 60_000)
		}
	})
}

// An ACL need not allow the log.
func TestWithoutTheLogEverythingElseWorks(t *testing.T) {
	for _, refused := range []string{"ZADD", "ZPOPMIN", "ZCARD"} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.Renewing()
			for _, server := range c.Servers {
				server.RefuseWith("NOPERM no permissions", refused)
			}
			for range 20 {
				lock := c.Lock(l, "a")
				taken, err := door.Of(l).Force(ctx, "a", "", nil)
				require.NoError(t, err)
				if refused != "ZPOPMIN" { // which is needed once the log is full
					require.ErrorContains(t, taken.Unlogged, "NOPERM")
				}
				<-lock.Done()
				virtual.Settle()
			}
			c.Unlock(c.Lock(l, "a"))
			c.change(l, setMaxTTL(virtual.MaxTTL))
		})
	}
}

func TestAForcedReleaseIsInTheLogWhoeverAnswersFirst(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l, operator := c.Locker(redlock.WithOwner("me")), c.Locker()
		c.Lock(l, "a")
		virtual.Settle()
		c.Del("a", 2) // this one does not have it
		c.Each(virtual.Delaying(time.Millisecond, time.Millisecond), 0)
		c.Each(virtual.Delaying(5*time.Millisecond, 5*time.Millisecond), 1)
		require.NoError(t, admin.Of(operator).ForceUnlock(ctx, "a"))
		time.Sleep(time.Second)
		lines := c.log(operator)
		require.NotEmpty(t, lines)
		assert.True(t, strings.HasPrefix(lines[0], "forced, a, me"), lines[0])
	})
}

// A master whose clock was ahead, or that got an entry of the far future, keeps what comes next.
func TestTheLogKeepsTheNewestAlsoAfterAClockWasSetBack(t *testing.T) {
	ahead := func(c *cluster) { c.Servers[0].SetClock(24*time.Hour, 1) }
	for name, before := range map[string]func(c *cluster){
		"it was ahead":       ahead,
		"it was far ahead":   func(c *cluster) { c.Servers[0].SetClock(20*365*24*time.Hour, 1) },
		"it stepped back":    func(*cluster) {},
		"others wrote to it": func(c *cluster) { c.Do(0, "ZADD", virtual.LogKey, "inf", "theirs", "1e300", "theirs as well") },
	} {
		runBubble(t, name, 3, func(t *testing.T, c *cluster) {
			write := door.Of(c.Locker()).WriteLog
			fill := func(kind string, n int) {
				for i := range n {
					require.NoError(t, write(ctx, journal.Entry{Kind: kind, ID: fmt.Sprintf("%s%03d", kind, n-i)}))
				}
				virtual.Settle()
			}
			before(c)
			fill("old", journal.Kept)
			c.Servers[0].SetClock(-time.Minute, 1)
			fill("new", 20)
			newest := fmt.Sprint(c.log(c.Locker()))
			assert.Equal(t, 20, strings.Count(newest, "new"))
			kept := c.Do(0, "ZRANGE", virtual.LogKey, 0, -1).([]any)
			assert.Len(t, kept, journal.Kept)
			text := fmt.Sprintf("%s", kept)
			assert.Equal(t, 20, strings.Count(text, `"kind":"new"`), "that master has them all")
			assert.Less(t, strings.Index(text, "new020"), strings.Index(text, "new001"), "in the order in which they came")
		})
	}
}
