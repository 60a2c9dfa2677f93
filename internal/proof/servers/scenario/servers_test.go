package scenario_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	{"no EVALSHA", pool.ErrNoScripts, `scripts cannot be run: .*NOPERM .*allow the user EVALSHA`, startWithoutScripts},
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

func startWithoutScripts(t *testing.T, _ cluster.Master) (cluster.Master, string) {
	m := redistest.StartOne(t)
	do(t, m, "ACL", "SETUSER", "poor", "on", ">secret", "~*", "+@all", "-evalsha")
	return m, "redis://poor:secret@" + m.Addr()
}

// Stats, Ready and errors name servers that may not vote. Such servers are sent nothing, and do no
// harm as long as the others are a majority.
func TestServersThatMayNotVoteAreNamedAndSentNothing(t *testing.T) {
	t.Parallel()
	for _, m := range misfits {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t, 2)
			cluster.NewConnected(t, c.URLs(), patiently()...) // with it they would never be a cluster
			wrong, url := m.start(t, c.Masters[0])
			l := cluster.NewLocker(t, append(c.URLs(), url), patiently()...)
			m.awaitBarred(t, l)
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

// awaitBarred waits until the third node is known not to vote, and Stats says why. It may be barred
// for a moment for another reason: as one that nobody has looked at yet.
func (m misfit) awaitBarred(t *testing.T, l *redlock.Locker) {
	t.Helper()
	var why error
	await(t, "the third node may not vote", func() bool {
		nodes := l.Stats().Nodes
		if why = nodes[2].Err; nodes[2].State == pool.Up {
			why = nodes[2].Barred
		}
		return nodes[0].State == pool.Up && nodes[1].State == pool.Up && errors.Is(why, m.reason)
	})
	assert.Regexp(t, m.words, why.Error())
}

// state is one in which a real server does not grant.
type state struct {
	name  string
	words string // a regular expression that the error must match
	// begin puts the server into the state, and returns how to end it.
	begin     func(t *testing.T, m cluster.Master, name string) (heal func())
	atConnect bool // standing connections do not notice, or end
}

var states = []state{
	{name: "WRONGTYPE", words: `WRONGTYPE`, begin: func(t *testing.T, m cluster.Master, name string) func() {
		do(t, m, "RPUSH", name, "an element")
		return func() { do(t, m, "DEL", name) }
	}},
	{name: "READONLY", words: `(?i)read.?only|replica`, begin: func(t *testing.T, m cluster.Master, _ string) func() {
		host, port, err := net.SplitHostPort(redistest.StartOne(t).Addr())
		require.NoError(t, err)
		// It must stay a replica with its own keys. Once synchronized, it would have those of its
		// master.
		do(t, m, "CONFIG", "SET", "masterauth", "wrong")
		do(t, m, "REPLICAOF", host, port)
		return func() { do(t, m, "REPLICAOF", "NO", "ONE") }
	}},
	{name: "NOAUTH", words: `NOAUTH`, atConnect: true, begin: func(t *testing.T, m cluster.Master, _ string) func() {
		conn, err := redis.Dial("tcp", m.Addr()) // it stays logged in
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, conn.Close()) })
		do(t, m, "CONFIG", "SET", "requirepass", "secret")
		return func() {
			_, err := conn.Do("CONFIG", "SET", "requirepass", "")
			require.NoError(t, err)
		}
	}},
	{name: "OOM", words: `OOM`, begin: func(t *testing.T, m cluster.Master, _ string) func() {
		do(t, m, "CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1")
		return func() { do(t, m, "CONFIG", "SET", "maxmemory", "0") }
	}},
	{name: "BUSY", words: `BUSY`, begin: beginBusy},
	{name: "LOADING", words: `LOADING`, atConnect: true, begin: beginLoading},
}

