//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"

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
	if err := p.command.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	pause(ctx, 100*time.Millisecond+upTo(rng, 2*ttl))
	err := p.command.Process.Signal(syscall.SIGCONT)
	a.mu.Lock()
	f.to = now()
	a.mu.Unlock()
	if errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("client %d ended by itself", p.id)
	}
	return err
}
