package scenario_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// trouble is what the network or the servers do while a Locker is used.
type trouble struct {
	name   string
	opts   []redlock.Option
	limit  time.Duration // the calls' contexts end at any moment below it; 0: they never do
	rounds int           // of each worker
	alone  bool          // it need not let calls succeed, nor fail
	blind  bool          // nodes that are stopped are not asked what they have

	begin func(proxies []*redistest.Proxy)
	// harm is called again and again, with random pauses below pause.
	harm  func(t *testing.T, rng *rand.Rand, c *cluster.Cluster, proxies []*redistest.Proxy)
	pause time.Duration
}

const (
	delay  = 300 * time.Millisecond
	jitter = 200 * time.Millisecond
)

var troubles = []trouble{
	{name: "connections are cut at any byte", rounds: 10, pause: 10 * time.Millisecond, harm: cut},
	// Attempts win late, or lose and are granted afterwards.
	{
		name: "three of five are late", rounds: 2, opts: []redlock.Option{redlock.WithNodeTimeout(delay)}, alone: true,
		begin: func(proxies []*redistest.Proxy) {
			for i, direction := range []redistest.Direction{redistest.Requests, redistest.Replies, redistest.Both} {
				proxies[i].Delay(direction, delay, jitter)
			}
		},
	},
	{
		name: "contexts end", rounds: 40, limit: 20 * time.Millisecond, alone: true,
		begin: func(proxies []*redistest.Proxy) {
			for _, proxy := range proxies {
				proxy.Delay(redistest.Both, 500*time.Microsecond, 400*time.Microsecond)
			}
		},
	},
	{
		name: "servers are stopped now and then", rounds: 25, blind: true, pause: 50 * time.Millisecond, harm: pauseSome,
		opts: []redlock.Option{redlock.WithNodeTimeout(100 * time.Millisecond)},
	},
	{
		name: "servers are stopped, connections given up", rounds: 25, blind: true, pause: 50 * time.Millisecond, harm: pauseSome,
		opts: []redlock.Option{
			redlock.WithNodeTimeout(100 * time.Millisecond),
			redlock.WithPool(pool.WithStallTimeout(30*time.Millisecond), pool.WithDialTimeout(50*time.Millisecond)),
		},
	},
}

// cut breaks connections of a proxy, each time in one of three ways. Without a connection it does
// nothing: a cut that waits for the next one would only keep the client out.
func cut(_ *testing.T, rng *rand.Rand, _ *cluster.Cluster, proxies []*redistest.Proxy) {
	proxy := proxies[rng.IntN(len(proxies))]
	if proxy.Connections() == 0 {
		return
	}
	switch rng.IntN(3) {
	case 0:
		proxy.CutReplies(rng.IntN(60))
	case 1:
		proxy.CutAfterRequest()
	case 2:
		proxy.Reset()
	}
}

// pauseSome stops up to three servers at once, so that attempts are lost too.
func pauseSome(t *testing.T, rng *rand.Rand, c *cluster.Cluster, _ []*redistest.Proxy) {
	first, n := rng.IntN(3), 1+rng.IntN(3)
	for _, m := range c.Masters[first : first+n] {
		assert.NoError(t, m.Stop())
	}
	time.Sleep(upTo(rng, 300*time.Millisecond))
	for _, m := range c.Masters[first : first+n] {
		assert.NoError(t, m.Continue())
	}
}

// Many calls share a connection, and only the order of the replies tells them apart. What the
// library says about a lock is compared with a raw GET on every node, past the network, and no key
// is left that outlives its attempt: all locks live for longTTL, so that expiry cannot clean up.
func TestAnswersAreTrueAndNoKeyIsLeftWhateverTheNetworkDoes(t *testing.T) {
	t.Parallel()
	for _, trouble := range troubles {
		t.Run(trouble.name, func(t *testing.T) {
			t.Parallel()
			trouble.befalls(t, cluster.Start(t, 5))
		})
	}
}