// beginBusy runs a script that does not end until it is killed.
func beginBusy(t *testing.T, m cluster.Master, _ string) func() {
	do(t, m, "CONFIG", "SET", "lua-time-limit", "1")
	conn, err := redis.Dial("tcp", m.Addr())
	require.NoError(t, err)
	var script sync.WaitGroup
	script.Go(func() {
		_, err := conn.Do("EVAL", "while true do end", 0)
		assert.ErrorContains(t, err, "SCRIPT KILL")
	})
	heal := sync.OnceFunc(func() {
		_, err := m.Do("SCRIPT", "KILL")
		assert.NoError(t, err)
		script.Wait()
		assert.NoError(t, conn.Close())
	})
	t.Cleanup(heal)
	awaitReply(t, m, "BUSY")
	return heal
}

// beginLoading restarts the server with a file that takes 20 s to load, or until that is hurried.
func beginLoading(t *testing.T, m cluster.Master, _ string) func() {
	for i := range 400 {
		do(t, m, "SET", fmt.Sprint("ballast", i), strings.Repeat(fmt.Sprintf("%08x", i*7919), 500))
	}
	do(t, m, "CONFIG", "SET", "rdbcompression", "no")
	do(t, m, "SAVE")
	must(t, m.Kill())
	var restart sync.WaitGroup
	restart.Go(func() {
		assert.NoError(t, m.RestartWith("--key-load-delay", "50000", "--loading-process-events-interval-bytes", "1024"))
	})
	t.Cleanup(restart.Wait)
	awaitReply(t, m, "LOADING")
	return func() {
		do(t, m, "CONFIG", "SET", "key-load-delay", "0")
		restart.Wait()
	}
}

func awaitReply(t *testing.T, m cluster.Master, code string) {
	t.Helper()
	await(t, m.Addr()+" answers "+code, func() bool {
		_, err := m.Do("PING")
		return err != nil && strings.HasPrefix(err.Error(), code)
	})
}

// The states of one and two of five real masters keep nobody waiting, and those of three are named
// in the error, whether the Locker was connected before or meets them in that state. Each master
// gets the releases that it refused when it is well.
func TestNodesInABadStateAreOutvotedAndNamed(t *testing.T) {
	t.Parallel()
	for _, s := range states {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.befalls(t, cluster.Start(t, 5))
		})
	}
}

// trusting lets servers vote that have just been restarted.
var trusting = redlock.WithQuarantine(redlock.QuarantineOff)

func (s state) befalls(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	name := cluster.LockName(t)
	opts := []redlock.Option{redlock.WithNodeTimeout(longTTL), trusting}
	standing := connected(t, c.URLs(), opts...)
	before := take(t, standing, name+"before")
	c.AwaitHeldEverywhere(t, before.Name(), before.Value())
	lockers := func() []*redlock.Locker {
		met := cluster.NewLocker(t, c.URLs(), patiently(opts...)...)
		if s.atConnect {
			return []*redlock.Locker{met}
		}
		return []*redlock.Locker{standing, met}
	}
	var heals []func()
	began := time.Now()
	for n, m := range c.Masters[:3] {
		heals = append(heals, s.begin(t, m, name))
		for _, l := range lockers() {
			if n == 2 {
				_, err := l.TryLock(t.Context(), name)
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				require.NotErrorIs(t, err, redlock.ErrTaken)
				requireNodesSay(t, err, c.URLs()[:3], s.words)
				continue
			}
			lock := take(t, l, name)
			require.NoError(t, lock.Extend(t.Context(), longTTL))
			require.NoError(t, lock.Verify(t.Context()))
			give(t, lock)
			await(t, "the release has arrived everywhere", func() bool { // the next one needs all that are left
				return !slices.ContainsFunc(c.Masters[n+1:], func(m cluster.Master) bool { return cluster.Holder(t, m, name) != "" })
			})
		}
		if n == 1 {
			give(t, before)
		}
	}
	assert.Less(t, time.Since(began), longTTL, "nothing may wait for the wrong ones")
	awaitGone(t, c.Masters[3:], name, name+"before")
	for _, heal := range heals {
		heal()
	}
	awaitGone(t, c.Masters, name, name+"before")
}
