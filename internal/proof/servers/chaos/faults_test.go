//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// fault is one that was done.
type fault struct {
	name, where string
	from, to    clock.Instant // to is when its cause was over
}

// card is a kind of fault. One of the functions is set. Each returns when the fault is over.
type card struct {
	name string

	// At one side or both.
	network func(ctx context.Context, rng *rand.Rand, p *redistest.Proxy)
	// At one side, of three masters.
	partition func(ctx context.Context, rng *rand.Rand, a *arena, side int, cut []*node) error

	master func(ctx context.Context, rng *rand.Rand, a *arena, n *node) error
	client func(ctx context.Context, rng *rand.Rand, a *arena, p *process) error
	store  func(p *redistest.Proxy)

	forgets bool // the master must be taken for new
	durable bool // for durable masters only
	right   bool // for masters with the right clock only
}

// deck has every kind of fault, and twice those that are the hardest.
var deck = []card{
	{name: "requests lost", network: lasting(func(p *redistest.Proxy, on bool) { p.Drop(redistest.Requests, on) })},
	{name: "replies lost", network: lasting(func(p *redistest.Proxy, on bool) { p.Drop(redistest.Replies, on) })},
	{name: "black hole", network: lasting(func(p *redistest.Proxy, on bool) { p.Drop(redistest.Both, on) })},
	{name: "mute", network: lasting(func(p *redistest.Proxy, on bool) { p.Hold(redistest.Both, on) })},
	{name: "replies held", network: lasting(func(p *redistest.Proxy, on bool) { p.Hold(redistest.Replies, on) })},
	{name: "connections refused", network: lasting(func(p *redistest.Proxy, on bool) { p.Refuse(on); p.Reset() })},
	{name: "delay with jitter", network: func(ctx context.Context, rng *rand.Rand, p *redistest.Proxy) {
		base := upTo(rng, 100*time.Millisecond)
		p.Delay(redistest.Both, base, base)
		pause(ctx, someTime(rng))
		p.Delay(redistest.Both, 0, 0)
	}},
	{name: "trickle", network: func(ctx context.Context, rng *rand.Rand, p *redistest.Proxy) {
		p.Trickle(time.Millisecond + upTo(rng, 10*time.Millisecond))
		pause(ctx, someTime(rng))
		p.Trickle(0)
	}},
	{name: "cut after write", network: repeated(func(_ *rand.Rand, p *redistest.Proxy) { p.CutAfterRequest() })},
	{name: "reply cut in the middle", network: repeated(func(rng *rand.Rand, p *redistest.Proxy) { p.CutReplies(1 + rng.IntN(60)) })},
	{name: "reset", network: repeated(func(_ *rand.Rand, p *redistest.Proxy) { p.Reset() })},

	{name: "partition of a majority", partition: cutOff},
	{name: "FLUSHALL, two cut off", forgets: true, partition: behind(flush)},
	{name: "FLUSHALL, two cut off", forgets: true, partition: behind(flush)},
	{name: "restart, two cut off", forgets: true, partition: behind(restartEmpty)},
	{name: "restart, two cut off", forgets: true, partition: behind(restartEmpty)},

	{name: "closed by the server", master: closed},
	{name: "kill and empty restart", master: restartEmpty, forgets: true},
	{name: "kill and restart with AOF", master: restartFull, durable: true},
	{name: "server stopped", master: stopped},
	{name: "FLUSHALL", master: flush, forgets: true},
	{name: "SCRIPT FLUSH", master: func(_ context.Context, _ *rand.Rand, _ *arena, n *node) error {
		_, err := n.server.Do("SCRIPT", "FLUSH")
		return err
	}},
	{name: "OOM", master: configured("maxmemory", "1", "0")},
	{name: "no replicas", master: configured("min-replicas-to-write", "1", "0")},
	{name: "READONLY", master: replica, forgets: true, right: true},

	{name: "client stopped", client: stopClient},
	{name: "client killed", client: func(_ context.Context, _ *rand.Rand, a *arena, p *process) error { return a.replace(p) }},
	{name: "store cut after write", store: func(p *redistest.Proxy) { p.CutAfterRequest() }},
	{name: "store reset", store: (*redistest.Proxy).Reset},
}

// someTime is how long most faults last.
func someTime(rng *rand.Rand) time.Duration {
	return 300*time.Millisecond + upTo(rng, 1700*time.Millisecond)
}

func lasting(set func(p *redistest.Proxy, on bool)) func(context.Context, *rand.Rand, *redistest.Proxy) {
	return func(ctx context.Context, rng *rand.Rand, p *redistest.Proxy) {
		set(p, true)
		pause(ctx, someTime(rng))
		set(p, false)
	}
}

// repeated does what happens to one connection or call a few times.
func repeated(do func(rng *rand.Rand, p *redistest.Proxy)) func(context.Context, *rand.Rand, *redistest.Proxy) {
	return func(ctx context.Context, rng *rand.Rand, p *redistest.Proxy) {
		for range 3 + rng.IntN(10) {
			do(rng, p)
			pause(ctx, upTo(rng, 100*time.Millisecond))
		}
		p.Heal() // a cut that has not happened yet
	}
}

