package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gomodule/redigo/redis"
)

// foreigner is a client of another Redlock library: it sends SET NX PX to one node after another,
// releases by compare-and-delete, and tries again after a random pause. It wakes no waiter.
type foreigner struct {
	sim *simulation
	rng *rand.Rand
	ttl time.Duration
	id  uint64
	n   int
}

// foreignTimeout is how long a foreigner waits for a node.
const foreignTimeout = 20 * time.Millisecond

const foreignRelease = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

func (f *foreigner) run() {
	s := f.sim
	for s.goesOn() {
		f.attempt(s.names[f.rng.IntN(len(s.names))])
		s.pause(upTo(f.rng, 300*time.Millisecond))
	}
}

// attempt tries to hold a lock for a while and reports whether it did.
func (f *foreigner) attempt(name string) (had bool) {
	s := f.sim
	f.n++
	value := fmt.Sprint("foreign ", f.id, " ", f.n)
	start := s.clock.Now()
	votes := 0
	for i := range s.servers {
		if reply, err := f.ask(i, "SET", name, value, "NX", "PX", f.ttl.Milliseconds()); err == nil && reply == "OK" {
			votes++
		}
	}
	until := start.Add(f.ttl - f.ttl/100 - 2*time.Millisecond)
	if votes > len(s.servers)/2 && s.clock.Now() < until {
		had = true
		t := s.judge.held(value, value, start, []string{name}, 0)
		time.Sleep(min(upTo(f.rng, 50*time.Millisecond), until.Sub(s.clock.Now())))
		s.judge.over(t, s.clock.Now())
	}
	for i := range s.servers {
		_, _ = f.ask(i, "EVAL", foreignRelease, 1, name, value) //nolint:errcheck // it expires
	}
	return had
}

func (f *foreigner) ask(i int, command string, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), foreignTimeout)
	defer cancel()
	network, err := f.sim.servers[i].Dial(ctx)
	if err != nil {
		return nil, err
	}
	conn := redis.NewConn(network, foreignTimeout, foreignTimeout)
	defer conn.Close()
	return conn.Do(command, args...)
}
