package scenario_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// Other processes that hold a lock, and are stopped or killed.

// childTTL is the TTL of their locks. A busy machine may stop them for a while.
const childTTL = 2 * time.Second

// on returns the arguments of a role: what it needs, and the endpoints of the masters.
func on(c *cluster.Cluster, args ...string) []string { return append(args, c.URLs()...) }

// childLocker is the Locker of a child.
func childLocker(self *child.Self, urls []string, opts ...redlock.Option) *redlock.Locker {
	l, err := redlock.New(urls, append([]redlock.Option{redlock.WithTTL(childTTL), redlock.WithNodeTimeout(childTTL / 4)}, opts...)...)
	require.NoError(self, err)
	return l
}

// playHolder holds the lock of a name, and answers each line with a line.
func playHolder(self *child.Self) {
	lock, err := childLocker(self, self.Args[1:]).Lock(ctx, self.Args[0])
	require.NoError(self, err)
	self.Tell("held", lock.Value())
	for line := range self.Heard() {
		switch line {
		case "look":
			self.Tell(lock.Err())
		case "remaining":
			self.Tell(lock.Remaining() > 0)
		case "extend":
			self.Tell(lock.Extend(ctx, childTTL))
		case "unlock":
			self.Tell(lock.Unlock(ctx))
		}
	}
}

// A process that was stopped beyond its TTL says at once that the lock is lost, whichever call it
// makes first. What it then does to the lock touches nobody else's key.
func TestHoldingEndsInAProcessThatWasStoppedForTooLong(t *testing.T) {
	t.Parallel()
	c, monitors := monitored(t)
	l := connected(t, c.URLs(), redlock.WithRetry(time.Millisecond, 10*time.Millisecond))
	const lost = "redlock: lock lost"
	for first, want := range map[string]string{"look": lost, "remaining": "false", "extend": lost, "unlock": lost} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			name := cluster.LockName(t)
			holder := child.Start(t, child.Command("holder", on(c, name)...))
			require.Contains(t, holder.Next(t), "held ")
			must(t, holder.Stop())
			lock, err := l.Lock(t.Context(), name)
			require.NoError(t, err)
			// Also on a node where the key of the first holder lives a little longer.
			await(t, "the lock is on all nodes", func() bool {
				require.NoError(t, lock.Extend(t.Context(), longTTL))
				return c.Holding(t, name, lock.Value()) == len(c.Masters)
			})
			// Every node answers this after everything that was sent before.
			_, err = l.Inspect(t.Context(), name)
			require.NoError(t, err)
			before := harmDone(monitors, name)
			must(t, holder.Continue())
			assert.Contains(t, holder.Ask(t, first), want, "at the first look")
			for _, late := range []string{"look", "extend", "unlock", "extend", "unlock"} {
				assert.Contains(t, holder.Ask(t, late), lost, late)
			}
			assert.Equal(t, 5, c.Holding(t, name, lock.Value()))
			assert.Equal(t, before, harmDone(monitors, name))
			require.NoError(t, lock.Verify(t.Context()))
			give(t, lock)
		})
	}
}

// harmDone returns what was written to a key. A SET NX does no harm.
func harmDone(monitors []*redistest.Monitor, key string) (lines []string) {
	for _, m := range monitors {
		m.Sync()
		for _, harm := range []string{"SET", "DEL", "PEXPIRE"} {
			lines = append(lines, slices.DeleteFunc(m.Matching(fmt.Sprintf("%q %q", harm, key)), func(line string) bool {
				return strings.Contains(line, `"NX" "PX"`)
			})...)
		}
	}
	return lines
}

// A holder dies without a word. The next waiter gets the lock as its key expires, and until then
// nobody keeps asking the nodes.
func TestLockOfADeadHolderIsHadAsItExpires(t *testing.T) {
	t.Parallel()
	c, monitors := monitored(t)
	var waiters []*redlock.Locker
	for range 3 {
		// A poll comes too late to rescue a waiter that sleeps past the expiry.
		waiters = append(waiters, connected(t, c.URLs(), redlock.WithRetry(aMinute, aMinute)))
	}
	var lateness []time.Duration
	for range sizeOf(t, 2, 100) {
		holder := child.Start(t, child.Command("holder", on(c, cluster.LockName(t))...))
		require.Contains(t, holder.Next(t), "held ")
		got := make(chan time.Time, len(waiters))
		for _, l := range waiters {
			go func() {
				lock, err := l.Lock(t.Context(), cluster.LockName(t))
				got <- time.Now()
				if assert.NoError(t, err) {
					assert.NoError(t, lock.Unlock(t.Context()))
				}
			}()
		}
		await(t, "all know the holder", func() bool { return c.Waiting(t, cluster.LockName(t)) == len(waiters) })
		for _, m := range monitors {
			m.Sync()
			m.Clear()
		}
		began := time.Now()
		must(t, holder.Kill())
		expiry := expiry(t, c, cluster.LockName(t))
		first := <-got
		lateness = append(lateness, first.Sub(expiry))
		for _, m := range monitors {
			m.Sync()
			for client, n := range sentBetween(t, m, began, expiry) {
				assert.LessOrEqual(t, n, int(expiry.Sub(began)/(100*time.Millisecond))+1, "%s sends more than one each 100 ms", client)
			}
		}
		for range len(waiters) - 1 {
			<-got
		}
	}
	t.Logf("lateness: %v", lateness)
	assert.LessOrEqual(t, slices.Max(lateness), slack)
	cluster.RequireClean(t, c.Masters...)
}

// expiry returns when a quorum of nodes will have forgotten a key.
func expiry(t *testing.T, c *cluster.Cluster, key string) time.Time {
	t.Helper()
	var at []time.Time
	for _, m := range c.Masters {
		left, err := redis.Int64(m.Do("PTTL", key))
		require.NoError(t, err)
		at = append(at, time.Now().Add(time.Duration(left)*time.Millisecond))
	}
	slices.SortFunc(at, time.Time.Compare)
	return at[len(at)/2]
}

// sentBetween returns how many commands each client sent to a server between two instants. It does
// not count what a test asks, what keeps a connection alive, or what scripts do.
func sentBetween(t *testing.T, m *redistest.Monitor, from, to time.Time) map[string]int {
	t.Helper()
	sent := make(map[string]int)
	for _, line := range m.Lines() { // 1700000000.123456 [0 127.0.0.1:50000] "SET" "key" "value"
		stamp, rest, _ := strings.Cut(line, " ")
		client, command, _ := strings.Cut(rest, "] ")
		seconds, err := strconv.ParseFloat(stamp, 64)
		require.NoError(t, err)
		at := time.UnixMicro(int64(seconds * 1e6))
		if at.Before(from) || at.After(to) || strings.HasSuffix(client, " lua") {
			continue
		}
		if strings.HasPrefix(command, `"EVAL`) || strings.HasPrefix(command, `"SET"`) {
			sent[client]++
		}
	}
	return sent
}
