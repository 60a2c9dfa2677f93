//go:build linux

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
)

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
