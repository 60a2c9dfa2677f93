package versus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/load"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// What all peers of BenchmarkRecovery do.
const (
	recoveryTTL     = 2 * time.Second
	recoveryHold    = time.Millisecond
	recoveryTimeout = recoveryTTL / 20 // for a server, of both libraries; it bounds releases, too
	recoveryPause   = 5 * time.Millisecond

	recoveryWorkers = 8 // half of them want one of two names, the others have one each
	recoveryNames   = 2

	// recoveryMaxTTL is how long redquorum counts no vote of a server that came back empty.
	recoveryMaxTTL = 10 * time.Second
)

// recoveryPeers have their own timeouts. redsync polls more often than by default, which makes it
// better where several want a name. Over redigo it would wait for a stopped server for ever.
var recoveryPeers = []struct {
	name string
	open func(setup) (contention.Mutex, error)
}{
	{"redquorum", openRecoveringRedquorum},
	{"redsync-rueidis", openRecoveringRedsync()},
	{"redsync-rueidis-failfast", openRecoveringRedsync(redsync.WithFailFast(true))},
}

func openRecoveringRedquorum(s setup) (contention.Mutex, error) {
	return newLocker(s.addresses, redlock.WithTTL(recoveryTTL), redlock.WithMaxTTL(recoveryMaxTTL))
}

func openRecoveringRedsync(options ...redsync.Option) func(setup) (contention.Mutex, error) {
	return func(s setup) (contention.Mutex, error) {
		opened, err := openRueidis(s)
		if err != nil {
			return nil, err
		}
		p := opened.(*redsyncPeer)
		p.options = append([]redsync.Option{
			redsync.WithExpiry(recoveryTTL), redsync.WithTries(math.MaxInt), redsync.WithRetryDelay(recoveryPause),
		}, options...)
		return p, nil
	}
}

// recoveryBench is five servers. The last two are behind proxies.
type recoveryBench struct {
	servers   []*redistest.Server
	addresses []string
	mute      *redistest.Proxy
	late      *redistest.Proxy
}

func startRecovery(t testing.TB) *recoveryBench {
	t.Helper()
	b := &recoveryBench{servers: startServers(t)}
	b.addresses = contention.AddressesOf(b.servers)
	b.mute, b.late = redistest.NewProxy(t, b.addresses[3]), redistest.NewProxy(t, b.addresses[4])
	b.addresses[3], b.addresses[4] = b.mute.Addr(), b.late.Addr()
	return b
}

// recoveryCourse is what happens, and for how long. Servers that were killed come back empty. After
// that redquorum counts none of their votes for recoveryMaxTTL.
var recoveryCourse = []struct {
	title   string
	seconds int
	begin   func(b *recoveryBench) error
}{
	{calm, 8, nil},
	{"one killed", 7, func(b *recoveryBench) error { return b.kill(1) }},
	{"two killed", 7, func(b *recoveryBench) error { return b.kill(2) }},
	{"both back, empty", 12, func(b *recoveryBench) error { return b.restart(2) }},
	{calm, 4, nil},
	{"one stopped", 6, func(b *recoveryBench) error { return b.servers[2].Stop() }},
	{calm, 4, func(b *recoveryBench) error { return b.servers[2].Continue() }},
	{"one mute", 6, func(b *recoveryBench) error { b.mute.Hold(redistest.Both, true); return nil }},
	{calm, 4, func(b *recoveryBench) error { b.mute.Heal(); return nil }},
	{"one 200 ms late", 6, func(b *recoveryBench) error { b.late.Delay(redistest.Both, 100*time.Millisecond, 0); return nil }},
	{calm, 4, func(b *recoveryBench) error { b.late.Heal(); return nil }},
	{"three killed", 6, func(b *recoveryBench) error { return b.kill(3) }},
	{"three back, empty", 12, func(b *recoveryBench) error { return b.restart(3) }},
	{calm, 4, nil},
}

func (b *recoveryBench) kill(servers int) error {
	return each(b.servers[:servers], (*redistest.Server).Kill)
}

func (b *recoveryBench) restart(servers int) error {
	return each(b.servers[:servers], (*redistest.Server).Restart)
}

func each(servers []*redistest.Server, do func(*redistest.Server) error) error {
	var errs []error
	for _, server := range servers {
		errs = append(errs, do(server))
	}
	return errors.Join(errs...)
}

// course begins each phase at its time, and returns at the end of the last.
func (b *recoveryBench) course(t testing.TB, start time.Time, second time.Duration) {
	t.Helper()
	at := start
	for _, phase := range recoveryCourse {
		time.Sleep(time.Until(at))
		if phase.begin != nil {
			require.NoError(t, phase.begin(b))
		}
		at = at.Add(time.Duration(phase.seconds) * second)
	}
	time.Sleep(time.Until(at))
}

