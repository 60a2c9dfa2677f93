package admin_test

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
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// Whatever masters wait for, one that only looks does not do it. A client does.
func TestWhoOnlyLooksChangesNothing(t *testing.T) {
	rewrite := func(c *cluster, i int, old, by string) {
		text, _, _ := c.Servers[i].Get(pipeline.MemoryKey)
		require.Contains(c.T, text, old)
		c.Do(i, "SET", pipeline.MemoryKey, strings.Replace(text, old, by, 1))
	}
	for name, begin := range map[string]func(c *cluster){
		"new masters": func(*cluster) {},
		"masters of no cluster": func(c *cluster) {
			for i := range c.Servers {
				c.Admit(i, virtual.MaxTTL)
				text, _, _ := c.Servers[i].Get(pipeline.MemoryKey)
				rest, _, _ := strings.Cut(text, " cluster=")
				c.Do(i, "SET", pipeline.MemoryKey, rest)
				c.Do(i, "DEL", pipeline.RegisterKey)
			}
		},
		"one that forgot": func(c *cluster) { c.Limit(virtual.MaxTTL); c.Do(2, "FLUSHALL") },
		"one that waited": func(c *cluster) {
			c.Limit(virtual.MaxTTL)
			rewrite(c, 2, "active", "lost until 1")
			rewrite(c, 2, " version=1.first", " life=1")
		},
		"a life that is over": func(c *cluster) {
			c.Limit(virtual.MaxTTL)
			rewrite(c, 0, " version", " lives="+virtual.MemberID("node2:6379")+":1.A version")
		},
		"a life to be shown":    func(c *cluster) { c.Limit(virtual.MaxTTL); rewrite(c, 2, " version", " life=1 version") },
		"one with another disk": func(c *cluster) { c.Limit(virtual.MaxTTL); c.Servers[2].Save(); c.Servers[2].RestartFromSnapshot() },
		"one to be told": func(c *cluster) {
			c.Limit(virtual.MaxTTL)
			rewrite(c, 2, " version=1.first", fmt.Sprintf(" joined=%d", c.Clock.Wall().UnixMilli()))
		},
		"twins": func(c *cluster) {
			c.Limit(virtual.MaxTTL)
			one, _, _ := c.Servers[0].Get(pipeline.MemoryKey)
			two, _, _ := c.Servers[1].Get(pipeline.MemoryKey)
			rewrite(c, 1, strings.Fields(two)[1], strings.Fields(one)[1])
		},
	} {
		t.Run(name, func(t *testing.T) {
			inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
				begin(c)
				state := func() [][]string { return [][]string{c.Holders(pipeline.MemoryKey), c.Holders(pipeline.RegisterKey)} }
				before := state()
				looks := c.Locker(door.OnlyLooks.(redlock.Option), redlock.WithMaxTTL(2*virtual.MaxTTL))
				for range 3 {
					_, _ = admin.Of(looks).Inspect(ctx, "a")      //nolint:errcheck // a quorum may not vote
					_, _ = admin.Of(looks).Cluster().Members(ctx) //nolint:errcheck // as above
					time.Sleep(virtual.MaxTTL)
				}
				require.Equal(t, before, state())
				c.Locker(redlock.WithMaxTTL(2 * virtual.MaxTTL))
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
				opts := []redlock.Option{redlock.WithQuarantine(mode), redlock.WithMaxTTL(virtual.MaxTTL)}
				refuse := func(text string) { c.Each(func(n *fakeredis.Node) { n.RefuseWith(text, "INFO") }) }
				refuse("NOPERM")
				l := c.Renewing(opts...)
				if mode == redlock.QuarantineAuto {
					lock := c.Lock(l, "held")
					defer func() { require.NoError(t, lock.Err()) }()
				}
				before := c.Holders(pipeline.MemoryKey)

				refuse("")
				operator := c.Locker(opts...)
				_, err := operator.TryLock(ctx, "a")
				require.ErrorContains(t, err, "written by users who may not use INFO")
				time.Sleep(virtual.MaxTTL / 2)
				require.Equal(t, before, c.Holders(pipeline.MemoryKey))
				refuse("NOPERM")
				time.Sleep(virtual.MaxTTL/2 + 10*time.Millisecond)
				c.Unlock(c.Lock(l, "a"), c.Lock(operator, "b")) // what they may have forgotten has expired
				c.Unlock(c.Lock(c.Locker(opts...), "a"))
			})
		})
	}
}
