package redlock_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/fakenode"
	"github.com/redquorum/redquorum/redlock"
)

// handOvers makes a simulation of the usual size: five nodes, four processes of four clients each who do nothing but
// lock and unlock.
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

// until ends the simulation after so many hand-overs.
func (s *simulation) until(handOvers uint64) {
	for s.total().HandedOver < handOvers {
		time.Sleep(50 * time.Millisecond)
	}
	close(s.ending)
}

// Messages are late and get lost, with their connections: no lock is free for longer than a poll takes while somebody waits for it, not
// once in so many hand-overs.
func TestNoHandOverIsLostWithItsMessage(t *testing.T) {
	each := 2500
	if raced {
		each = 500
	}
	var handedOver, tenures uint64
	var longest time.Duration
	began := time.Now()
	for _, seed := range seeds(t, 2, 1_000_000/each) {
		simulate(t, seed, func(s *simulation) {
			s.handOvers(2, 3*time.Millisecond)
			s.fenced = seed%2 == 0
			s.faults = faults{losses: true}
			s.mending = 2 * time.Second
			s.judge = newJudge(s.clock, waitBound(s.latency))
			s.start(4, func(*rand.Rand) []redlock.Option {
				return []redlock.Option{redlock.WithTTL(slowestTTL), redlock.WithRetry(slowestRetry/5, slowestRetry)}
			})
			rng := rand.New(rand.NewPCG(seed, 1))
			s.run(func(c *client) {
				for s.goesOn() {
					c.wait(c.name())
				}
			}, func() { s.until(uint64(each)) }, func() { s.weather(rng) })
			s.leavesNothing(3*time.Minute + time.Second)
			handedOver += s.total().HandedOver
			tenures += s.judge.tenures()
			longest = max(longest, s.judge.longest)
		})
	}
	took := time.Since(began)
	t.Logf("%d hand-overs for %d tenures, %.0f hand-overs per second; a lock was free for %v at most",
		handedOver, tenures, float64(handedOver)/took.Seconds(), longest)
}

// wait is lock by a client who has all the time there is.
func (c *client) wait(name string) {
	s := c.process.sim
	w := s.judge.waits(name)
	lock, err := c.process.current().Lock(s.base, name, c.opts()...)
	s.judge.leaves(w)
	if err != nil {
		s.judge.fail("%s: Lock: %v", c.who, err)
		return
	}
	c.hold(lock, w.since)
}

// line is those of a process who wait, in the order in which they called.
type line struct {
	mu       sync.Mutex
	waiting  []string
	served   int
	overtook int
}

func (n *line) join(who string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = append(n.waiting, who)
}

func (n *line) got(who string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting[0] != who {
		n.overtook++
	}
	for i := range n.waiting {
		if n.waiting[i] == who {
			n.waiting = append(n.waiting[:i], n.waiting[i+1:]...)
			break
		}
	}
	n.served++
}

// Where nothing is lost, nobody polls, nobody of a process is overtaken by another one of it, all processes get the same, and a hand-over costs a
// release and a round, and one question to the pilot.
func TestUndisturbedHandOversAreFairAndCheap(t *testing.T) {
	for _, seed := range seeds(t, 1, 20) {
		simulate(t, seed, func(s *simulation) {
			s.handOvers(1, time.Millisecond)
			s.fenced = seed%2 == 0
			s.judge = newJudge(s.clock, 20*s.latency)
			var counting atomic.Bool
			var commands, proofs atomic.Int64
			for _, server := range s.servers {
				server.OnCommand(func(command fakenode.Command) {
					switch {
					case !counting.Load():
					case isMarker(command):
						proofs.Add(1)
					default:
						commands.Add(1)
					}
				})
			}
			s.start(4, func(*rand.Rand) []redlock.Option {
				// Nobody waits for as long as the shortest pause.
				return []redlock.Option{redlock.WithTTL(slowestTTL), redlock.WithRetry(time.Second, time.Second)}
			})
			lines := make([]line, len(s.processes))
			var warm redlock.Stats
			var began clock.Instant
			s.run(func(c *client) {
				own := &lines[c.process.id]
				for s.goesOn() {
					time.Sleep(time.Duration(1+c.rng.IntN(1000)) * time.Microsecond) // no two at one instant
					w := s.judge.waits(s.names[0])
					own.join(c.who)
					lock, err := c.process.current().Lock(s.base, s.names[0], c.opts()...)
					s.judge.leaves(w)
					own.got(c.who)
					if err != nil {
						s.judge.fail("%s: Lock: %v", c.who, err)
						return
					}
					c.hold(lock, w.since)
				}
			}, func() {
				time.Sleep(time.Second) // the first are on their way into the line
				warm, began = s.total(), s.clock.Now()
				counting.Store(true)
				s.until(warm.HandedOver + 2000)
				counting.Store(false)
				all := s.total()
				handedOver := all.HandedOver - warm.HandedOver
				assert.Equal(t, warm.Polls, all.Polls, "seed %d", seed)
				assert.LessOrEqual(t, float64(commands.Load())/float64(handedOver), float64(2*len(s.servers)+3), "seed %d", seed)
				assert.LessOrEqual(t, float64(proofs.Load())/float64(handedOver), float64(len(s.servers)+3), "seed %d", seed)
				s.t.Logf("%.2f commands each, %v each", float64(commands.Load())/float64(handedOver), s.clock.Now().Sub(began)/time.Duration(handedOver))
			})
			all := s.total()
			// One who was overtaken at the start has places at all nodes, and is woken once by all
			// their votes.
			assert.LessOrEqual(t, all.Woken, all.HandedOver, "seed %d", seed)
			assert.InEpsilon(t, all.HandedOver, all.Woken, 0.01, "seed %d", seed)
			served := 0
			for i := range lines {
				assert.Zero(t, lines[i].overtook, "seed %d", seed)
				served += lines[i].served
			}
			for i := range lines {
				assert.InEpsilon(t, served/len(lines), lines[i].served, 0.05, "seed %d", seed)
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
