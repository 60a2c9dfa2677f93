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

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// card is a kind of fault.
type card struct {
	name string
	aim  func(a *arena, c card, rng *rand.Rand) *fault // finds what it can be done to now, or nil
	do   func(ctx context.Context, f *fault) error     // returns when its cause is over

	forgets bool // the first master must be taken for new
	durable bool // for durable masters only
	right   bool // for masters with the right clock only
}

// fault is one that is done or was done.
type fault struct {
	*arena
	name, where string
	rng         *rand.Rand
	from, to    clock.Instant // to is when its cause was over

	nodes   []*node // that have it, at the sides
	sides   []int
	client  *process
	serving *serving // a server of doors
}

// deck has every kind of fault, and twice those that are the hardest.
var deck = []card{
	{name: "requests lost", aim: aimNetwork, do: lasting(func(p *redistest.Proxy, on bool) { p.Drop(redistest.Requests, on) })},
	{name: "replies lost", aim: aimNetwork, do: lasting(func(p *redistest.Proxy, on bool) { p.Drop(redistest.Replies, on) })},
	{name: "black hole", aim: aimNetwork, do: lasting(func(p *redistest.Proxy, on bool) { p.Drop(redistest.Both, on) })},
	{name: "mute", aim: aimNetwork, do: lasting(func(p *redistest.Proxy, on bool) { p.Hold(redistest.Both, on) })},
	{name: "replies held", aim: aimNetwork, do: lasting(func(p *redistest.Proxy, on bool) { p.Hold(redistest.Replies, on) })},
	{name: "connections refused", aim: aimNetwork, do: lasting(func(p *redistest.Proxy, on bool) { p.Refuse(on); p.Reset() })},
	{name: "delay with jitter", aim: aimNetwork, do: func(ctx context.Context, f *fault) error {
		base := upTo(f.rng, 100*time.Millisecond)
		f.network(func(p *redistest.Proxy) { p.Delay(redistest.Both, base, base) })
		pause(ctx, f.someTime())
		f.network(func(p *redistest.Proxy) { p.Delay(redistest.Both, 0, 0) })
		return nil
	}},
	{name: "trickle", aim: aimNetwork, do: func(ctx context.Context, f *fault) error {
		every := time.Millisecond + upTo(f.rng, 10*time.Millisecond)
		f.network(func(p *redistest.Proxy) { p.Trickle(every) })
		pause(ctx, f.someTime())
		f.network(func(p *redistest.Proxy) { p.Trickle(0) })
		return nil
	}},
	{name: "cut after write", aim: aimNetwork, do: repeated(func(f *fault) { f.network((*redistest.Proxy).CutAfterRequest) })},
	{name: "reply cut in the middle", aim: aimNetwork, do: repeated(func(f *fault) {
		f.network(func(p *redistest.Proxy) { p.CutReplies(1 + f.rng.IntN(60)) })
	})},
	{name: "reset", aim: aimNetwork, do: repeated(func(f *fault) { f.network((*redistest.Proxy).Reset) })},

	{name: "partition of a majority", aim: aimPartition, do: func(ctx context.Context, f *fault) error {
		f.cut(f.nodes, true)
		pause(ctx, f.someTime()/2)
		f.cut(f.nodes, false)
		return nil
	}},
	{name: "FLUSHALL, two cut off", aim: aimPartition, do: behind(flush), forgets: true},
	{name: "FLUSHALL, two cut off", aim: aimPartition, do: behind(flush), forgets: true},
	{name: "restart, two cut off", aim: aimPartition, do: behind(restartEmpty), forgets: true},
	{name: "restart, two cut off", aim: aimPartition, do: behind(restartEmpty), forgets: true},

	{name: "closed by the server", aim: aimMaster, do: closed},
	{name: "kill and empty restart", aim: aimMaster, do: restartEmpty, forgets: true},
	{name: "kill and restart with AOF", aim: aimMaster, do: restartFull, durable: true},
	{name: "server stopped", aim: aimMaster, do: stopped},
	{name: "FLUSHALL", aim: aimMaster, do: flush, forgets: true},
	{name: "SCRIPT FLUSH", aim: aimMaster, do: func(_ context.Context, f *fault) error { return f.tell("SCRIPT", "FLUSH") }},
	{name: "OOM", aim: aimMaster, do: configured("maxmemory", "1", "0")},
	{name: "no replicas", aim: aimMaster, do: configured("min-replicas-to-write", "1", "0")},
	{name: "READONLY", aim: aimMaster, do: replica, forgets: true, right: true},

	{name: "client stopped", aim: aimClient, do: stopClient},
	{name: "client killed", aim: aimClient, do: func(_ context.Context, f *fault) error { return f.replace(f.client) }},
	{name: "store cut after write", aim: aimStore, do: func(_ context.Context, f *fault) error { f.store.CutAfterRequest(); return nil }},
	{name: "store reset", aim: aimStore, do: func(_ context.Context, f *fault) error { f.store.Reset(); return nil }},
}

