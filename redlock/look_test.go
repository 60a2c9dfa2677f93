package redlock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/door"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock"
)

// Whatever masters wait for, one that only looks does not do it. A client does.
func TestWhoOnlyLooksChangesNothing(t *testing.T) {
	rewrite := func(c *cluster, i int, old, by string) {
		text, _, _ := c.servers[i].Get(pipeline.MemoryKey)
		require.Contains(c.t, text, old)
		c.do(i, "SET", pipeline.MemoryKey, strings.Replace(text, old, by, 1))
	}
	for name, begin := range map[string]func(c *cluster){
		"new masters": func(*cluster) {},
		"masters of no cluster": func(c *cluster) {
			for i := range c.servers {
				c.admit(i, maxTTL)
				text, _, _ := c.servers[i].Get(pipeline.MemoryKey)
				rest, _, _ := strings.Cut(text, " cluster=")
				c.do(i, "SET", pipeline.MemoryKey, rest)
				c.do(i, "DEL", membersKey)
			}
		},
		"one that forgot": func(c *cluster) { c.limit(maxTTL); c.do(2, "FLUSHALL") },
		"one that waited": func(c *cluster) {
			c.limit(maxTTL)
			rewrite(c, 2, "active", "lost until 1")
			rewrite(c, 2, " version=1.first", " life=1")
		},
		"a life that is over": func(c *cluster) {
			c.limit(maxTTL)
			rewrite(c, 0, " version", " lives="+memberID("node2:6379")+":1.A version")
		},
		"a life to be shown":    func(c *cluster) { c.limit(maxTTL); rewrite(c, 2, " version", " life=1 version") },
		"one with another disk": func(c *cluster) { c.limit(maxTTL); c.servers[2].Save(); c.servers[2].RestartFromSnapshot() },
		"one to be told": func(c *cluster) {
			c.limit(maxTTL)
			rewrite(c, 2, " version=1.first", fmt.Sprintf(" joined=%d", c.clock.Wall().UnixMilli()))
		},
		"twins": func(c *cluster) {
			c.limit(maxTTL)
			one, _, _ := c.servers[0].Get(pipeline.MemoryKey)
			two, _, _ := c.servers[1].Get(pipeline.MemoryKey)
			rewrite(c, 1, strings.Fields(two)[1], strings.Fields(one)[1])
		},
	} {
		t.Run(name, func(t *testing.T) {
			inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
				begin(c)
				state := func() [][]string { return [][]string{c.holders(pipeline.MemoryKey), c.holders(membersKey)} }
				before := state()
				looks := c.locker(door.OnlyLooks.(redlock.Option), redlock.WithMaxTTL(2*maxTTL))
				for range 3 {
					_, _ = admin.Of(looks).Inspect(ctx, "a")      //nolint:errcheck // a quorum may not vote
					_, _ = admin.Of(looks).Cluster().Members(ctx) //nolint:errcheck // as above
					time.Sleep(maxTTL)
				}
				require.Equal(t, before, state())
				c.locker(redlock.WithMaxTTL(2 * maxTTL))
				time.Sleep(time.Second)
				assert.NotEqual(t, before, state())
			})
		})
	}
}

// An operator may have rights that the fleet lacks. What it can see on top says nothing about what
// the masters were given before it came, so it waits, and leaves the markers of the others alone.
func TestALookWithFurtherRightsChangesNothing(t *testing.T) {
	for name, mode := range map[string]redlock.Quarantine{"masters that vote": redlock.QuarantineAuto, "masters that wait": redlock.QuarantineStrict} {
		t.Run(name, func(t *testing.T) {
			inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
				opts := []redlock.Option{redlock.WithQuarantine(mode), redlock.WithMaxTTL(maxTTL)}
				refuse := func(text string) { c.each(func(n *fakeredis.Node) { n.RefuseWith(text, "INFO") }) }
				refuse("NOPERM")
				l := c.renewing(opts...)
				if mode == redlock.QuarantineAuto {
					lock := c.lock(l, "held")
					defer func() { require.NoError(t, lock.Err()) }()
				}
				before := c.holders(pipeline.MemoryKey)

				refuse("")
				operator := c.locker(opts...)
				_, err := operator.TryLock(ctx, "a")
				require.ErrorContains(t, err, "written by users who may not use INFO")
				time.Sleep(maxTTL / 2)
				require.Equal(t, before, c.holders(pipeline.MemoryKey))
				refuse("NOPERM")
				time.Sleep(maxTTL/2 + 10*time.Millisecond)
				c.unlock(c.lock(l, "a"), c.lock(operator, "b")) // what they may have forgotten has expired
				c.unlock(c.lock(c.locker(opts...), "a"))
			})
		})
	}
}