func (tr trouble) befalls(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	proxies, urls := c.BehindProxies(t)
	l := connected(t, urls, tr.opts...)
	seed := seedOf(t)
	a := &agreement{trouble: tr, c: c, l: l}
	stop := func() int { return 0 }
	if tr.begin != nil {
		tr.begin(proxies)
	}
	if tr.harm != nil {
		before, fruitless := 0, 0
		stop = disturb(seed, tr.pause, func(rng *rand.Rand) {
			if now := a.successes(); now > before {
				before, fruitless = now, 0
			}
			if fruitless++; fruitless <= len(proxies) { // a slow machine needs time without harm
				tr.harm(t, rng, c, proxies)
			}
		})
	}
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(worker)))
			late := time.Now().Add(aMinute)
			for round := 0; round < tr.rounds || !tr.alone && !a.bothEnds() && time.Now().Before(late); round++ {
				a.compare(t, rng, fmt.Sprintf("%s/%d/%d", cluster.LockName(t), worker, round))
			}
		})
	}
	all.Wait()
	t.Logf("%d times harm, %d connections; %+v", stop(), connects(l), a.figures)
	assert.True(t, tr.alone || a.bothEnds(), "calls have succeeded, and calls have failed")
	for _, proxy := range proxies {
		proxy.Heal()
	}
	cluster.RequireClean(t, c.Masters...)
}

// agreement counts what the library and the nodes agreed on.
type agreement struct {
	trouble
	c *cluster.Cluster
	l *redlock.Locker

	mu      sync.Mutex // guards the field below
	figures struct{ Acquired, Verified, Extended, Released, Failed int }
}

// ended counts the end of a call, and reports whether it was a success.
func (a *agreement) ended(ctx context.Context, t *testing.T, call string, field *int, err error) bool {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		*field++
		return true
	}
	a.figures.Failed++
	expected := errors.Is(err, redlock.ErrNoQuorum) || ctx.Err() != nil && errors.Is(err, ctx.Err())
	if !expected || errors.Is(err, redlock.ErrTaken) || errors.Is(err, redlock.ErrLost) {
		t.Errorf("%s of a name which nobody else uses: %v", call, err)
	}
	return false
}

func (a *agreement) successes() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.figures.Verified + a.figures.Extended + a.figures.Released
}

// bothEnds reports whether calls have succeeded, and some have failed.
func (a *agreement) bothEnds() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.figures.Acquired > 0 && a.figures.Verified > 0 && a.figures.Failed >= 10
}

// compare acquires and releases a lock that nobody else wants, and looks at the nodes after every
// step.
func (a *agreement) compare(t *testing.T, rng *rand.Rand, name string) {
	ctx := t.Context()
	if a.limit > 0 {
		bounded, cancel := context.WithTimeout(ctx, upTo(rng, a.limit))
		defer cancel()
		ctx = bounded
	}
	lock, err := a.l.TryLock(ctx, name)
	if !a.ended(ctx, t, "TryLock", &a.figures.Acquired, err) {
		return
	}
	a.requireHeld(t, lock, "acquired", true)
	a.ended(ctx, t, "Verify", &a.figures.Verified, lock.Verify(ctx))
	if a.ended(ctx, t, "Extend", &a.figures.Extended, lock.Extend(ctx, longTTL)) {
		a.requireHeld(t, lock, "extended", true)
	}
	time.Sleep(upTo(rng, 20*time.Millisecond))
	if a.ended(ctx, t, "Unlock", &a.figures.Released, lock.Unlock(ctx)) {
		a.requireHeld(t, lock, "released", false)
	}
}

// requireHeld asserts that a quorum of nodes has a lock, or has not.
func (a *agreement) requireHeld(t *testing.T, lock *redlock.Lock, was string, held bool) {
	t.Helper()
	if a.blind {
		return
	}
	n := a.c.Holding(t, lock.Name(), lock.Value())
	assert.Equal(t, held, n >= 3, "%s was %s, and %d nodes have it", lock.Name(), was, n)
}

// latePath is a path to a master that delivers the first SET late, even if the client has closed
// its connection by then, and loses what was sent behind it. A proxy, or a network that heals, can
// do that. Other connections are not delayed.
type latePath struct {
	name      string // of the lock
	begun     atomic.Bool
	deliver   chan struct{} // closed by the test when the SET may go on
	delivered chan struct{} // closed when the SET was given to the server, or could not be
	later     atomic.Int32  // replies to what named the lock on the other connections
}

