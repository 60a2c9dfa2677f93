package scenario_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// brief is the cluster's MaxTTL where a test waits for it.
const brief = 1500 * time.Millisecond

// founded starts a cluster of the first masters of so many.
func founded(t *testing.T, members, all int) (servers []*redistest.Server, urls []string) {
	t.Helper()
	servers = redistest.Start(t, all)
	for _, server := range servers {
		urls = append(urls, server.URL())
	}
	l := program(t, urls[:members])
	cluster.RequireUp(t, l, func(n redlock.NodeStats) bool { return n.Barred == nil })
	return servers, urls
}

// program returns the Locker of a program with a list of its own.
func program(t *testing.T, urls []string, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	return cluster.NewLocker(t, urls, append([]redlock.Option{redlock.WithTTL(brief), redlock.WithMaxTTL(brief), redlock.WithFencing()}, opts...)...)
}

func TestProgramsWithDifferentListsExcludeEachOther(t *testing.T) {
	t.Parallel()
	_, urls := founded(t, 3, 5)
	time.Sleep(2 * brief) // the others are old enough to vote
	a, b, c, d, e := urls[0], urls[1], urls[2], urls[3], urls[4]
	first := program(t, []string{a, b, c})
	for name, list := range map[string][]string{
		"one replaced": {a, b, d},
		"3 to 4":       {a, b, c, d},
		"3 to 5":       {a, b, c, d, e},
		"two of three": {c, b},
		// These have no majority of the members. Nobody follows what one master says of the others.
		"one":         {a},
		"few of many": {e, d, a},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := program(t, list)
			if members := slices.DeleteFunc(list, func(url string) bool { return !slices.Contains(urls[:3], url) }); len(members) >= 2 {
				load, _ := cluster.Load(t, brief, first, other)
				load.AwaitEach(t, 2, 20)
				return
			}
			load, _ := cluster.Load(t, brief, first)
			for range 10 {
				load.AwaitEach(t, 1, 2)
				_, err := other.TryLock(t.Context(), cluster.LockName(t))
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
			}
		})
	}
}

// acquire waits for a lock that is free, until the program has met the masters.
func acquire(t *testing.T, l *redlock.Locker, name string) *redlock.Lock {
	t.Helper()
	bounded, cancel := context.WithTimeout(t.Context(), aMinute)
	defer cancel()
	lock, err := l.Lock(bounded, name)
	require.NoError(t, err)
	return lock
}

var lasting = []redlock.Option{redlock.WithTTL(longTTL), redlock.WithMaxTTL(longTTL)}

// heldByTwo starts a cluster of the first three of some masters, in which X holds its lock at the
// first two, and reaches all of them since.
func heldByTwo(t *testing.T, all int) (servers []*redistest.Server, urls []string, lock *redlock.Lock) {
	t.Helper()
	servers, urls = founded(t, 3, all)
	urls = urls[:3]
	var cut atomic.Bool
	cut.Store(true)
	dialer := pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		if cut.Load() && address == servers[2].Addr() {
			return nil, errors.New("cut off")
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
	require.NoError(t, program(t, urls).Cluster().SetMaxTTL(t.Context(), longTTL))
	x := program(t, urls, slices.Concat(lasting, []redlock.Option{redlock.WithPool(dialer), redlock.WithoutRenewal()})...)
	lock = acquire(t, x, "payroll")
	cut.Store(false)
	return servers, urls, lock
}

// requireNoSecond requires that nobody gets the lock beside its holder, who does not lose it.
func requireNoSecond(t *testing.T, urls []string, lock *redlock.Lock) {
	t.Helper()
	waiting, cancel := context.WithTimeout(t.Context(), 2*brief)
	defer cancel()
	_, err := program(t, urls, lasting...).Lock(waiting, "payroll")
	require.Error(t, err, "two holders")
	require.NoError(t, lock.Err())
	give(t, lock)
}

// The second master restarts, empty. Somebody probes that one alone.
func TestAProbeOfARestartedMasterMakesItNoVoter(t *testing.T) {
	t.Parallel()
	servers, urls, lock := heldByTwo(t, 3)
	must(t, servers[1].Kill())
	must(t, servers[1].Restart())
	probing, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	probe, err := program(t, urls[1:2], append(slices.Clip(lasting), redlock.WithKeyPrefix("probe:"))...).Lock(probing, "is it well")
	t.Logf("the probe: %v", err)
	requireNoSecond(t, urls, lock)
	if probe != nil {
		<-probe.Done()
		require.Error(t, probe.Err(), "the master is not its cluster any more")
	}
}

// The second master loses its keys, and then somebody imports a backup of it.
func TestAMarkerFromABackupIsNotBelieved(t *testing.T) {
	t.Parallel()
	servers, urls, lock := heldByTwo(t, 4)
	migrate := func(from, to *redistest.Server) {
		host, port, err := net.SplitHostPort(to.Addr())
		require.NoError(t, err)
		do(t, from, "MIGRATE", host, port, "", 0, 5000, "COPY", "REPLACE", "KEYS", pipeline.MemoryKey, pipeline.RegisterKey)
	}
	migrate(servers[1], servers[3])
	do(t, servers[1], "FLUSHALL")
	for _, other := range []*redistest.Server{servers[0], servers[2]} {
		await(t, "the others know", func() bool { return strings.Contains(cluster.Holder(t, other, pipeline.MemoryKey), " lives=") })
	}
	migrate(servers[3], servers[1])
	requireNoSecond(t, urls, lock)
}

func TestAKilledMasterIsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	servers, urls := founded(t, 3, 4)
	holder := program(t, urls[:3])
	lock := acquire(t, holder, "held")
	load, stop := cluster.Load(t, brief, program(t, urls[:3]), program(t, urls[:3]))
	operator := program(t, urls[:3]).Cluster()
	load.AwaitEach(t, 2, 20)
	must(t, servers[2].Kill())
	changing, cancel := context.WithTimeout(t.Context(), aMinute)
	defer cancel()
	m, err := operator.Members(changing)
	require.NoError(t, err)
	for _, member := range m.Members {
		if member.Endpoint == urls[2] {
			require.NoError(t, operator.Remove(changing, member.ID))
		}
	}
	require.NoError(t, operator.Add(changing, urls[3]))
	load.AwaitEach(t, 2, 20)
	longest := stop()
	t.Logf("%d locks, none for %v at most", load.Len(), longest)
	await(t, "the holder knows the new master", func() bool {
		return slices.ContainsFunc(holder.Stats().Nodes, func(n redlock.NodeStats) bool {
			return n.Endpoint == urls[3] && n.State == pool.Up && n.Barred == nil
		})
	})
	must(t, servers[1].Kill())
	for _, l := range []*redlock.Locker{holder, program(t, []string{urls[0], urls[3]})} {
		await(t, "the first master and the new one are a quorum", func() bool {
			one, err := l.TryLock(t.Context(), "another")
			return err == nil && one.Unlock(t.Context()) == nil
		})
	}
	require.NoError(t, lock.Err())
	give(t, lock)
}
