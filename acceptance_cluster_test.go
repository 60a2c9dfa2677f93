package redquorum_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

const (
	// longTTL is used where keys must go because they were released, and not because they expired.
	longTTL = 30 * time.Second

	// cleanWithin is the promise I5: how long after a fault has healed a key of a finished attempt may live.
	cleanWithin = time.Second

	// patience is a node timeout that no healthy round comes near, not even on a busy machine. What is done within it
	// did not wait for a node that is away.
	patience = 5 * time.Second

	// slack is what a busy machine may add to a bound that is asserted.
	slack = time.Second
)

// master is one Redis master of a test.
type master interface {
	Addr() string
	URL() string
	Do(cmd string, args ...any) (any, error) // past all proxies
	Keys() ([]string, error)
	Stop() error // out of reach; keys stay
	Continue() error
	Kill() error
	Restart() error // empty
}

// embedded is a miniredis. Its keys expire by FastForward only. To be out of reach it closes its port and connections.
type embedded struct {
	*miniredis.Miniredis
	address string // also while it is closed
}

func (e embedded) Addr() string    { return e.address }
func (e embedded) URL() string     { return "redis://" + e.address }
func (e embedded) Stop() error     { return e.Kill() }
func (e embedded) Continue() error { return e.Miniredis.Restart() }

func (e embedded) Kill() error {
	e.Close()
	return nil
}

func (e embedded) Restart() error {
	e.FlushAll()
	return e.Miniredis.Restart()
}

func (e embedded) Do(cmd string, args ...any) (any, error) {
	conn, err := redis.Dial("tcp", e.address, redis.DialReadTimeout(slack))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Do(cmd, args...)
}

func (e embedded) Keys() ([]string, error) {
	return slices.DeleteFunc(e.Miniredis.Keys(), func(key string) bool { return key == pipeline.MemoryKey }), nil
}

// cluster is the masters of a test.
type cluster struct {
	masters []master
	real    bool
}

// startReal starts servers that vote. Ones with options of their own are left alone: they might not
// be fit for it.
func startReal(t *testing.T, n int, opts ...redistest.Option) *cluster {
	t.Helper()
	c := startYoung(t, n, opts...)
	if len(opts) == 0 {
		c.meet(t)
	}
	return c
}

// startYoung starts servers that nobody has met yet.
func startYoung(t *testing.T, n int, opts ...redistest.Option) *cluster {
	t.Helper()
	c := &cluster{real: true}
	for _, server := range redistest.Start(t, n, opts...) {
		c.masters = append(c.masters, server)
	}
	return c
}

// meet makes new masters vote, as a cluster does that has been used before. They will be out for as
// long as the tests' own maximum TTL says: it is larger than the one here.
func (c *cluster) meet(t *testing.T) {
	t.Helper()
	l, err := redlock.New(c.urls(), redlock.WithTTL(10*time.Millisecond), redlock.WithMaxTTL(10*time.Millisecond))
	require.NoError(t, err)
	requireUp(t, l, func(node redlock.NodeStats) bool { return node.Barred == nil })
	require.NoError(t, l.Close())
}

// requireUp waits until all nodes are up, and as they should be.
func requireUp(t *testing.T, l *redlock.Locker, ok func(node redlock.NodeStats) bool) {
	t.Helper()
	eventually(t, 10*time.Second, func() (missing string) {
		for _, node := range l.Stats().Nodes {
			if node.State != pool.Up || !ok(node) {
				missing += fmt.Sprintf("%s is %v: %v %v\n", node.Endpoint, node.State, node.Err, node.Barred)
			}
		}
		return missing
	})
}

func startEmbedded(t *testing.T, n int) *cluster {
	t.Helper()
	c := &cluster{}
	for range n {
		m := miniredis.RunT(t)
		c.masters = append(c.masters, embedded{m, m.Addr()})
	}
	c.meet(t)
	return c
}

// onEachKind runs a test on embedded masters and on real ones.
func onEachKind(t *testing.T, n int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { test(t, startEmbedded(t, n)) })
	t.Run("real", func(t *testing.T) { test(t, startReal(t, n)) })
}

func (c *cluster) urls() (urls []string) {
	for _, m := range c.masters {
		urls = append(urls, m.URL())
	}
	return urls
}

