package contention

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// Crash measures what follows when a holder is killed: SIGKILL ends its process, and the name is
// free once the keys of a quorum have expired.
type Crash struct {
	Mutex   string // its name in the table given to [RunWorker]; it has to renew what it holds
	Servers []*redistest.Server
	Waiters int // processes that want the name, one goroutine each
	Kills   int
	TTL     time.Duration
	Settle  time.Duration // how long a holder lives at least; up to half a TTL more
}

// CrashResult is what a Crash found, by kill.
type CrashResult struct {
	// Late is the time from when the keys of a quorum had expired until the next holder had the
	// name, sorted. Servers report whole milliseconds, so it may be off by 2 ms.
	Late []time.Duration

	// Commands is what each waiter sent per 100 ms, from the kill until there was a next holder: of
	// all waiters and kills, sorted.
	Commands []float64
}

// expiryResolution is how exact the servers' answers are: PTTL tells whole milliseconds, by a clock
// that the server reads once per event loop.
const expiryResolution = 2 * time.Millisecond

// Run measures, and leaves the servers empty. It fails with the processes, the servers, or
// exclusion: another process had the name before the killed holder's keys had expired on a quorum.
func (c *Crash) Run() (*CrashResult, error) {
	crew, err := newCrew(spec{
		Mutex: c.Mutex, Addresses: addressesOf(c.Servers), Name: "crash/" + rand.Text(),
		Goroutines: 1, TTL: c.TTL, Forever: true,
	}, c.Waiters+1)
	if err != nil {
		return nil, err
	}
	result, err := c.run(crew)
	if err = errors.Join(err, crew.kill()); err != nil {
		return nil, err
	}
	if _, err := flush(c.Servers); err != nil {
		return nil, err
	}
	slices.Sort(result.Late)
	slices.Sort(result.Commands)
	return result, nil
}

func (c *Crash) run(crew *crew) (*CrashResult, error) {
	for _, p := range crew.processes {
		if err := p.orders.Encode(order{Run: new(run)}); err != nil {
			return nil, err
		}
	}
	held, err := crew.await(messageTimeout, isHeld)
	if err != nil {
		return nil, err
	}
	r := new(CrashResult)
	for range c.Kills {
		time.Sleep(c.Settle + mathrand.N(c.TTL/2))
		if len(crew.events) > 0 {
			_, err := crew.await(0, func(event) bool { return false })
			return nil, fmt.Errorf("while the name was held: %w", err)
		}
		if held, err = c.kill(crew, held.from, r); err != nil {
			return nil, err
		}
		replacement, err := crew.start()
		if err != nil {
			return nil, err
		}
		if _, err := crew.await(messageTimeout, func(e event) bool { return e.message.Ready }); err != nil {
			return nil, err
		}
		if err := replacement.orders.Encode(order{Run: new(run)}); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// kill kills the holder, adds what follows to r, and returns the message of the next holder.
func (c *Crash) kill(crew *crew, holder *process, r *CrashResult) (event, error) {
	if err := holder.kill(); err != nil {
		return event{}, err
	}
	crew.processes = slices.DeleteFunc(crew.processes, func(p *process) bool { return p == holder })
	if _, err := crew.await(messageTimeout, func(e event) bool { return e.ended && e.from == holder }); err != nil {
		return event{}, err
	}
	free, err := c.freeAt(crew.spec.Name)
	if err != nil {
		return event{}, err
	}
	before, err := crew.count()
	if err != nil {
		return event{}, err
	}
	held, err := crew.await(c.TTL+messageTimeout, isHeld)
	if err != nil {
		return event{}, err
	}
	after, err := crew.count()
	if err != nil {
		return event{}, err
	}
	late := held.message.Held.Sub(free)
	if late < -expiryResolution {
		return event{}, fmt.Errorf("contention: exclusion failed: the name was acquired %v before the keys of a quorum expired", -late)
	}
	r.Late = append(r.Late, late)
	for p, first := range before {
		took := after[p].At.Sub(first.At)
		r.Commands = append(r.Commands, float64(after[p].Sent-first.Sent)*float64(100*time.Millisecond)/float64(took))
	}
	return held, nil
}

func isHeld(e event) bool { return e.message.Held != 0 }

// freeAt returns when the key will have expired on a quorum of the servers.
func (c *Crash) freeAt(name string) (Instant, error) {
	var expiries []Instant
	for _, server := range c.Servers {
		asked := now()
		reply, err := server.Do("PTTL", name)
		if err != nil {
			return 0, err
		}
		left, ok := reply.(int64)
		if !ok || left == -1 {
			return 0, fmt.Errorf("contention: PTTL %s: %v", name, reply)
		}
		if left < 0 { // no key: it did not vote for the holder, or has lost it
			expiries = append(expiries, Instant(math.MinInt64))
			continue
		}
		expiries = append(expiries, asked.Add(time.Duration(left)*time.Millisecond))
	}
	slices.Sort(expiries)
	free := expiries[len(expiries)/2] // of the quorum-th
	if free == math.MinInt64 {
		return 0, fmt.Errorf("contention: no quorum had the key %s when its holder was killed", name)
	}
	return free, nil
}

// count asks all processes how many commands they have sent.
func (c *crew) count() (map[*process]count, error) {
	for _, p := range c.processes {
		if err := p.orders.Encode(order{Count: true}); err != nil {
			return nil, err
		}
	}
	counts := make(map[*process]count)
	for len(counts) < len(c.processes) {
		e, err := c.await(messageTimeout, func(e event) bool { return e.message.Count != nil })
		if err != nil {
			return nil, err
		}
		counts[e.from] = *e.message.Count
	}
	return counts, nil
}