func aimStore(*arena, card, *rand.Rand) *fault { return &fault{where: "store"} }

func aimClient(a *arena, _ card, rng *rand.Rand) *fault {
	p := a.victim(rng)
	if p == nil {
		return nil
	}
	return &fault{where: fmt.Sprintf("client %d", p.id), client: p}
}

func aimMaster(a *arena, c card, rng *rand.Rand) *fault {
	n := a.free(rng, bothSides, func(n *node) bool { return (n.durable || !c.durable) && !(n.wrong && c.right) })
	if n == nil {
		return nil
	}
	return &fault{where: fmt.Sprintf("master %d", n.index), nodes: []*node{n}, sides: bothSides}
}

func aimNetwork(a *arena, _ card, rng *rand.Rand) *fault {
	sides := [][]int{{0}, {1}, bothSides}[rng.IntN(3)]
	n := a.free(rng, sides, func(*node) bool { return true })
	if n == nil {
		return nil
	}
	return &fault{where: fmt.Sprintf("master %d, sides %v", n.index, sides), nodes: []*node{n}, sides: sides}
}

// aimPartition cuts a side off from masters. It may leave that side no quorum, as the network may
// at any time. If a master forgets as well, then no other one may have forgotten.
func aimPartition(a *arena, c card, rng *rand.Rand) *fault {
	side := rng.IntN(sideCount)
	a.mu.Lock()
	defer a.mu.Unlock()
	f := &fault{where: fmt.Sprintf("side %d, masters", side), sides: []int{side}}
	for _, i := range rng.Perm(nodeCount) {
		n := a.nodes[i]
		if c.forgets && n.faulty[0] && n.faulty[1] {
			return nil
		}
		if n.soundLocked(bothSides) && len(f.nodes) < nodeCount-minority {
			f.nodes = append(f.nodes, n)
			f.where += fmt.Sprint(" ", i)
		}
	}
	if len(f.nodes) < nodeCount-minority {
		return nil
	}
	if c.forgets {
		f.sides = []int{side, 1 - side} // the other one shall find the masters that the first one does not
	}
	for _, n := range f.nodes {
		n.markLocked(f.sides, true)
	}
	return f
}

// network does something to the connections of the first master.
func (f *fault) network(do func(p *redistest.Proxy)) {
	for _, side := range f.sides {
		do(f.nodes[0].proxies[side])
	}
}

// cut cuts the first side off from masters.
func (f *fault) cut(nodes []*node, on bool) {
	for _, n := range nodes {
		n.proxies[f.sides[0]].Drop(redistest.Both, on)
	}
}

func (f *fault) server() *redistest.Server { return f.nodes[0].server }

func (f *fault) tell(command string, args ...any) error {
	_, err := f.server().Do(command, args...)
	return err
}

// someTime is how long most faults last.
func (f *fault) someTime() time.Duration {
	return 300*time.Millisecond + upTo(f.rng, 1700*time.Millisecond)
}

func lasting(set func(p *redistest.Proxy, on bool)) func(context.Context, *fault) error {
	return func(ctx context.Context, f *fault) error {
		f.network(func(p *redistest.Proxy) { set(p, true) })
		pause(ctx, f.someTime())
		f.network(func(p *redistest.Proxy) { set(p, false) })
		return nil
	}
}

// repeated does what happens to one connection or call a few times.
func repeated(do func(f *fault)) func(context.Context, *fault) error {
	return func(ctx context.Context, f *fault) error {
		for range 3 + f.rng.IntN(10) {
			do(f)
			pause(ctx, upTo(f.rng, 100*time.Millisecond))
		}
		f.network((*redistest.Proxy).Heal) // a cut that has not happened yet
		return nil
	}
}