// behindProxies puts a proxy in front of every master.
func (c *cluster) behindProxies(t *testing.T) (proxies []*redistest.Proxy, urls []string) {
	t.Helper()
	for _, m := range c.masters {
		proxy := redistest.NewProxy(t, m.Addr())
		proxies, urls = append(proxies, proxy), append(urls, proxy.URL())
	}
	return proxies, urls
}

// newLocker returns a Locker that may not be connected yet. It is closed with the test.
func newLocker(t *testing.T, urls []string, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	l, err := redlock.New(urls, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := l.Close(); !errors.Is(err, redlock.ErrUndelivered) { // masters may be away
			assert.NoError(t, err)
		}
	})
	return l
}

// newConnected returns a Locker that is connected to every node, so that what follows begins from a healthy state.
func newConnected(t *testing.T, urls []string, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	l := newLocker(t, urls, opts...)
	requireUp(t, l, func(node redlock.NodeStats) bool { // it is known whether it votes
		return !errors.Is(node.Barred, pool.ErrQuarantined) || node.QuarantinedFor > 0
	})
	return l
}

// eventually waits until nothing is missing, and fails the test when the limit has passed. It returns how long it took.
func eventually(t *testing.T, limit time.Duration, missing func() string) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		looked := time.Since(began)
		what := missing()
		if what == "" {
			return looked
		}
		if looked > limit {
			t.Errorf("not within %v: %s", limit, what)
			return looked
		}
	}
}

// requireClean waits until none of the masters has a key, for as long as is promised, and logs how long it took.
func requireClean(t *testing.T, masters ...master) {
	t.Helper()
	took := eventually(t, cleanWithin, func() (left string) {
		for i, m := range masters {
			keys, err := m.Keys()
			keys = slices.DeleteFunc(keys, func(key string) bool {
				return strings.HasPrefix(key, "redquorum:others:") // it expires some seconds after the lock
			})
			if err != nil {
				left += fmt.Sprintf("\nnode %d (%s): %v", i, m.Addr(), err)
			} else if len(keys) > 0 {
				left += fmt.Sprintf("\nnode %d (%s) still has %d keys: %.200q", i, m.Addr(), len(keys), keys)
			}
		}
		return left
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("no key left after %v", took.Round(time.Millisecond))
}

// holders returns what each master holds under a key, by a raw GET: "" for nothing.
func (c *cluster) holders(t *testing.T, key string) (values []string) {
	t.Helper()
	for _, m := range c.masters {
		values = append(values, holder(t, m, key))
	}
	return values
}

func holder(t *testing.T, m master, key string) string {
	t.Helper()
	reply, err := m.Do("GET", key)
	assert.NoError(t, err)
	value, ok := reply.([]byte)
	assert.True(t, ok || reply == nil, "%T", reply)
	return string(value)
}

// holding returns on how many masters a key has a value.
func (c *cluster) holding(t *testing.T, key, value string) (n int) {
	t.Helper()
	return len(slices.DeleteFunc(c.holders(t, key), func(held string) bool { return held != value }))
}

// must calls functions that break or mend a test's masters.
func must(t *testing.T, err error) {
	t.Helper()
	require.NoError(t, err)
}

// endpointsOf returns the nodes that an error names, sorted.
func endpointsOf(failure *redlock.QuorumError) (endpoints []string) {
	for _, err := range failure.Nodes.WrappedErrors() {
		if node, ok := err.(*redlock.NodeError); ok { //nolint:errorlint // the list has them as they are
			endpoints = append(endpoints, node.Endpoint)
		}
	}
	slices.Sort(endpoints)
	return endpoints
}

// requireNodesSay asserts that an error names exactly these nodes, and that each has the words in what it says itself: a regular
// expression.
func requireNodesSay(t *testing.T, err error, urls []string, words string) {
	t.Helper()
	var failure *redlock.QuorumError
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, slices.Sorted(slices.Values(urls)), endpointsOf(failure))
	for _, node := range failure.Nodes.WrappedErrors() {
		assert.Regexp(t, words, node.Error())
	}
}

// lockName makes a test's name that of its lock.
func lockName(t *testing.T) string { return strings.ReplaceAll(t.Name(), "/", ":") }

// waiting returns how many wait for a name, on all nodes.
func (c *cluster) waiting(t *testing.T, name string) (sum int) {
	t.Helper()
	for _, m := range c.masters {
		n, err := m.Do("ZCARD", "redquorum:wait:"+name)
		require.NoError(t, err)
		sum += int(n.(int64))
	}
	return sum
}
