package simulation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/redlock"
)

// person acts beside the clients, with random numbers of its own.
type person func(s *simulation, rng *rand.Rand)

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

// attempt tries to hold a lock for a while and reports whether it did.
func (f *foreigner) attempt(name string) (had bool) {
	s := f.sim
	f.n++
	value := fmt.Sprint("foreign ", f.id, " ", f.n)
	start := s.Clock.Now()
	votes := 0
	for i := range s.Servers {
		if reply, err := f.ask(i, "SET", name, value, "NX", "PX", f.ttl.Milliseconds()); err == nil && reply == "OK" {
			votes++
		}
	}
	until := start.Add(f.ttl - f.ttl/100 - 2*time.Millisecond)
	if votes > len(s.Servers)/2 && s.Clock.Now() < until {
		had = true
		t := s.judge.held(&history.Hold{Who: value, Value: value, Since: start, Names: []string{name}})
		time.Sleep(min(upTo(f.rng, 50*time.Millisecond), until.Sub(s.Clock.Now())))
		s.judge.over(t, s.Clock.Now())
	}
	for i := range s.Servers {
		_, _ = f.ask(i, "EVAL", foreignRelease, 1, name, value) //nolint:errcheck // it expires
	}
	return had
}

func (f *foreigner) ask(i int, command string, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), foreignTimeout)
	defer cancel()
	network, err := f.sim.Servers[i].Dial(ctx)
	if err != nil {
		return nil, err
	}
	conn := redis.NewConn(network, foreignTimeout, foreignTimeout)
	defer conn.Close()
	return conn.Do(command, args...)
}

// spins tries a name again and again, like a program that does not know Lock.
func spins(s *simulation, rng *rand.Rand) {
	p := s.newProcess(100+rng.IntN(1000), rng, []redlock.Option{redlock.WithTTL(min(slowestTTL, s.maxTTL))})
	p.start()
	c := &client{p, "spinner", rng}
	for s.goesOn() {
		since := s.Clock.Now()
		if lock, err := p.current().TryLock(s.base, s.names[0]); err == nil {
			c.hold(lock, s.judge.got(c.who, since, lock))
		}
		time.Sleep(upTo(rng, 2*time.Millisecond))
	}
	_ = p.current().Close()
}

// eagerForeigner locks a name again as soon as it has released it, and retries 100 to 200 ms after
// a refusal.
func eagerForeigner(s *simulation, rng *rand.Rand) {
	f := &foreigner{sim: s, rng: rng, ttl: time.Second, id: rng.Uint64()}
	for s.goesOn() {
		if !f.attempt(s.names[0]) {
			s.pause(100*time.Millisecond + upTo(f.rng, 100*time.Millisecond))
		}
	}
}

// rareForeigner is there half of the time, unless nodes forget, and locks a name now and then.
func rareForeigner(s *simulation, rng *rand.Rand) {
	if s.faults.restarts || rng.IntN(2) == 0 {
		return
	}
	f := &foreigner{sim: s, rng: rng, ttl: time.Second}
	for s.goesOn() {
		f.attempt(s.names[rng.IntN(len(s.names))])
		s.pause(upTo(rng, 300*time.Millisecond))
	}
}

// durably makes the nodes durable, so they keep their votes across a restart.
func durably(s *simulation) { s.Durable() }

// denies forbids the commands of one row of the ACL table on each node.
func denies(s *simulation) {
	rows := [][]string{
		{"INFO"}, {"CONFIG"}, {"CLIENT"}, {"SCRIPT"}, {"SUBSCRIBE"}, {"PUBLISH", "ZADD", "ZREM", "ZCARD", "ZSCORE", "ZPOPMIN"},
	}
	for _, server := range s.Servers {
		server.RefuseWith("NOPERM this user has no permissions", rows[s.rng.IntN(len(rows))]...)
	}
}

// monitors subscribes to all channels of all nodes while waiting processes are killed. All that
// those leave behind is their tickets.
func monitors(s *simulation, rng *rand.Rand) {
	for i := range s.Servers {
		s.Monitor(i)
	}
	for n := 0; s.goesOn(); n++ {
		name := s.names[rng.IntN(len(s.names))]
		for i := range s.Servers {
			for k := range 5 {
				member := fmt.Sprintf("killed%d.%d:%s", n, k, "AAAAAAAAAAAAAAAAAAAAAAAAAA")
				s.Do(i, "ZADD", "redquorum:wait:"+name, 1, member)
			}
			s.Do(i, "PEXPIRE", "redquorum:wait:"+name, time.Minute.Milliseconds())
			s.Do(i, "SET", "redquorum:waits:"+name, "", "PX", 1000)
		}
		s.pause(500 * time.Millisecond)
	}
}
