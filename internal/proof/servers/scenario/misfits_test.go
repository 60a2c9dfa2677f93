package scenario_test

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// misfit is an endpoint that may not vote, and what is said about it.
type misfit struct {
	name   string
	reason error
	words  string                                                                  // a regular expression
	start  func(t *testing.T, first cluster.Master) (m cluster.Master, url string) // m may be nil
}

var misfits = []misfit{
	{"a replica", pool.ErrReplica, `a replica of 127\.[0-9.]+:[0-9]+, not a master`, startReplica},
	{"a member of a cluster", pool.ErrClusterMode, `in cluster mode, not a master of its own`, startMember},
	{"a Sentinel", pool.ErrSentinelMode, `in sentinel mode, not a master of its own`, startSentinel},
	// Without scripts a lock could be neither renewed nor released.
	{"no EVALSHA", pool.ErrNoScripts, `scripts cannot be run: .*NOPERM .*allow the user EVALSHA`, userWithout("-evalsha")},
	{"no scripts", pool.ErrNoScripts, `scripts cannot be run: .*NOPERM .*allow the user EVALSHA`, userWithout("-@scripting")},
	{"no EVAL and SCRIPT", pool.ErrNoScripts, `scripts cannot be run: .*NOPERM .*allow the user EVALSHA`, userWithout("-eval", "-script")},
	{"the same server twice", pool.ErrRefused, `the same server as`, func(_ *testing.T, first cluster.Master) (cluster.Master, string) {
		return nil, redistest.OtherName(first.URL())
	}},
}

func startReplica(t *testing.T, _ cluster.Master) (cluster.Master, string) {
	m := redistest.StartOne(t)
	do(t, m, "CONFIG", "SET", "replica-read-only", "no") // it would grant
	replicate(t, m, redistest.StartOne(t))
	return m, m.URL()
}

// startMember starts a cluster of one. With all slots, it would take every key. A release is a
// script that deletes two keys of different slots. On Valkey 9.1 it would leave the member refusing
// all scripts.
func startMember(t *testing.T, _ cluster.Master) (cluster.Master, string) {
	m := redistest.StartOne(t, redistest.WithArgs("--cluster-enabled", "yes"))
	slots := []any{"ADDSLOTS"}
	for slot := range 16384 {
		slots = append(slots, slot)
	}
	do(t, m, "CLUSTER", slots...)
	await(t, "it serves", func() bool {
		_, err := m.Do("GET", "a")
		return err == nil
	})
	return m, m.URL()
}

func startSentinel(t *testing.T, _ cluster.Master) (cluster.Master, string) {
	return nil, redistest.StartOne(t, redistest.WithSentinel()).URL()
}

func userWithout(rules ...any) func(t *testing.T, _ cluster.Master) (cluster.Master, string) {
	return func(t *testing.T, _ cluster.Master) (cluster.Master, string) {
		m := redistest.StartOne(t)
		do(t, m, "ACL", append([]any{"SETUSER", "poor", "on", ">secret", "~*", "+@all"}, rules...)...)
		return m, "redis://poor:secret@" + m.Addr()
	}
}

// Stats, Ready and errors name servers that may not vote. Such servers are sent nothing, and do no
// harm as long as the others are a majority.
func TestServersThatMayNotVoteAreNamedAndSentNothing(t *testing.T) {
	t.Parallel()
	for _, m := range misfits {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t, 2)
			wrong, url := m.start(t, c.Masters[0])
			l := cluster.NewLocker(t, append(c.URLs(), url), patiently()...)
			m.awaitBarred(t, l)
			m.requireProducts(t, c, l)
			require.NoError(t, l.Ready(t.Context()))
			lock := take(t, l, cluster.LockName(t))
			require.NoError(t, lock.Extend(t.Context(), longTTL))
			require.NoError(t, lock.Verify(t.Context()))
			assert.Equal(t, 2, c.Holding(t, cluster.LockName(t), lock.Value()))
			give(t, lock)
			must(t, c.Masters[1].Kill())
			await(t, "the second master is known to be away", func() bool { return l.Stats().Nodes[1].State == pool.Down })
			_, err := l.TryLock(t.Context(), cluster.LockName(t))
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.ErrorIs(t, err, m.reason)
			requireNodesSay(t, err, []string{l.Stats().Nodes[2].Endpoint}, m.words)
			cluster.RequireClean(t, c.Masters[0])
			if wrong != nil {
				cluster.RequireClean(t, wrong)
				do(t, wrong, "EVAL", "return redis.call('SET', KEYS[1], '1', 'PX', 100)", 1, "after")
			}
		})
	}
}

// awaitBarred waits until the third node is known not to vote, and Stats says why.
func (m misfit) awaitBarred(t *testing.T, l *redlock.Locker) {
	t.Helper()
	await(t, "the third node may not vote", func() bool {
		nodes := l.Stats().Nodes
		if nodes[0].State != pool.Up || nodes[1].State != pool.Up {
			return false
		}
		return nodes[2].Barred != nil || nodes[2].State == pool.Down && nodes[2].Err != nil
	})
	node := l.Stats().Nodes[2]
	why := node.Err
	if node.State == pool.Up {
		why = node.Barred
	}
	require.ErrorIs(t, why, m.reason)
	assert.Regexp(t, m.words, why.Error())
}

// requireProducts asserts that Stats tells who the masters are.
func (m misfit) requireProducts(t *testing.T, c *cluster.Cluster, l *redlock.Locker) {
	t.Helper()
	for i, node := range l.Stats().Nodes[:2] {
		info, err := redis.String(c.Masters[i].Do("INFO", "server"))
		require.NoError(t, err)
		assert.Contains(t, []string{"redis", "valkey", "redict"}, node.Product)
		assert.Contains(t, info, node.Product+"_version:"+node.Version+"\r\n")
		assert.Contains(t, info, "run_id:"+node.RunID)
		assert.NoError(t, node.Barred)
		assert.False(t, node.Unidentified)
	}
}
