//go:build linux

package scenario_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// latestAfterExpiry is how late the next holder may be. It is usually some milliseconds late. A
// poll comes later, so it cannot rescue a waiter that sleeps past the expiry.
const latestAfterExpiry = slack

// A holder dies without a word. The next waiter gets the lock as its key expires, and until then
// nobody keeps asking the nodes.
func TestTheLockOfAHolderThatDiedIsHadAsItExpires(t *testing.T) {
	if name := os.Getenv(childName); name != "" {
		runChild(t, name, strings.Split(os.Getenv(childNodes), ","))
		return
	}
	t.Parallel()
	c := cluster.Start(t, 5)
	var monitors []*redistest.Monitor
	for _, m := range c.Masters {
		monitors = append(monitors, m.(*redistest.Server).Monitor(t))
	}
	var waiters []*redlock.Locker
	for range 3 {
		waiters = append(waiters, cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience),
			redlock.WithRetry(4*slack, 4*slack)))
	}
	var lateness []time.Duration
	most := 0
	for range sizeOf(t, 5, 100) {
		holder := startChild(t, c.URLs())
		require.Contains(t, holder.answer(), "held ")
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
		cluster.Eventually(t, slack, func() string { // all know the holder
			if n := c.Waiting(t, cluster.LockName(t)); n < len(waiters) {
				return fmt.Sprint(n, " wait")
			}
			return ""
		})
		for _, m := range monitors {
			m.Sync()
			m.Clear()
		}
		began := time.Now()
		holder.signal(syscall.SIGKILL)
		expiry := expiry(t, c, cluster.LockName(t))
		first := <-got
		lateness = append(lateness, first.Sub(expiry))
		for _, m := range monitors {
			m.Sync()
			for _, n := range sentBetween(t, m, began, expiry) {
				most = max(most, n)
				assert.LessOrEqual(t, n, int(expiry.Sub(began)/(100*time.Millisecond))+1, "more than one each 100 ms")
			}
		}
		for range len(waiters) - 1 {
			<-got
		}
	}
	slices.Sort(lateness)
	t.Logf("lateness: median %v, maximum %v; a client sent %d commands at most", lateness[len(lateness)/2], lateness[len(lateness)-1], most)
	assert.LessOrEqual(t, lateness[len(lateness)-1], latestAfterExpiry)
	cluster.RequireClean(t, c.Masters...)
}

// expiry returns when a quorum of nodes will have forgotten a key.
func expiry(t *testing.T, c *cluster.Cluster, key string) time.Time {
	t.Helper()
	var at []time.Time
	for _, m := range c.Masters {
		left, err := m.Do("PTTL", key)
		require.NoError(t, err)
		at = append(at, time.Now().Add(time.Duration(left.(int64))*time.Millisecond))
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