// cutOff leaves the clients of a side no quorum.
func cutOff(ctx context.Context, rng *rand.Rand, _ *arena, side int, cut []*node) error {
	for _, n := range cut {
		n.proxies[side].Drop(redistest.Both, true)
	}
	pause(ctx, someTime(rng)/2)
	for _, n := range cut {
		n.proxies[side].Drop(redistest.Both, false)
	}
	return nil
}

// behind has the first master forget what it gave to clients that could not reach the two others.
// If its vote counted afterwards, it would make a second majority with them.
func behind(forget func(context.Context, *rand.Rand, *arena, *node) error) func(context.Context, *rand.Rand, *arena, int, []*node) error {
	return func(ctx context.Context, rng *rand.Rand, a *arena, side int, cut []*node) error {
		for _, n := range cut[1:] {
			n.proxies[side].Drop(redistest.Both, true)
		}
		pause(ctx, ttl+someTime(rng)) // so that all locks of that side are of the other masters
		err := forget(ctx, rng, a, cut[0])
		pause(ctx, someTime(rng)/2)
		for _, n := range cut[1:] {
			n.proxies[side].Drop(redistest.Both, false)
		}
		return err
	}
}

// closed ends all connections at the server, so its clients see the end of the stream.
func closed(ctx context.Context, rng *rand.Rand, _ *arena, n *node) error {
	for range 1 + rng.IntN(4) {
		for _, kind := range []string{"normal", "pubsub"} {
			if _, err := n.server.Do("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"); err != nil {
				return err
			}
		}
		pause(ctx, upTo(rng, 100*time.Millisecond))
	}
	return nil
}

func flush(_ context.Context, _ *rand.Rand, _ *arena, n *node) error { return n.server.FlushAll() }

func restartEmpty(ctx context.Context, rng *rand.Rand, _ *arena, n *node) error {
	words, err := redis.Strings(n.server.Do("CONFIG", "GET", "dir"))
	if err != nil {
		return err
	}
	if err := n.kill(); err != nil {
		return err
	}
	if err := n.loseDisk(words[1]); err != nil {
		return err
	}
	if rng.IntN(2) == 0 { // otherwise at once
		pause(ctx, upTo(rng, time.Second))
	}
	return n.server.Restart()
}

func restartFull(ctx context.Context, rng *rand.Rand, _ *arena, n *node) error {
	if err := n.kill(); err != nil {
		return err
	}
	pause(ctx, upTo(rng, time.Second))
	return n.server.Restart()
}

func stopped(ctx context.Context, rng *rand.Rand, _ *arena, n *node) error {
	if err := n.server.Stop(); err != nil {
		return err
	}
	pause(ctx, someTime(rng))
	return n.server.Continue()
}

func configured(name, value, after string) func(context.Context, *rand.Rand, *arena, *node) error {
	return func(ctx context.Context, rng *rand.Rand, _ *arena, n *node) error {
		if _, err := n.server.Do("CONFIG", "SET", name, value); err != nil {
			return err
		}
		pause(ctx, someTime(rng))
		_, err := n.server.Do("CONFIG", "SET", name, after)
		return err
	}
}

// replica makes a master follow another one, and be a master again with what that one knows.
func replica(ctx context.Context, rng *rand.Rand, a *arena, n *node) error {
	of := a.sound(n)
	if of == nil {
		return errors.New("no master without a fault")
	}
	host, port, err := net.SplitHostPort(of.server.Addr())
	if err != nil {
		return err
	}
	if _, err := n.server.Do("REPLICAOF", host, port); err != nil {
		return err
	}
	pause(ctx, someTime(rng))
	_, err = n.server.Do("REPLICAOF", "NO", "ONE")
	return err
}

// stopClient stops a client, often for longer than its locks are valid.
func stopClient(ctx context.Context, rng *rand.Rand, a *arena, p *process) error {
	f := &fault{from: now(), to: now().Add(time.Hour)}
	a.mu.Lock()
	p.stops = append(p.stops, f)
	a.mu.Unlock()
	if err := p.Stop(); err != nil {
		return err
	}
	pause(ctx, 100*time.Millisecond+upTo(rng, 2*ttl))
	err := p.Continue()
	a.mu.Lock()
	f.to = now()
	a.mu.Unlock()
	return err
}

var bothSides = []int{0, 1}

const (
	// Faults begin so far apart.
	shortestGap = 800 * time.Millisecond
	longestGap  = 1600 * time.Millisecond
)

// dealer deals the faults of a shuffled deck, again and again.
type dealer struct {
	*arena
	shuffles *rand.Rand // apart from what depends on the timing, so that a seed repeats them
	draws    *rand.Rand
	hand     []card
	done     sync.WaitGroup // the faults that are under way
}

