package scenario_test

import (
	"context"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

var ctx = context.Background()

const (
	// longTTL is the TTL where keys must go because they are released, not because they expire.
	longTTL = 30 * time.Second

	// patience is a node timeout that no healthy round comes near, not even on a busy machine. What
	// ends within it has not waited for a node that is away.
	patience = 5 * time.Second

	// aMinute bounds every wait for what happens soon on an idle machine.
	aMinute = time.Minute
)

// must checks the error of a call that breaks or mends a master.
func must(t *testing.T, err error) {
	t.Helper()
	require.NoError(t, err)
}

// do runs a command that a master must accept.
func do(t *testing.T, m cluster.Master, command string, args ...any) {
	t.Helper()
	_, err := m.Do(command, args...)
	require.NoError(t, err, "%s %v", command, args)
}

// await waits until something is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	cluster.Eventually(t, aMinute, func() string {
		if so() {
			return ""
		}
		return what
	})
}

// patiently returns options with which a lock neither expires nor waits for too short a time. Those
// that are given count more.
func patiently(opts ...redlock.Option) []redlock.Option {
	return append([]redlock.Option{redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience)}, opts...)
}

// connected returns a Locker with these options that is connected to every node.
func connected(t *testing.T, urls []string, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	return cluster.NewConnected(t, urls, patiently(opts...)...)
}

// take acquires a name that is free.
func take(t *testing.T, l *redlock.Locker, name string, opts ...redlock.LockOption) *redlock.Lock {
	t.Helper()
	lock, err := l.TryLock(t.Context(), name, opts...)
	require.NoError(t, err)
	return lock
}

// give releases a lock that is held.
func give(t *testing.T, lock *redlock.Lock) {
	t.Helper()
	require.NotNil(t, lock)
	require.NoError(t, lock.Unlock(t.Context()))
}

// inBackground waits for a lock in a goroutine. The channel gets it, or nil.
func inBackground(t *testing.T, wait func() (*redlock.Lock, error)) <-chan *redlock.Lock {
	got := make(chan *redlock.Lock, 1)
	go func() {
		lock, err := wait()
		assert.NoError(t, err)
		got <- lock
	}()
	return got
}

// waiting has a Locker wait for a name.
func waiting(t *testing.T, l *redlock.Locker, name string) <-chan *redlock.Lock {
	t.Helper()
	before := l.Stats().Waiting
	got := inBackground(t, func() (*redlock.Lock, error) { return l.Lock(t.Context(), name) })
	await(t, "somebody waits", func() bool { return l.Stats().Waiting > before })
	return got
}

// leave ends the connections of proxies, and refuses new ones.
func leave(proxies ...*redistest.Proxy) {
	for _, p := range proxies {
		p.Refuse(true)
		p.Reset()
	}
}

// awaitUp waits until a Locker is connected to exactly these nodes.
func awaitUp(t *testing.T, l *redlock.Locker, indexes ...int) {
	t.Helper()
	cluster.Eventually(t, aMinute, func() (wrong string) {
		for i, node := range l.Stats().Nodes {
			want := pool.Down
			if slices.Contains(indexes, i) {
				want = pool.Up
			}
			if node.State != want {
				wrong += node.Endpoint + " is " + node.State.String() + ", not " + want.String() + "; "
			}
		}
		return wrong
	})
}

// requireNodesSay asserts that in an error of a round, exactly these nodes say what matches words,
// a regular expression.
func requireNodesSay(t *testing.T, err error, urls []string, words string) {
	t.Helper()
	t.Log(err)
	var failure *redlock.QuorumError
	require.ErrorAs(t, err, &failure)
	var said []string
	for _, node := range failure.Nodes {
		if regexp.MustCompile(words).MatchString(node.Err.Error()) {
			said = append(said, node.Endpoint)
		}
	}
	assert.ElementsMatch(t, urls, said, "who says %s", words)
}

// requireLostBecause asserts that a lock is lost, and why.
func requireLostBecause(t *testing.T, lock *redlock.Lock, why string) {
	t.Helper()
	require.ErrorIs(t, lock.Err(), redlock.ErrLost)
	assert.ErrorContains(t, lock.Err(), why)
	assert.LessOrEqual(t, lock.Remaining(), time.Duration(0))
	select {
	case <-lock.Done():
	default:
		t.Error("Done is open")
	}
}

// awaitLoss waits until the holder of a lock is told that it is lost.
func awaitLoss(t *testing.T, lock *redlock.Lock) {
	t.Helper()
	select {
	case <-lock.Done():
	case <-time.After(aMinute):
		require.FailNow(t, "Done was not closed")
	}
}

// awaitGone waits until no master has a value under any of these keys, before they can have
// expired.
func awaitGone(t *testing.T, masters []cluster.Master, keys ...string) {
	t.Helper()
	cluster.Eventually(t, longTTL-5*time.Second, func() (left string) {
		for _, m := range masters {
			for _, key := range keys {
				if value := cluster.Holder(t, m, key); value != "" {
					left += m.Addr() + " has " + value + " under " + key + "\n"
				}
			}
		}
		return left
	})
}

// as returns a master's URL with a user and a path.
func as(t *testing.T, m cluster.Master, user *url.Userinfo, path string) string {
	t.Helper()
	u, err := url.Parse(m.URL())
	require.NoError(t, err)
	u.User, u.Path = user, path
	return u.String()
}

// valueIn reads a key of any database, with the credentials of the URL.
func valueIn(t *testing.T, m cluster.Master, database int, key string) string {
	t.Helper()
	u, err := url.Parse(m.URL())
	require.NoError(t, err)
	password, _ := u.User.Password()
	conn, err := redis.Dial("tcp", m.Addr(), redis.DialDatabase(database), redis.DialPassword(password))
	require.NoError(t, err)
	defer conn.Close()
	value, err := redis.String(conn.Do("GET", key))
	if err != nil {
		require.ErrorIs(t, err, redis.ErrNil)
	}
	return value
}

// replicate makes a server a replica, and waits until it has the keys of its master.
func replicate(t *testing.T, replica, of cluster.Master) {
	t.Helper()
	do(t, of, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	host, port, err := net.SplitHostPort(of.Addr())
	require.NoError(t, err)
	do(t, replica, "REPLICAOF", host, port)
	await(t, "the replica is in step", func() bool {
		info, err := redis.String(replica.Do("INFO", "replication"))
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
}

// on returns the arguments of a role: what it needs, and the endpoints of the masters.
func on(c *cluster.Cluster, args ...string) []string { return append(args, c.URLs()...) }

// childLocker is the Locker of a child.
func childLocker(self *child.Self, urls []string, opts ...redlock.Option) *redlock.Locker {
	l, err := redlock.New(urls, opts...)
	require.NoError(self, err)
	return l
}
