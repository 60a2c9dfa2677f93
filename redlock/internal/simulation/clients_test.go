package simulation_test

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
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/internal/proof/virtual"
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
	list  []int // the nodes in it
	route *route

	mu     sync.Mutex // guards the fields below
	locker *redlock.Locker
	past   []*redlock.Locker // closed ones
	lives  int               // number of Lockers so far
}

// newProcess makes a process without a Locker.
func (s *simulation) newProcess(id int, rng *rand.Rand, opts []redlock.Option) *process {
	p := &process{sim: s, id: id, clock: s.Clock, route: &route{sim: s, conns: make(map[int][]*fakeredis.Conn)}, opts: append([]redlock.Option{redlock.WithMaxTTL(s.maxTTL)}, opts...)}
	if !s.faults.restarts && !s.kind.changes && rng.IntN(2) == 0 { // a counter that is lost, or a change, would be too much
		p.clock = &virtual.Skewed{Clock: s.Clock, By: upTo(rng, time.Second) - 500*time.Millisecond}
	}
	if p.list = rng.Perm(len(s.Servers)); s.kind.changes {
		var opts []redlock.Option
		p.list, opts = s.drawList(rng)
		p.opts = append(p.opts, opts...)
	}
	return p
}

// start gives the process a Locker. Each process lists the endpoints in its own order.
func (p *process) start() {
	rng := rand.New(rand.NewPCG(p.sim.seed, uint64(1000+p.id)))
	var endpoints []string
	for _, i := range p.list {
		endpoints = append(endpoints, p.sim.spelled(rng, i))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lives++
	opts := append([]redlock.Option{
		redlock.WithClock(p.clock), redlock.WithPool(pool.WithDialer(p.route.dial)), redlock.WithOwner(p.ownerLocked()),
	}, p.opts...)
	l, err := redlock.New(endpoints, opts...)
	require.NoError(p.sim.T, err)
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

// route is the network between one process and the nodes, some of which may be unreachable.
type route struct {
	sim *simulation

	mu    sync.Mutex // guards the fields below
	cut   uint64     // a bit for each unreachable node
	conns map[int][]*fakeredis.Conn
	held  bool        // nothing that the process writes is sent
	all   []*heldConn // where that happens
}

var errCut = errors.New("no route to the node")

func (r *route) dial(ctx context.Context, network, address string) (net.Conn, error) {
	i := r.sim.nodeAt(address)
	if i < 0 || r.isCut(i) {
		return nil, errCut
	}
	conn, err := r.sim.server(i).Dial(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[i] = append(r.conns[i], conn.(*fakeredis.Conn))
	if !r.sim.kind.changes {
		return conn, nil
	}
	held := &heldConn{Conn: conn, route: r}
	r.all = append(r.all, held)
	return held, nil
}

func (r *route) isCut(i int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cut>>i&1 == 1
}

// set makes the given nodes, and no others, unreachable from now on.
func (r *route) set(cut uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	for i, conns := range r.conns {
		if cut>>i&1 == 1 {
			for _, conn := range conns {
				conn.Reset()
			}
			delete(r.conns, i)
		}
	}
}

// minority returns the bits of fewer than half of the nodes, of as few as are members at any time:
// half of the time as many as possible, and a quarter of the time none.
func (s *simulation) minority(rng *rand.Rand) (nodes uint64) {
	most := (s.fewest() - 1) / 2
	count := []int{0, rng.IntN(most + 1), most, most}[rng.IntN(4)]
	for _, i := range rng.Perm(len(s.Servers))[:count] {
		nodes |= 1 << i
	}
	return nodes
}

// server returns the node that currently answers at an endpoint.
func (s *simulation) server(i int) *fakeredis.Node {
	s.exchange.Lock()
	defer s.exchange.Unlock()
	return s.Servers[i]
}

// client is a goroutine of a process.
type client struct {
	process *process
	who     string
	rng     *rand.Rand
}

func (c *client) sim() *simulation { return c.process.sim }

// name returns one of the names, and some several of them.
func (c *client) name() string { return c.sim().names[c.rng.IntN(len(c.sim().names))] }

func (c *client) some() (names []string) {
	all := c.sim().names
	for _, i := range c.rng.Perm(len(all))[:min(2+c.rng.IntN(2), len(all))] {
		names = append(names, all[i])
	}
	return names
}

// patience returns a context that may end at any moment, or only with the simulation.
func (c *client) patience() (ctx context.Context, cancel context.CancelFunc) {
	base, limit, luck := c.sim().base, c.sim().kind.patience, c.rng.IntN(6)
	switch {
	case limit < 0:
		return context.WithCancel(base)
	case limit > 0:
		return context.WithTimeout(base, limit)
	case luck == 0:
		return context.WithTimeout(base, upTo(c.rng, 10*time.Millisecond))
	case luck == 1:
		return context.WithTimeout(base, upTo(c.rng, 500*time.Millisecond))
	default:
		return context.WithCancel(base)
	}
}

// opts returns options of a lock.
func (c *client) opts() (opts []redlock.LockOption) {
	if c.sim().fenced && c.rng.IntN(4) > 0 {
		opts = append(opts, redlock.WithFencing())
	}
	return opts
}

// calling acquires a lock.
type calling func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error)

// waits makes a call that waits for names, and returns the lock and its tenure, or nil if it gave
// up.
func (c *client) waits(names []string, call calling) (*redlock.Lock, *history.Hold) {
	ctx, cancel := c.patience()
	defer cancel()
	return c.calls(ctx, c.sim().judge.waits(c.who, names), call)
}

// tries makes a call that may be refused. It has the parameters of waits.
func (c *client) tries(_ []string, call calling) (*redlock.Lock, *history.Hold) {
	ctx, cancel := c.patience()
	defer cancel()
	return c.calls(ctx, nil, call)
}

// calls makes a call, which waits unless w is nil.
func (c *client) calls(ctx context.Context, w *wait, call calling) (*redlock.Lock, *history.Hold) {
	s, l, since := c.sim(), c.process.current(), c.sim().Clock.Now()
	lock, err := call(ctx, l)
	if w != nil {
		s.judge.leaves(w)
	}
	var refused *redlock.QuorumError
	switch {
	case err == nil:
		return lock, s.judge.got(c.who, since, lock)
	case w != nil || !errors.As(err, &refused):
		c.judgeEnd(ctx, l, err)
	}
	return nil, nil
}

// judgeEnd fails if a call ended without a reason.
func (c *client) judgeEnd(ctx context.Context, l *redlock.Locker, err error) {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
	case errors.Is(err, redlock.ErrClosed) && l != c.process.current():
	case (c.sim().kind.numbers || c.sim().kind.changes) && errors.Is(err, redlock.ErrInvalid): // above MaxTTL
	default:
		c.sim().judge.fail("%s: a call ended with %v", c.who, err)
	}
}

// hold keeps a lock for a while, or until it is lost, and releases it. It accepts what a call that
// got nothing returns.
func (c *client) hold(lock *redlock.Lock, t *history.Hold) {
	if lock == nil {
		return
	}
	c.keep(lock, c.sim().hold(c.rng))
	c.unlock(lock, t)
}

// keep keeps a lock for a while, or until it is lost. It reports whether it was.
func (c *client) keep(lock *redlock.Lock, d time.Duration) (lost bool) {
	select {
	case <-lock.Done():
		return true
	case <-time.After(d):
		return false
	}
}

func (c *client) unlock(lock *redlock.Lock, t *history.Hold) {
	c.over(lock, t)
	s := c.sim()
	err := lock.Unlock(s.base)
	s.judge.released(t, err)
	if err != nil && !errors.Is(err, redlock.ErrLost) && !errors.Is(err, redlock.ErrNoQuorum) {
		s.judge.fail("%s: Unlock: %v", c.who, err)
	}
}

// over ends a tenure: now, or when the validity ended if that was earlier.
func (c *client) over(lock *redlock.Lock, t *history.Hold) {
	s := c.sim()
	at := s.Clock.Now().Add(min(lock.Remaining(), 0))
	s.judge.over(t, max(at, t.From))
}

// overWhenDone ends a tenure when Done is closed. For clients that call methods of the lock:
// closing the Locker ends the lock at once, but not the calls.
func (c *client) overWhenDone(lock *redlock.Lock, t *history.Hold) {
	go func() {
		<-lock.Done()
		c.over(lock, t)
	}()
}

// changes sets another TTL or verifies the lock, under a context that may end at any moment.
func (c *client) changes(lock *redlock.Lock) {
	ctx, cancel := c.patience()
	defer cancel()
	if c.rng.IntN(3) == 0 {
		_ = lock.Verify(ctx) //nolint:errcheck // nodes may be away
		return
	}
	_ = lock.Extend(ctx, c.sim().maxTTL>>c.rng.IntN(6)) //nolint:errcheck // nodes may be away
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