// deal does faults until ctx ends, and returns when all are over.
func (a *arena) deal(ctx context.Context) {
	d := &dealer{arena: a, shuffles: rand.New(rand.NewPCG(a.seed, 1)), draws: rand.New(rand.NewPCG(a.seed, 2))}
	for ctx.Err() == nil {
		if d.next(ctx) {
			pause(ctx, shortestGap+upTo(d.draws, longestGap-shortestGap))
		} else {
			pause(ctx, 20*time.Millisecond) // too much is broken
		}
	}
	d.done.Wait()
	for _, n := range a.nodes {
		for _, p := range n.proxies {
			p.Heal()
		}
	}
	a.store.Heal()
}

// next begins the first fault of the hand that has a target now.
func (d *dealer) next(ctx context.Context) bool {
	if len(d.hand) == 0 {
		for _, i := range d.shuffles.Perm(len(deck)) {
			d.hand = append(d.hand, deck[i])
		}
	}
	for i, c := range d.hand {
		if play := d.aim(c, rand.New(rand.NewPCG(d.draws.Uint64(), 0))); play != nil {
			d.hand = append(d.hand[:i:i], d.hand[i+1:]...)
			d.done.Go(func() { play(ctx) })
			return true
		}
	}
	return false
}

// aim finds a target and returns what to do to it, or nil.
func (d *dealer) aim(c card, rng *rand.Rand) func(ctx context.Context) {
	switch {
	case c.network != nil:
		return d.aimNetwork(c, rng)
	case c.partition != nil:
		return d.aimPartition(c, rng)
	case c.client != nil:
		p := d.victim(rng)
		if p == nil {
			return nil
		}
		return func(ctx context.Context) {
			d.note(c.name, fmt.Sprintf("client %d", p.id), func() error { return c.client(ctx, rng, d.arena, p) })
			d.mu.Lock()
			defer d.mu.Unlock()
			p.busy = false
		}
	case c.store != nil:
		return func(context.Context) {
			d.note(c.name, "store", func() error { c.store(d.store); return nil })
		}
	}
	n := d.free(rng, bothSides, func(n *node) bool { return (n.durable || !c.durable) && !(n.wrong && c.right) })
	if n == nil {
		return nil
	}
	return func(ctx context.Context) {
		d.note(c.name, fmt.Sprintf("master %d", n.index), func() error { return c.master(ctx, rng, d.arena, n) })
		if c.forgets {
			// Also after the end: what is left to check begins when the master votes.
			d.forgot(context.WithoutCancel(ctx), n)
		}
		d.release(n, bothSides)
	}
}

func (d *dealer) aimNetwork(c card, rng *rand.Rand) func(ctx context.Context) {
	sides := [][]int{{0}, {1}, bothSides}[rng.IntN(3)]
	n := d.free(rng, sides, func(*node) bool { return true })
	if n == nil {
		return nil
	}
	return func(ctx context.Context) {
		seed := rng.Uint64()
		d.note(c.name, fmt.Sprintf("master %d, sides %v", n.index, sides), func() error {
			var all sync.WaitGroup
			for _, side := range sides {
				all.Go(func() { c.network(ctx, rand.New(rand.NewPCG(seed, 0)), n.proxies[side]) })
			}
			all.Wait()
			return nil
		})
		d.release(n, sides)
	}
}

// aimPartition cuts a side off from masters. It may leave that side no quorum, as the network may
// at any time. If a master forgets as well, then no other one may have forgotten.
func (d *dealer) aimPartition(c card, rng *rand.Rand) func(ctx context.Context) {
	side := rng.IntN(sideCount)
	d.mu.Lock()
	defer d.mu.Unlock()
	var cut []*node
	for _, i := range rng.Perm(nodeCount) {
		n := d.nodes[i]
		if c.forgets && n.faulty[0] && n.faulty[1] {
			return nil
		}
		if n.soundLocked(bothSides) && len(cut) < nodeCount-minority {
			cut = append(cut, n)
		}
	}
	if len(cut) < nodeCount-minority {
		return nil
	}
	sides, where := []int{side}, fmt.Sprintf("side %d, masters", side)
	if c.forgets {
		sides = bothSides // the other side shall find the masters that the first one does not
	}
	for _, n := range cut {
		n.markLocked(sides, true)
		where += fmt.Sprint(" ", n.index)
	}
	return func(ctx context.Context) {
		d.note(c.name, where, func() error { return c.partition(ctx, rng, d.arena, side, cut) })
		for _, n := range cut[1:] {
			d.release(n, sides)
		}
		if c.forgets {
			d.forgot(context.WithoutCancel(ctx), cut[0])
		}
		d.release(cut[0], sides)
	}
}

// note does a fault and keeps it for the report.
func (d *dealer) note(name, where string, do func() error) {
	f := &fault{name: name, where: where, from: now()}
	d.mu.Lock()
	d.faults = append(d.faults, f)
	d.mu.Unlock()
	err := do()
	d.mu.Lock()
	f.to = now()
	d.mu.Unlock()
	assert.NoError(d.t, err, "%s: %s", name, where)
}
