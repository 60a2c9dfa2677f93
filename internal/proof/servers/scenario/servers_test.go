package scenario_test

import (
	"context"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// requireRefused asserts that no lock can be acquired if all masters are refused for that reason,
// and that their errors match words, a regular expression. The URLs are those of the masters,
// perhaps with other users.
func requireRefused(t *testing.T, urls []string, reason error, words string) {
	t.Helper()
	l := cluster.NewLocker(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
	_, err := l.TryLock(t.Context(), cluster.LockName(t))
	t.Log(err)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorIs(t, err, reason)
	assert.Regexp(t, words, err.Error())
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorIs(t, l.Ready(ctx), reason)
	for _, node := range l.Stats().Nodes {
		assert.Equal(t, pool.Down, node.State)
		require.ErrorIs(t, node.Err, reason)
		require.ErrorIs(t, node.Err, pool.ErrRefused)
		assert.Regexp(t, words, node.Err.Error())
	}
}

// Without scripts a lock could be neither renewed nor released. Its keys would stay until their
// TTL.
func TestUserWhoMayNotRunScriptsIsGrantedNothing(t *testing.T) {
	t.Parallel()
	for _, denied := range []string{"-evalsha", "-@scripting", "-eval -script"} {
		t.Run(denied, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t, 3)
			var urls []string
			for _, m := range c.Masters {
				do(t, m, "ACL", "SETUSER", "poor", "on", ">secret", "~*", "+@all")
				for rule := range strings.FieldsSeq(denied) {
					do(t, m, "ACL", "SETUSER", "poor", rule)
				}
				urls = append(urls, as(t, m, url.UserPassword("poor", "secret"), ""))
			}
			requireRefused(t, urls, pool.ErrNoScripts, `scripts cannot be run: EVAL(SHA)?: NOPERM .*allow the user EVALSHA`)
			cluster.RequireClean(t, c.Masters...)
		})
	}
}

// A cluster of one has all slots, and so would take every key. A release is a script that deletes
// two keys of different slots. On Valkey 9.1 such a script would leave the member refusing all
// scripts.
func TestMembersOfClustersAreGivenNothing(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3, redistest.WithArgs("--cluster-enabled", "yes"))
	allSlots := []any{"ADDSLOTS"}
	for slot := range 16384 {
		allSlots = append(allSlots, slot)
	}
	for _, m := range c.Masters {
		do(t, m, "CLUSTER", allSlots...)
	}
	for _, m := range c.Masters { // each serves a few seconds later
		cluster.Eventually(t, 10*time.Second, func() string {
			if _, err := m.Do("GET", cluster.LockName(t)); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	requireRefused(t, c.URLs(), pool.ErrClusterMode, `in cluster mode, not a master of its own`)
	cluster.RequireClean(t, c.Masters...)
	for _, m := range c.Masters {
		do(t, m, "EVAL", "return redis.call('SET', KEYS[1], '1', 'PX', 100)", 1, "after")
	}
}

func TestSentinelsAreGivenNothing(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3, redistest.WithSentinel())
	requireRefused(t, c.URLs(), pool.ErrSentinelMode, `in sentinel mode, not a master of its own`)
}

func TestReplicasAreGivenNothing(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	host, port, err := net.SplitHostPort(redistest.StartOne(t).Addr())
	require.NoError(t, err)
	for _, m := range c.Masters {
		do(t, m, "CONFIG", "SET", "replica-read-only", "no") // it would grant
		do(t, m, "REPLICAOF", host, port)
	}
	requireRefused(t, c.URLs(), pool.ErrReplica, `a replica of 127\.0\.0\.1:[0-9]+, not a master`)
	cluster.RequireClean(t, c.Masters...)
}

func TestProductAndVersionOfServersAreTold(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	l := cluster.NewConnected(t, c.URLs())
	node := l.Stats().Nodes[0]
	t.Logf("%s %s", node.Product, node.Version)
	assert.Contains(t, []string{"redis", "valkey", "redict"}, node.Product)
	reply, err := c.Masters[0].Do("INFO", "server")
	require.NoError(t, err)
	assert.Contains(t, string(reply.([]byte)), node.Product+"_version:"+node.Version+"\r\n")
	assert.False(t, node.Unidentified)
}
