package scenario_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
