//go:build linux

package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// runReaderOrWriter is a process that reads and writes under one name, and prints what
// [runContender] does, with "reads" for the lock of a reader.
func runReaderOrWriter(t *testing.T, name string, urls []string) {
	l, err := redlock.New(urls, redlock.WithTTL(contenderTTL), redlock.WithMaxTTL(contenderTTL), redlock.WithNodeTimeout(contenderTimeout),
		redlock.WithRetry(contenderPoll/3, contenderPoll), redlock.WithoutRenewal())
	require.NoError(t, err)
	ctx, now := context.Background(), clock.System().Now
	for {
		acquire, word := l.RLock, "reads"
		switch rand.N(8) {
		case 0, 1:
			acquire, word = l.Lock, "holds"
		case 2:
			acquire = l.TryRLock
		case 3:
			acquire, word = l.TryLock, "holds"
		}
		patient, stop := context.WithTimeout(ctx, 20*time.Millisecond+rand.N(2*time.Second))
		lock, err := acquire(patient, name)
		stop()
		if err != nil {
			var failure *redlock.QuorumError
			require.True(t, errors.As(err, &failure) || errors.Is(err, context.DeadlineExceeded), "%v", err)
			time.Sleep(rand.N(contenderHold))
			continue
		}
		had := now()
		fmt.Println(word, int64(had), int64(had.Add(lock.Remaining())))
		time.Sleep(rand.N(6 * contenderHold))
		fmt.Println("releases", int64(now()), 0)
		if err := lock.Unlock(ctx); err != nil && !errors.Is(err, redlock.ErrNoQuorum) {
			require.ErrorIs(t, err, redlock.ErrLost)
		}
	}
}

// disturbServers stops, kills or restarts servers, or closes their connections. A server that was
// killed comes back without its keys.
func disturbServers(t *testing.T, c *cluster.Cluster, rng *rand.Rand) {
	first := rng.IntN(5)
	one, other := c.Masters[first], c.Masters[(first+1+rng.IntN(4))%5]
	switch rng.IntN(4) {
	case 0:
		pauseTwo(t, c, rng)
	case 1: // one comes back without its keys, and one was away
		assert.NoError(t, other.Stop())
		assert.NoError(t, one.Kill())
		time.Sleep(upTo(rng, contenderTTL))
		assert.NoError(t, one.Restart())
		assert.NoError(t, other.Continue())
		time.Sleep(2 * contenderTTL) // a second one that forgets before this one votes is too much
	default:
		for _, m := range []cluster.Master{one, other} {
			_, err := m.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			assert.NoError(t, err)
		}
	}
}

// Processes that read and write are killed and stopped, and so are servers: no writer has the lock
// beside anyone, and afterwards both get it.
func TestNoWriterHoldsBesideAnyoneWhateverIsKilledOrStopped(t *testing.T) {
	if name := os.Getenv(childName); name != "" {
		runReaderOrWriter(t, name, strings.Split(os.Getenv(childNodes), ","))
		return
	}
	t.Parallel()
	const size = 6
	c := cluster.Start(t, 5)
	rng := rand.New(rand.NewPCG(seedOf(t), 0))
	a := &arena{t: t, urls: c.URLs()}
	var all []*contender
	for range size {
		all = append(all, a.start())
	}
	for range sizeOf(t, 25, 1000) {
		time.Sleep(upTo(rng, 200*time.Millisecond))
		switch i := rng.IntN(size); rng.IntN(3) {
		case 0:
			a.end(all[i])
			all[i] = a.start()
		case 1:
			a.signal(all[i], syscall.SIGSTOP, "stopped")
			time.Sleep(upTo(rng, 2*contenderTTL))
			a.signal(all[i], syscall.SIGCONT, "continued")
		case 2:
			disturbServers(t, c, rng)
		}
	}
	// A busy machine takes longer.
	cluster.Eventually(t, time.Minute, func() string {
		a.mu.Lock()
		defer a.mu.Unlock()
		if reads, writes, shared := a.tenures(t); reads < 50 || writes < 20 || shared == 0 {
			return fmt.Sprintf("%d reads, %d writes, %d shared", reads, writes, shared)
		}
		return ""
	})
	for _, c := range all {
		a.end(c)
	}
	reads, writes, shared := a.tenures(t)
	t.Logf("%d reads, %d beside another; %d writes", reads, shared, writes)

	l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
	ctx, cancel := context.WithTimeout(t.Context(), patience+slack)
	defer cancel()
	reader, err := l.RLock(ctx, cluster.LockName(t))
	require.NoError(t, err)
	require.NoError(t, reader.Unlock(ctx))
	writer, err := l.Lock(ctx, cluster.LockName(t))
	require.NoError(t, err)
	require.NoError(t, writer.Unlock(ctx))
}

// tenures counts who had the lock, and fails if a writer had it beside anyone. Shared is how often
// a reader got it while another had it.
func (a *arena) tenures(t *testing.T) (reads, writes, shared int) {
	t.Helper()
	type tenure struct {
		turn
		reads bool
	}
	var had []tenure
	open := make(map[int]int)
	events := slices.Clone(a.events)
	slices.SortStableFunc(events, func(a, b said) int { return int(a.at - b.at) })
	for _, e := range events {
		i, has := open[e.who]
		switch {
		case e.word == "holds" || e.word == "reads":
			open[e.who] = len(had)
			had = append(had, tenure{turn{who: e.who, from: e.at, to: e.till}, e.word == "reads"})
		case has && (e.word == "releases" || e.word == "killed"):
			had[i].to = min(had[i].to, e.at)
			delete(open, e.who)
		}
	}
	var all, writer clock.Instant // the latest ends so far
	for _, one := range had {
		switch {
		case one.reads:
			reads++
			if one.from < all && one.from >= writer {
				shared++
			}
			if one.from < writer {
				t.Errorf("%d got it to read %v before a writer's time was over", one.who, writer.Sub(one.from))
			}
		default:
			writes++
			if one.from < all {
				t.Errorf("%d got it to write %v before the time of others was over", one.who, all.Sub(one.from))
			}
			writer = max(writer, one.to)
		}
		all = max(all, one.to)
	}
	return reads, writes, shared
}
