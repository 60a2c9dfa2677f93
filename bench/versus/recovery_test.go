package versus

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/load"
	"github.com/redquorum/redquorum/bench/versus/figures"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

var (
	recoveryFile = flag.String("recovery", "", "the file that TestRecovery writes; without it, its course takes a moment")
	recoveryRuns = flag.Int("recovery.runs", 5, "how often TestRecovery takes each peer through its course; an odd number gives medians that were measured")
)

// What all peers of TestRecovery do.
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

func startRecovery(t *testing.T) *recoveryBench {
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
	seconds float64
	begin   func(b *recoveryBench) error
}{
	{figures.Calm, 8, nil},
	{"one killed", 7, func(b *recoveryBench) error { return b.kill(1) }},
	{"two killed", 7, func(b *recoveryBench) error { return b.kill(2) }},
	{"both back, empty", 12, func(b *recoveryBench) error { return b.restart(2) }},
	{figures.Calm, 4, nil},
	{"one stopped", 6, func(b *recoveryBench) error { return b.servers[2].Stop() }},
	{figures.Calm, 4, func(b *recoveryBench) error { return b.servers[2].Continue() }},
	{"one mute", 6, func(b *recoveryBench) error { b.mute.Hold(redistest.Both, true); return nil }},
	{figures.Calm, 4, func(b *recoveryBench) error { b.mute.Heal(); return nil }},
	{"one 200 ms late", 6, func(b *recoveryBench) error { b.late.Delay(redistest.Both, 100*time.Millisecond, 0); return nil }},
	{figures.Calm, 4, func(b *recoveryBench) error { b.late.Heal(); return nil }},
	{"three killed", 6, func(b *recoveryBench) error { return b.kill(3) }},
	{"three back, empty", 12, func(b *recoveryBench) error { return b.restart(3) }},
	{figures.Calm, 4, nil},
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
func (b *recoveryBench) course(t *testing.T, start time.Time, second time.Duration) {
	t.Helper()
	at := start
	for _, phase := range recoveryCourse {
		time.Sleep(time.Until(at))
		if phase.begin != nil {
			require.NoError(t, phase.begin(b))
		}
		at = at.Add(time.Duration(phase.seconds * float64(second)))
	}
	time.Sleep(time.Until(at))
}

// TestRecovery takes every peer through the same faults, on servers of its own, and writes what it
// did in every half second. Peers take turns, and a run is far longer than what disturbs a machine:
// with one run, a disturbance of half of it looked like the peer's own slowness. It asserts no
// figure: it fails when a peer gets no lock at all.
//
//	go test -count=1 -timeout 60m -run 'TestRecovery$' -v . -recovery recovery.json
//
// Without -recovery, it does everything once, in a moment.
func TestRecovery(t *testing.T) {
	path, runs, second := *recoveryFile, *recoveryRuns, time.Second
	if path == "" {
		path, runs, second = filepath.Join(t.TempDir(), "recovery.json"), 1, 10*time.Millisecond
	}
	r := figures.Recovery{
		Environment: environment(t),
		Setup: fmt.Sprintf("five servers, %d workers, half of them at %d names, holds of %v, a TTL of %v",
			recoveryWorkers, recoveryNames, recoveryHold, recoveryTTL),
		Step: 0.5,
	}
	var at float64
	for _, phase := range recoveryCourse {
		r.Phases = append(r.Phases, figures.Phase{Title: phase.title, From: at, To: at + phase.seconds})
		at += phase.seconds
	}
	for _, peer := range recoveryPeers {
		r.Courses = append(r.Courses, figures.Course{Peer: peer.name})
	}
	for run := range runs {
		for turn := range recoveryPeers {
			i := (turn + run) % len(recoveryPeers) // none always follows the same one
			peer := recoveryPeers[i]
			t.Run(fmt.Sprint(peer.name, "/", run), func(t *testing.T) {
				b := startRecovery(t)
				opened, err := peer.open(setup{addresses: b.addresses, goroutines: recoveryWorkers})
				require.NoError(t, err)
				defer func() {
					if err := opened.Close(); err != nil {
						t.Log(err) // with releases for servers that went away
					}
				}()
				r.Courses[i].Runs = append(r.Courses[i].Runs, b.run(t, opened, second, int(at/r.Step)))
			})
		}
	}
	if t.Failed() {
		return
	}
	require.NoError(t, r.Write(path))
	_, err := figures.ReadRecovery(path)
	require.NoError(t, err)
}

// moments is what one worker did.
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

// run takes a peer through the course.
func (b *recoveryBench) run(t *testing.T, p contention.Mutex, second time.Duration, count int) (r figures.Run) {
	t.Helper()
	step := second / 2
	workers := make([]moments, recoveryWorkers)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	start := time.Now()
	var all sync.WaitGroup
	for i := range workers {
		workers[i] = moments{step, make([]int, count), make([]time.Duration, count)}
		name := fmt.Sprintf("versus/recovery/%d", i)
		if i < recoveryWorkers/2 {
			name = fmt.Sprintf("versus/recovery/wanted/%d", i%recoveryNames)
		}
		all.Go(func() { workers[i].work(ctx, p, name, start) })
	}
	b.course(t, start, second)
	cancel()
	all.Wait()
	var sum float64
	for i := range count {
		locks, wait := 0, time.Duration(0)
		for _, w := range workers {
			locks, wait = locks+w.locks[i], max(wait, w.waits[i])
		}
		sum += float64(locks)
		r.Locks = append(r.Locks, float64(locks)/step.Seconds())
		r.Waits = append(r.Waits, load.Millis(wait))
	}
	assert.Positive(t, sum, "locks")
	r.Locks, r.Waits = figures.Rounded(r.Locks), figures.Rounded(r.Waits)
	return r
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
	m := moments{time.Second, make([]int, 4), make([]time.Duration, 4)}
	m.wait(500*time.Millisecond, 2200*time.Millisecond)
	m.wait(100*time.Millisecond, 300*time.Millisecond)
	m.wait(3900*time.Millisecond, 5*time.Second)
	want := []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, 1700 * time.Millisecond, 100 * time.Millisecond}
	assert.Equal(t, want, m.waits)
}
