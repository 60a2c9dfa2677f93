package versus

import (
	"context"
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/redquorum/redquorum/bench/versus/figures"
	"github.com/redquorum/redquorum/redlock"
)

var (
	recoveryFile   = flag.String("recovery", "", "the file that TestRecovery writes; without it, its course takes a moment")
	recoverySecond = flag.Duration("recovery.second", time.Second, "how long a second of the course of TestRecovery takes")
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
	open func(setup) (recoveryPeer, error)
}{
	{"redquorum", openRecoveringRedquorum},
	{"redsync-rueidis", openRecoveringRedsync()},
	{"redsync-rueidis-failfast", openRecoveringRedsync(redsync.WithFailFast(true))},
}

// recoveryPeer waits for locks.
type recoveryPeer interface {
	lock(ctx context.Context, name string) (unlock func(context.Context) error, err error)
	close() error
}

func openRecoveringRedquorum(s setup) (recoveryPeer, error) {
	opened, err := openRedquorumWith(s, redlock.WithTTL(recoveryTTL), redlock.WithMaxTTL(recoveryMaxTTL))
	if err != nil {
		return nil, err
	}
	return opened.(*redquorumPeer), nil
}

func (p *redquorumPeer) lock(ctx context.Context, name string) (func(context.Context) error, error) {
	lock, err := p.locker.Lock(ctx, name)
	if err != nil {
		return nil, err
	}
	return lock.Unlock, nil
}

func openRecoveringRedsync(options ...redsync.Option) func(setup) (recoveryPeer, error) {
	return func(s setup) (recoveryPeer, error) {
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

func (p *redsyncPeer) lock(ctx context.Context, name string) (func(context.Context) error, error) {
	mutex := p.redsync.NewMutex(name, p.options...)
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		_, err := mutex.UnlockContext(ctx)
		return err
	}, nil
}

// TestRecovery takes every peer through the same faults, on servers of its own, and writes what it
// did in every half second. It asserts no figure: it fails when a peer gets no lock at all.
//
//	go test -count=1 -timeout 30m -run 'TestRecovery$' -v . -recovery recovery.json
//
// Without -recovery, it does everything in a moment.
func TestRecovery(t *testing.T) {
	path, second := *recoveryFile, *recoverySecond
	if path == "" {
		path, second = filepath.Join(t.TempDir(), "recovery.json"), 10*time.Millisecond
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
		t.Run(peer.name, func(t *testing.T) {
			b := startRecovery(t)
			opened, err := peer.open(setup{addresses: b.addresses, goroutines: recoveryWorkers})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := opened.close(); err != nil {
					t.Log(err) // with releases for servers that went away
				}
			}()
			course := b.run(t, opened, second, int(at/r.Step))
			course.Peer = peer.name
			r.Courses = append(r.Courses, course)
		})
	}
	if t.Failed() {
		return
	}
	if err := r.Write(path); err != nil {
		t.Fatal(err)
	}
	if _, err := figures.ReadRecovery(path); err != nil {
		t.Error(err)
	}
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
func (b *recoveryBench) run(t *testing.T, p recoveryPeer, second time.Duration, count int) (c figures.Course) {
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
		c.Locks = append(c.Locks, float64(locks)/step.Seconds())
		c.Waits = append(c.Waits, micros(wait)/1000)
	}
	if sum == 0 {
		t.Error("no lock")
	}
	c.Locks, c.Waits = figures.Rounded(c.Locks), figures.Rounded(c.Waits)
	return c
}

// work locks and unlocks a name until the context ends. A release that fails is the peer's affair:
// what it leaves makes later waits longer.
func (m *moments) work(ctx context.Context, p recoveryPeer, name string, start time.Time) {
	for ctx.Err() == nil {
		since := time.Since(start)
		unlock, err := p.lock(ctx, name)
		for err != nil && ctx.Err() == nil {
			time.Sleep(recoveryPause)
			unlock, err = p.lock(ctx, name)
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
		releaseWithin(ctx, unlock)
	}
}

func releaseWithin(ctx context.Context, unlock func(context.Context) error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), recoveryTimeout)
	defer cancel()
	if unlock(bounded) != nil {
		return
	}
}

func TestAWaitCountsInEveryMomentThatItGoesOn(t *testing.T) {
	m := moments{time.Second, make([]int, 4), make([]time.Duration, 4)}
	m.wait(500*time.Millisecond, 2200*time.Millisecond)
	m.wait(100*time.Millisecond, 300*time.Millisecond)
	m.wait(3900*time.Millisecond, 5*time.Second)
	want := []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, 1700 * time.Millisecond, 100 * time.Millisecond}
	if !slices.Equal(m.waits, want) {
		t.Errorf("got %v, want %v", m.waits, want)
	}
}