// behind has the first master forget what it gave to clients that could not reach the two others.
// If its vote counted afterwards, it would make a second majority with them.
func behind(forget func(context.Context, *fault) error) func(context.Context, *fault) error {
	return func(ctx context.Context, f *fault) error {
		f.cut(f.nodes[1:], true)
		pause(ctx, ttl+f.someTime()) // so that all locks of that side are of the other masters
		err := forget(ctx, f)
		pause(ctx, f.someTime()/2)
		f.cut(f.nodes[1:], false)
		return err
	}
}

// closed ends all connections at the server, so its clients see the end of the stream.
func closed(ctx context.Context, f *fault) error {
	for range 1 + f.rng.IntN(4) {
		for _, kind := range []string{"normal", "pubsub"} {
			if err := f.tell("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"); err != nil {
				return err
			}
		}
		pause(ctx, upTo(f.rng, 100*time.Millisecond))
	}
	return nil
}

func flush(_ context.Context, f *fault) error { return f.server().FlushAll() }

func restartEmpty(ctx context.Context, f *fault) error {
	if err := f.nodes[0].kill(); err != nil {
		return err
	}
	if err := f.server().Forget(); err != nil {
		return err
	}
	if f.rng.IntN(2) == 0 { // otherwise at once
		pause(ctx, upTo(f.rng, time.Second))
	}
	return f.server().Restart()
}

func restartFull(ctx context.Context, f *fault) error {
	if err := f.nodes[0].kill(); err != nil {
		return err
	}
	pause(ctx, upTo(f.rng, time.Second))
	return f.server().Restart()
}

func stopped(ctx context.Context, f *fault) error {
	if err := f.server().Stop(); err != nil {
		return err
	}
	pause(ctx, f.someTime())
	return f.server().Continue()
}

func configured(name, value, after string) func(context.Context, *fault) error {
	return func(ctx context.Context, f *fault) error {
		if err := f.tell("CONFIG", "SET", name, value); err != nil {
			return err
		}
		pause(ctx, f.someTime())
		return f.tell("CONFIG", "SET", name, after)
	}
}

// replica makes a master follow another one, and be a master again with what that one knows.
func replica(ctx context.Context, f *fault) error {
	of := f.sound(f.nodes[0])
	if of == nil {
		return errors.New("no master without a fault")
	}
	host, port, err := net.SplitHostPort(of.server.Addr())
	if err != nil {
		return err
	}
	if err := f.tell("REPLICAOF", host, port); err != nil {
		return err
	}
	pause(ctx, f.someTime())
	return f.tell("REPLICAOF", "NO", "ONE")
}

// stopClient stops a client, often for longer than its locks are valid.
func stopClient(ctx context.Context, f *fault) error {
	f.mu.Lock()
	f.client.stops = append(f.client.stops, f)
	f.mu.Unlock()
	if err := f.client.Stop(); err != nil {
		return err
	}
	pause(ctx, 100*time.Millisecond+upTo(f.rng, 2*ttl))
	return f.client.Continue()
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
		for _, i := range d.shuffles.Perm(len(d.deck)) {
			d.hand = append(d.hand, d.deck[i])
		}
	}
	for i, c := range d.hand {
		rng := rand.New(rand.NewPCG(d.draws.Uint64(), 0))
		if f := c.aim(d.arena, c, rng); f != nil {
			f.arena, f.name, f.rng = d.arena, c.name, rng
			d.hand = append(d.hand[:i:i], d.hand[i+1:]...)
			d.done.Go(func() { f.play(ctx, c) })
			return true
		}
	}
	return false
}

// play does a fault, keeps it for the report, and gives its targets back.
func (f *fault) play(ctx context.Context, c card) {
	f.mu.Lock()
	f.from = now()
	f.to = f.from.Add(time.Hour)
	f.faults = append(f.faults, f)
	f.mu.Unlock()
	err := c.do(ctx, f)
	assert.NoError(f.t, err, "%s: %s", f.name, f.where)
	f.mu.Lock()
	f.to = now()
	f.mu.Unlock()
	if len(f.nodes) > 0 {
		f.release(f.nodes[1:], f.sides)
		if c.forgets {
			// Also after the end: what is left to check begins when the master votes.
			f.forgot(context.WithoutCancel(ctx), f.nodes[0])
		}
		f.release(f.nodes[:1], f.sides)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.client != nil {
		f.client.busy = false
	}
	if f.serving != nil {
		f.serving.busy = false
	}
}
