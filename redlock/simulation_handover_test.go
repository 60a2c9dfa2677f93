package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/redlock"
)

// handOvers sets up a simulation of the usual size: five nodes, and four clients in each of the
// four processes that the caller starts. The clients do nothing but lock and unlock.
func (s *simulation) handOvers(names int, latency time.Duration) {
	s.nodes(5)
	for i := range names {
		s.names = append(s.names, fmt.Sprint("name", i))
	}
	s.latency, s.tasks = latency, 4
	for i := range s.servers {
		s.slowDown(i, latency)
	}
	s.hold = func(rng *rand.Rand) time.Duration { return upTo(rng, time.Millisecond) }
}

// until ends the simulation after the given number of hand-overs.
func (s *simulation) until(handOvers uint64) {
	for s.total().HandedOver < handOvers {
		time.Sleep(50 * time.Millisecond)
	}
	close(s.ending)
}

// Messages are late or get lost together with their connections. Still, in all of these hand-overs
// no lock is ever free for longer than a poll takes while a client waits for it.
func TestNoHandOverIsLostWithItsMessage(t *testing.T) {
	t.Parallel()
	each := 2500
	if raced {
		each = 500
	}
	var handedOver uint64
	var tenures int
	var longest time.Duration
	began := time.Now()
	for _, seed := range seeds(t, 2, 1_000_000/each) {
		simulate(t, seed, func(s *simulation) {
			s.handOvers(2, 3*time.Millisecond)
			s.fenced = seed%2 == 0
			s.faults = faults{losses: true}
			s.mending = 2 * time.Second
			s.judge = newJudge(s, waitBound+8*(s.latency-usualLatency))
			s.start(4, func(*rand.Rand) []redlock.Option {
				return []redlock.Option{redlock.WithTTL(slowestTTL), redlock.WithRetry(slowestRetry/5, slowestRetry)}
			})
			rng := rand.New(rand.NewPCG(seed, 1))
			s.run(func(c *client) {
				for s.goesOn() {
					name := c.name()
					c.wait(name, func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) {
						return l.Lock(ctx, name, c.opts()...)
					})
				}
			}, func() { s.until(uint64(each)) }, func() { s.weather(rng) })
			s.leavesNothing(3*time.Minute + time.Second)
			handedOver += s.total().HandedOver
			tenures += s.judge.tenures()
			longest = max(longest, s.judge.longest)
		})
	}
	took := time.Since(began)
	t.Logf("%d hand-overs for %d tenures, %.0f hand-overs per second; a lock was free for at most %v",
		handedOver, tenures, float64(handedOver)/took.Seconds(), longest)
}

// wait locks a name, and waits as long as it takes.
func (c *client) wait(name string, lock calling) {
	c.hold(c.waitsUnder(c.sim().base, "Lock", []string{name}, lock))
}

// queue holds the waiting clients of a process, in the order of their calls.
type queue struct {
	mu       sync.Mutex
	waiting  []string
	served   int
	overtook int
}

func (q *queue) join(who string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, who)
}

func (q *queue) got(who string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting[0] != who {
		q.overtook++
	}
	for i := range q.waiting {
		if q.waiting[i] == who {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			break
		}
	}
	q.served++
}

// queueUp locks and unlocks until the simulation ends, and notes the order in its process's queue.
func (c *client) queueUp(own *queue) {
	s := c.process.sim
	for s.goesOn() {
		// No two calls at one instant: their order would be unknown.
		time.Sleep(1 + upTo(c.rng, time.Millisecond))
		c.wait(s.names[0], func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) {
			own.join(c.who)
			defer own.got(c.who)
			return l.Lock(ctx, s.names[0], c.opts()...)
		})
	}
}

// costs counts commands, and apart from them those about memory markers, while counting is set.
type costs struct {
	counting         atomic.Bool
	commands, proofs atomic.Int64
}

func (s *simulation) countCommands() *costs {
	c := new(costs)
	for _, server := range s.servers {
		server.OnCommand(func(command fake.Command) {
			switch {
			case !c.counting.Load():
			case isMarker(command):
				c.proofs.Add(1)
			default:
				c.commands.Add(1)
			}
		})
	}
	return c
}

// judge ends the simulation after the given number of hand-overs and judges their costs.
func (c *costs) judge(s *simulation, handOvers uint64) {
	time.Sleep(time.Second) // the first clients are still joining the queue
	warm, began := s.total(), s.clock.Now()
	c.counting.Store(true)
	s.until(warm.HandedOver + handOvers)
	c.counting.Store(false)
	all := s.total()
	handedOver := all.HandedOver - warm.HandedOver
	commands := float64(c.commands.Load()) / float64(handedOver)
	proofs := float64(c.proofs.Load()) / float64(handedOver)
	assert.Equal(s.t, warm.Polls, all.Polls, "seed %d", s.seed)
	assert.LessOrEqual(s.t, commands, float64(2*len(s.servers)+3), "seed %d", s.seed)
	assert.LessOrEqual(s.t, proofs, float64(len(s.servers)+3), "seed %d", s.seed)
	s.t.Logf("%.2f commands each, %v each", commands, s.clock.Now().Sub(began)/time.Duration(handedOver))
}

// If nothing is lost, no waiter polls, no client overtakes another one of its process, all
// processes get the lock equally often, and a hand-over costs a release, a round, and one request
// to the pilot.
func TestUndisturbedHandOversAreFairAndCheap(t *testing.T) {
	skipRaced(t)
	for _, seed := range seeds(t, 1, 20) {
		simulate(t, seed, func(s *simulation) {
			s.handOvers(1, time.Millisecond)
			s.fenced = seed%2 == 0
			s.judge = newJudge(s, 20*s.latency)
			costs := s.countCommands()
			s.start(4, func(*rand.Rand) []redlock.Option {
				// No client waits as long as the shortest backoff.
				return []redlock.Option{redlock.WithTTL(slowestTTL), redlock.WithRetry(time.Second, time.Second)}
			})
			queues := make([]queue, len(s.processes))
			s.run(func(c *client) { c.queueUp(&queues[c.process.id]) }, func() { costs.judge(s, 2000) })
			all := s.total()
			// A waiter that was overtaken at the start has a ticket at every node, and is woken
			// once for the votes of all of them.
			assert.LessOrEqual(t, all.Woken, all.HandedOver, "seed %d", seed)
			assert.InEpsilon(t, all.HandedOver, all.Woken, 0.01, "seed %d", seed)
			served := 0
			for i := range queues {
				assert.Zero(t, queues[i].overtook, "seed %d", seed)
				served += queues[i].served
			}
			for i := range queues {
				assert.InEpsilon(t, served/len(queues), queues[i].served, 0.05, "seed %d", seed)
			}
			time.Sleep(time.Second)
			for _, server := range s.servers {
				for _, key := range server.Keys() {
					assert.True(t, outlives(key), "seed %d: %q", seed, key)
				}
			}
		})
	}
}
