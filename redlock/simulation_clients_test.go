package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// process stands for an operating system process: its clients and a Locker, which is closed now and
// then and replaced by a new one.
type process struct {
	sim   *simulation
	id    int
	clock clock.Clock // the simulation's; the wall clock may be off
	opts  []redlock.Option
	route *route // nil if all nodes are reachable

	mu     sync.Mutex // guards the fields below
	locker *redlock.Locker
	past   []*redlock.Locker // closed ones
	lives  int               // number of Lockers so far
}

// client is a goroutine of a process.
type client struct {
	process *process
	who     string
	rng     *rand.Rand
}

// start gives the process a Locker. Each process lists the endpoints in its own order.
func (p *process) start() {
	rng := rand.New(rand.NewPCG(p.sim.seed, uint64(1000+p.id)))
	var endpoints []string
	for _, i := range rng.Perm(len(p.sim.servers)) {
		endpoints = append(endpoints, fmt.Sprintf("node%d:6379", i))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lives++
	opts := append([]redlock.Option{
		redlock.WithClock(p.clock), redlock.WithPool(pool.WithDialer(p.dialer())), redlock.WithOwner(p.ownerLocked()),
	}, p.opts...)
	l, err := redlock.New(endpoints, opts...)
	require.NoError(p.sim.t, err)
	if p.locker != nil {
		p.past = append(p.past, p.locker)
	}
	p.locker = l
}

// owner returns the suffix of the current Locker's values.
func (p *process) owner() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ownerLocked()
}

func (p *process) ownerLocked() string { return fmt.Sprintf("process%d.%d", p.id, p.lives) }

func (p *process) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	if p.route != nil {
		return p.route.dial
	}
	return p.sim.dialer()
}

func (p *process) current() *redlock.Locker {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.locker
}

// replace closes the Locker while its clients use it, and gives the process a new one.
func (p *process) replace() {
	old := p.current()
	p.start()
	_ = old.Close()
}

// addStats adds the counters of all Lockers that the process has had.
func (p *process) addStats(sum *redlock.Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range append(p.past[:len(p.past):len(p.past)], p.locker) {
		s := l.Stats()
		sum.HandedOver += s.HandedOver
		sum.Woken += s.Woken
		sum.Polls += s.Polls
		sum.Split += s.Split
		sum.SecondRounds += s.SecondRounds
	}
}

// run performs one random operation after another until the simulation ends.
func (c *client) run() {
	for c.process.sim.goesOn() {
		switch s := c.process.sim; c.rng.IntN(10) {
		case 0:
			c.attempt()
		case 1:
			c.set()
		case 2:
			c.do()
		default:
			c.lock(s.names[c.rng.IntN(len(s.names))])
		}
		if c.rng.IntN(3) == 0 {
			time.Sleep(upTo(c.rng, 30*time.Millisecond))
		}
	}
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

// patience returns a context that may end at any moment, or only with the simulation.
func (c *client) patience() (ctx context.Context, cancel context.CancelFunc) {
	base := c.process.sim.base
	switch c.rng.IntN(6) {
	case 0:
		return context.WithTimeout(base, upTo(c.rng, 10*time.Millisecond))
	case 1:
		return context.WithTimeout(base, upTo(c.rng, 500*time.Millisecond))
	default:
		return context.WithCancel(base)
	}
}

func (c *client) opts() (opts []redlock.LockOption) {
	if c.process.sim.fenced && c.rng.IntN(4) > 0 {
		opts = append(opts, redlock.WithFencing())
	}
	if d := c.process.sim.minHold(c.rng); d > 0 {
		opts = append(opts, redlock.WithMinHold(d))
	}
	return opts
}

func (c *client) name() string { return c.process.sim.names[c.rng.IntN(len(c.process.sim.names))] }

func (c *client) lock(name string) {
	ctx, cancel := c.patience()
	defer cancel()
	s, l := c.process.sim, c.process.current()
	w := s.judge.waits(name)
	c.call("Lock %s", name)
	lock, err := l.Lock(ctx, name, c.opts()...)
	s.judge.leaves(w)
	if err == nil {
		c.hold(lock, w.since)
	} else {
		c.judgeWait(ctx, l, err)
	}
}

// judgeWait fails if a wait ended without a reason.
func (c *client) judgeWait(ctx context.Context, l *redlock.Locker, err error) {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
	case errors.Is(err, redlock.ErrClosed) && l != c.process.current():
	default:
		c.process.sim.judge.fail("%s: a wait ended with %v", c.who, err)
	}
}

func (c *client) set() {
	ctx, cancel := c.patience()
	defer cancel()
	s, l := c.process.sim, c.process.current()
	var names []string
	for _, i := range c.rng.Perm(len(s.names))[:min(2+c.rng.IntN(2), len(s.names))] {
		names = append(names, s.names[i])
	}
	w := s.judge.waits(names...)
	c.call("LockAll %v", names)
	lock, err := l.LockAll(ctx, names, c.opts()...)
	s.judge.leaves(w)
	if err == nil {
		c.hold(lock, w.since)
	} else {
		c.judgeWait(ctx, l, err)
	}
}

func (c *client) attempt() {
	ctx, cancel := c.patience()
	defer cancel()
	l, since := c.process.current(), c.process.sim.clock.Now()
	name := c.name()
	c.call("TryLock %s", name)
	lock, err := l.TryLock(ctx, name, c.opts()...)
	var failure *redlock.QuorumError
	switch {
	case err == nil:
		c.hold(lock, since)
	case errors.As(err, &failure):
	default:
		c.judgeWait(ctx, l, err)
	}
}

func (c *client) do() {
	ctx, cancel := c.patience()
	defer cancel()
	l, since := c.process.current(), c.process.sim.clock.Now()
	run, name := false, c.name()
	c.call("Do %s", name)
	err := l.Do(ctx, name, func(ctx context.Context, lock *redlock.Lock) error {
		run = true
		t := c.process.sim.judge.got(c.who, since, lock)
		select {
		case <-ctx.Done():
		case <-time.After(upTo(c.rng, 20*time.Millisecond)):
		}
		c.over(t, lock)
		return nil
	}, c.opts()...)
	if !run {
		c.judgeWait(ctx, l, err)
	}
}

// hold keeps a lock for a while, or until it is lost, and releases it. The call began at since.
func (c *client) hold(lock *redlock.Lock, since clock.Instant) {
	s := c.process.sim
	t := s.judge.got(c.who, since, lock)
	d := s.hold(c.rng)
	select {
	case <-lock.Done():
	case <-time.After(d):
	}
	c.unlock(t, lock)
}

func (c *client) unlock(t *tenure, lock *redlock.Lock) {
	c.over(t, lock)
	s := c.process.sim
	err := lock.Unlock(s.base)
	s.judge.released(t, err)
	if err != nil && !errors.Is(err, redlock.ErrLost) && !errors.Is(err, redlock.ErrNoQuorum) {
		s.judge.fail("%s: Unlock: %v", c.who, err)
	}
}

// over ends a tenure: now, or when the validity ended if that was earlier.
func (c *client) over(t *tenure, lock *redlock.Lock) {
	s := c.process.sim
	at := s.clock.Now().Add(min(lock.Remaining(), 0))
	s.judge.over(t, max(at, t.from))
}

// overWhenDone ends a tenure when Done is closed. For clients that call methods of the lock:
// closing the Locker ends the lock at once, but not the calls.
func (c *client) overWhenDone(t *tenure, lock *redlock.Lock) {
	go func() {
		<-lock.Done()
		c.over(t, lock)
	}()
}