// BenchmarkRecovery takes every peer through the same faults, on servers of its own, and tells what
// it did in every second, and in every phase. It fails when a peer gets no lock at all.
func BenchmarkRecovery(b *testing.B) {
	describe(b)
	second := sized(time.Second, 10*time.Millisecond)
	length := 0
	for _, phase := range recoveryCourse {
		length += phase.seconds
	}
	for _, peer := range recoveryPeers {
		bench := startRecovery(b)
		opened, err := peer.open(setup{addresses: bench.addresses, goroutines: recoveryWorkers})
		require.NoError(b, err)
		all := bench.run(b, opened, second, length)
		if err := opened.Close(); err != nil {
			b.Log(err) // with releases for servers that went away
		}
		for i := range all.waits {
			all.report(b, fmt.Sprintf("peer=%s/at=%d", peer.name, i), i, i+1)
		}
		from := 0
		for _, phase := range recoveryCourse {
			to := from + phase.seconds
			if phase.title != calm {
				all.report(b, fmt.Sprintf("peer=%s/phase=%02d-%02d_%s", peer.name, from, to, phase.title), from, to)
			}
			from = to
		}
	}
}

// report reports some of the moments: locks per second of the course, and the longest wait.
func (m *moments) report(b *testing.B, name string, from, to int) {
	b.Helper()
	b.Run(name, func(b *testing.B) {
		locks := 0
		for _, n := range m.locks[from:to] {
			locks += n
		}
		b.ReportMetric(float64(locks)/(time.Duration(to-from)*m.step).Seconds(), "locks/s")
		b.ReportMetric(load.Millis(slices.Max(m.waits[from:to])), "longest-wait-ms")
		b.ReportMetric(0, "ns/op")
	})
}

// calm is the title of phases without a fault.
const calm = "calm"

// moments is what one worker did, or all of them.
type moments struct {
	step  time.Duration
	locks []int
	waits []time.Duration
}

// wait counts a wait from a time of the course to another.
func (m *moments) wait(from, to time.Duration) {
	for i := int(from / m.step); i < len(m.waits) && time.Duration(i)*m.step <= to; i++ {
		m.waits[i] = max(m.waits[i], min(to, time.Duration(i+1)*m.step)-from)
	}
}

// run takes a peer through the course, of so many moments.
func (b *recoveryBench) run(tb testing.TB, p contention.Mutex, second time.Duration, count int) moments {
	tb.Helper()
	workers := make([]moments, recoveryWorkers)
	ctx, cancel := context.WithCancel(tb.Context())
	defer cancel()
	start := time.Now()
	var running sync.WaitGroup
	for i := range workers {
		workers[i] = newMoments(second, count)
		name := fmt.Sprintf("versus/recovery/%d", i)
		if i < recoveryWorkers/2 {
			name = fmt.Sprintf("versus/recovery/wanted/%d", i%recoveryNames)
		}
		running.Go(func() { workers[i].work(ctx, p, name, start) })
	}
	b.course(tb, start, second)
	cancel()
	running.Wait()
	all, sum := newMoments(second, count), 0
	for i := range count {
		for _, w := range workers {
			all.locks[i], all.waits[i] = all.locks[i]+w.locks[i], max(all.waits[i], w.waits[i])
		}
		sum += all.locks[i]
	}
	assert.Positive(tb, sum, "locks")
	return all
}

func newMoments(step time.Duration, count int) moments {
	return moments{step, make([]int, count), make([]time.Duration, count)}
}

// work locks and unlocks a name until the context ends. A release that fails is the peer's affair:
// what it leaves makes later waits longer.
func (m *moments) work(ctx context.Context, p contention.Mutex, name string, start time.Time) {
	for ctx.Err() == nil {
		since := time.Since(start)
		lock, err := p.Lock(ctx, name)
		for err != nil && ctx.Err() == nil {
			time.Sleep(recoveryPause)
			lock, err = p.Lock(ctx, name)
		}
		if err != nil {
			m.wait(since, time.Duration(len(m.waits))*m.step) // unfinished
			return
		}
		got := time.Since(start)
		m.wait(since, got)
		if i := int(got / m.step); i < len(m.locks) {
			m.locks[i]++
		}
		time.Sleep(recoveryHold)
		releaseWithin(ctx, lock)
	}
}

func releaseWithin(ctx context.Context, lock contention.Unlocker) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), recoveryTimeout)
	defer cancel()
	if lock.Unlock(bounded) != nil {
		return
	}
}

func TestAWaitCountsInEveryMomentThatItGoesOn(t *testing.T) {
	m := newMoments(time.Second, 4)
	m.wait(500*time.Millisecond, 2200*time.Millisecond)
	m.wait(100*time.Millisecond, 300*time.Millisecond)
	m.wait(3900*time.Millisecond, 5*time.Second)
	want := []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, 1700 * time.Millisecond, 100 * time.Millisecond}
	assert.Equal(t, want, m.waits)
}
