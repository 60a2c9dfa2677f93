package admin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/door"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// tears are ways for a member to have its marker, and not what its marker was written with.
var tears = map[string]func(c *cluster, i int){
	"no list":          func(c *cluster, i int) { c.Do(i, "DEL", pipeline.RegisterKey) },
	"another list":     func(c *cluster, i int) { c.edit(i, pipeline.RegisterKey, "\n1.first ", "\n1.other ") },
	"of another":       func(c *cluster, i int) { c.edit(i, pipeline.RegisterKey, " C ", " D ") },
	"an older marker":  func(c *cluster, i int) { c.edit(i, pipeline.RegisterKey, "\n1.first ", "\n2.later ") },
	"a part of a list": func(c *cluster, i int) { c.Do(i, "SET", pipeline.RegisterKey, "1700000000000\n1.first") },
	"something else":   func(c *cluster, i int) { c.Do(i, "SET", pipeline.RegisterKey, "hello") },
	"of another type": func(c *cluster, i int) {
		c.Do(i, "DEL", pipeline.RegisterKey)
		c.Do(i, "ZADD", pipeline.RegisterKey, 1, "x")
	},
	"no list, restarts": func(c *cluster, i int) { c.Do(i, "DEL", pipeline.RegisterKey); c.Servers[i].Restart(true) },
}

// edit changes a text at a master, as another one would have it.
func (c *cluster) edit(i int, key, before, after string) {
	text, _, _ := c.Servers[i].Get(key)
	require.Contains(c.T, text, before)
	c.Do(i, "SET", key, strings.Replace(text, before, after, 1))
}

// Whatever a part of the members lost, and who notices, they wait and are a cluster again. What
// vouched for their memory does so no more.
func TestMastersThatLostAPartOfTheirKeysFindTheirWayBack(t *testing.T) {
	for name, tear := range tears {
		for torn := range 4 {
			for _, knew := range []bool{true, false} {
				runCluster(t, fmt.Sprintf("%s/%d of 3/knew %v", name, torn, knew), 3, 0, func(t *testing.T, c *cluster) {
					c.Durable()
					before := c.Among([]int{0, 1, 2})
					c.Unlock(c.Lock(before, "a"))
					if !knew {
						require.NoError(t, before.Close())
					}
					for i := range torn {
						text, _, _ := c.Servers[i].Get(pipeline.MemoryKey)
						believed := strings.Join(strings.Fields(text)[:2], " ")
						tear(c, i)
						c.Servers[i].OnChange(func(change fakeredis.Change) {
							assert.False(t, change.Key == pipeline.MemoryKey && strings.HasPrefix(change.New, believed), "it is believed: %s", change.New)
						})
					}
					c.Each((*fakeredis.Node).Disconnect, 0, 1, 2)
					l := before
					if !knew {
						l = c.Among([]int{0, 1, 2})
					}
					time.Sleep(3 * virtual.MaxTTL)
					c.Unlock(c.Lock(l, "a"))
					c.heals(l)
				})
			}
		}
	}
}

// Who only looks says so, and leaves it as it is.
func TestWhoLooksSaysThatAMasterLostAPartOfItsKeys(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		for i := range 3 {
			tears["no list"](c, i)
		}
		before := c.places()
		l := c.Among([]int{0, 1, 2}, door.OnlyLooks.(redlock.Option))
		time.Sleep(virtual.MaxTTL)
		for _, node := range l.Stats().Nodes {
			assert.ErrorContains(t, node.Barred, "it lost its list of members, and so a part of its keys")
		}
		assert.Equal(t, before, c.places())
	})
}