func (p *latePath) to(t *testing.T, m cluster.Master) (url string) {
	t.Helper()
	return redistest.FakeServer(t, func(client net.Conn) {
		server, err := net.Dial("tcp", m.Addr())
		if err != nil {
			return
		}
		var named atomic.Bool
		var replies sync.WaitGroup
		replies.Go(func() { p.reply(client, server, &named) })
		defer replies.Wait()
		defer server.Close()
		buf := make([]byte, 4096)
		for {
			n, err := client.Read(buf)
			if err != nil {
				return
			}
			late := bytes.Contains(buf[:n], []byte("\r\nSET\r\n")) && p.begun.CompareAndSwap(false, true)
			if late {
				<-p.deliver
			} else if bytes.Contains(buf[:n], []byte(p.name)) {
				named.Store(true)
			}
			_, err = server.Write(buf[:n])
			if late {
				close(p.delivered)
				return
			}
			if err != nil {
				return
			}
		}
	}).URL()
}

// reply hands on what the server answers until either connection ends.
func (p *latePath) reply(client, server net.Conn, named *atomic.Bool) {
	buf := make([]byte, 4096)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if named.Load() {
			p.later.Add(1)
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// The connection is given up, and the release goes out on the next one. It must not come before the
// SET: that connection kills the old one at the server before anything else.
func TestSetThatArrivesLateAfterItsConnectionWasGivenUpLeavesNoKey(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	name := cluster.LockName(t)
	path := &latePath{name: name, deliver: make(chan struct{}), delivered: make(chan struct{})}
	urls := c.URLs()
	urls[4] = path.to(t, c.Masters[4])
	l := connected(t, urls, redlock.WithNodeTimeout(time.Second), redlock.WithPool(pool.WithStallTimeout(500*time.Millisecond)))
	lock, err := l.Lock(t.Context(), name)
	require.NoError(t, err)
	give(t, lock)
	await(t, "the release is answered on a second connection", func() bool {
		return l.Stats().Nodes[4].Connects > 1 && path.later.Load() > 0
	})
	close(path.deliver)
	<-path.delivered
	for until := time.Now().Add(300 * time.Millisecond); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		require.Empty(t, cluster.Holder(t, c.Masters[4], name), "the SET was executed after its release")
	}
	cluster.RequireClean(t, c.Masters...)
}

// A holder that renews is cut off from a majority at any moment of its renewals. It knows that its
// lock is lost when another client, which is not cut off, has got it. That Done closes before is
// shown in virtual time: here it waits for a timer and a goroutine of a busy machine.
func TestHoldingEndsBeforeAnotherCanHoldWhenCutOffFromAMajority(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	c := cluster.Start(t, 5)
	seed := seedOf(t)
	other := connected(t, c.URLs(), redlock.WithTTL(ttl), redlock.WithRetry(time.Millisecond, 4*time.Millisecond))
	var tries sync.WaitGroup
	for i := range sizeOf(t, 10, 200) {
		tries.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			proxies, urls := c.BehindProxies(t)
			holder := cluster.NewLocker(t, urls, redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl/4))
			name := fmt.Sprint(cluster.LockName(t), i)
			lock, err := holder.Lock(t.Context(), name)
			if !assert.NoError(t, err) {
				return
			}
			time.Sleep(upTo(rng, ttl))
			for _, i := range rng.Perm(len(proxies))[:3+rng.IntN(3)] {
				proxies[i].Drop(redistest.Both, true)
			}
			next, err := other.Lock(t.Context(), name)
			left := lock.Remaining()
			if !assert.NoError(t, err) {
				return
			}
			assert.LessOrEqual(t, left, time.Duration(0), "%s: two hold it", name)
			assert.ErrorIs(t, lock.Err(), redlock.ErrLost)
			assert.NoError(t, next.Unlock(t.Context()))
			for _, proxy := range proxies {
				proxy.Heal()
			}
		})
	}
	tries.Wait()
}
