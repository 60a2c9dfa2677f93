package admin_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/door"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// heardPassword returns the nodes that were sent a password.
func (c *cluster) heardPassword() (nodes []int) {
	for i, server := range c.Servers {
		if slices.ContainsFunc(server.Commands(), func(cmd fakeredis.Command) bool { return cmd.Args[0] == "AUTH" }) {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// Whoever may lock may change the masters' list, so that is not the configuration of a client.
func TestAPasswordGoesToNoHostThatOnlyTheMastersName(t *testing.T) {
	list := []string{"redis://default:secret@node0", "redis://default:secret@node1"}
	for name, test := range map[string]struct {
		opts  []redlock.Option
		heard []int
	}{
		"by default":  {nil, []int{0, 1}},
		"that looks":  {[]redlock.Option{door.OnlyLooks.(redlock.Option)}, []int{0, 1}},
		"trusted":     {[]redlock.Option{redlock.WithMemberCredentials()}, []int{0, 1, 2}},
		"not to look": {[]redlock.Option{redlock.WithoutDiscovery(), redlock.WithMemberCredentials()}, []int{0, 1}},
	} {
		runCluster(t, name, 3, 0, func(t *testing.T, c *cluster) {
			l := c.LockerOf(list, append(test.opts, redlock.WithMaxTTL(virtual.MaxTTL))...)
			time.Sleep(10 * time.Second)
			assert.Equal(t, test.heard, c.heardPassword())
			require.NoError(t, l.Ready(ctx), "a majority is listed")
			if name == "not to look" || name == "trusted" {
				return
			}
			nodes := l.Stats().Nodes
			require.Len(t, nodes, 3)
			assert.Equal(t, pool.Down, nodes[2].State)
			require.ErrorIs(t, nodes[2].Err, pool.ErrUntrusted)
			c.Servers[1].Kill()
			time.Sleep(10 * time.Second)
			err := l.Ready(c.Within(time.Second))
			require.ErrorIs(t, err, redlock.ErrNoQuorum, "it counts as silent")
			require.ErrorIs(t, err, pool.ErrUntrusted)
		})
	}
}

// A running client learns of a new member behind a vote.
func TestAPasswordGoesToAMemberThatTheOperatorNames(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		list := []string{"redis://default:secret@node0", "redis://default:secret@node1", "redis://default:secret@node2"}
		operator, l := c.LockerOf(list, redlock.WithMaxTTL(virtual.MaxTTL)), c.LockerOf(list, redlock.WithMaxTTL(virtual.MaxTTL))
		time.Sleep(2 * virtual.MaxTTL)
		require.NoError(t, admin.Of(operator).Cluster().Add(c.Within(time.Minute), "redis://node3"))
		assert.Equal(t, []int{0, 1, 2, 3}, c.heardPassword())
		_, err := l.Lock(c.Within(time.Second), "a")
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.Len(t, l.Stats().Nodes, 4)
		require.ErrorIs(t, l.Stats().Nodes[3].Err, pool.ErrUntrusted)

		// Another one that has not named it says why it can change nothing, and may name it.
		err = admin.Of(l).Cluster().SetMaxTTL(c.Within(10*time.Second), virtual.MaxTTL/2)
		require.ErrorContains(t, err, pool.ErrUntrusted.Error())
		require.NoError(t, admin.Of(l).Cluster().Add(c.Within(time.Minute), "redis://node3"))
		assert.Equal(t, pool.Up, l.Stats().Nodes[3].State)
	})
}

// A client that missed changes is led by one master's word, and by the same rule.
func TestAPasswordGoesToNoHostThatOneMasterNames(t *testing.T) {
	inCluster(t, 3, 2, func(t *testing.T, c *cluster) {
		var dead [5]atomic.Bool
		list := []string{"redis://default:secret@node0", "redis://default:secret@node1", "redis://default:secret@node2"}
		operator, l := c.Among([]int{0, 1, 2}), c.LockerOf(list, redlock.WithMaxTTL(virtual.MaxTTL), c.Sparing(dead[:]))
		require.NoError(t, l.Ready(ctx))
		virtual.SetAll(dead[:], true)
		for _, change := range []operation{add(3), remove(0), add(4), remove(1)} {
			c.change(operator, change)
		}
		virtual.SetAll(dead[:], false)
		time.Sleep(10 * time.Second)
		assert.Equal(t, []int{0, 1, 2}, c.heardPassword())
		err := l.Ready(c.Within(time.Second))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, pool.ErrUntrusted)
	})
}

func TestAListWithTLSNamesNoMemberWithout(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		l := c.LockerOf([]string{"rediss://default:secret@node0", "redis://node1", "redis://node2"}, redlock.WithMaxTTL(virtual.MaxTTL))
		require.ErrorIs(t, admin.Of(l).Cluster().Add(c.Within(time.Minute), "redis://node0:7000"), redlock.ErrInvalid)
	})
}
