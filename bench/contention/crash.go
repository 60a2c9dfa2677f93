package contention

import (
	"crypto/rand"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// Crash measures what follows when a holder is killed: SIGKILL ends its process, and the name is
// free once the keys of a quorum have expired.
type Crash struct {
	Mutex   string // its name in the table given to [Play]; it has to renew what it holds
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

// crew is the processes of a Crash.
type crew struct {
	tb   testing.TB
	task task
	all  []*child.Process
	said chan event
}

// event is a line that a process says.
type event struct {
	process *child.Process
	line    string
}

// Run measures, and leaves the servers empty. The test ends if a process or a server fails, or
// exclusion: another process had the name before the killed holder's keys had expired on a quorum.
func (c *Crash) Run(tb testing.TB) *CrashResult {
	tb.Helper()
	crew := &crew{tb: tb, said: make(chan event, c.Waiters+c.Kills), task: task{
		Name: "crash/" + rand.Text(), Forever: true, Setup: Setup{Addresses: AddressesOf(c.Servers), Goroutines: 1, TTL: c.TTL},
	}}
	crew.start(c.Mutex, c.Waiters+1)
	holder, _ := crew.await()
	r := new(CrashResult)
	for range c.Kills {
		time.Sleep(c.Settle + mathrand.N(c.TTL/2))
		require.Empty(tb, crew.said, "exclusion failed: another one has the name while it is held")
		holder = c.kill(crew, holder, r)
		crew.start(c.Mutex, 1)
	}
	for _, p := range crew.all {
		require.NoError(tb, p.Kill())
	}
	flush(tb, c.Servers)
	slices.Sort(r.Late)
	slices.Sort(r.Commands)
	return r
}

// start starts n processes that want the name.
func (c *crew) start(mutex string, n int) {
	for _, p := range startWorkers(c.tb, mutex, n, c.task) {
		tell(c.tb, p, run{})
		c.all = append(c.all, p)
		go func() { // ends with the process
			for line := range p.Lines() {
				c.said <- event{p, line}
			}
		}()
	}
}

// patience bounds the wait for what a process says.
const patience = time.Minute

// await returns what a process says next: that it has the name, or what it was asked for.
func (c *crew) await() (*child.Process, message) {
	c.tb.Helper()
	select {
	case e := <-c.said:
		return e.process, parse(c.tb, e.line)
	case <-time.After(patience):
		require.FailNow(c.tb, "no process says anything")
		return nil, message{}
	}
}

// kill kills the holder, adds what follows to r, and returns the next one.
func (c *Crash) kill(crew *crew, holder *child.Process, r *CrashResult) *child.Process {
	require.NoError(crew.tb, holder.Kill())
	crew.all = slices.DeleteFunc(crew.all, func(p *child.Process) bool { return p == holder })
	free := c.freeAt(crew.tb, crew.task.Name)
	before := crew.count()
	next, m := crew.await()
	after := crew.count()
	late := m.Held.Sub(free)
	require.GreaterOrEqual(crew.tb, late, -expiryResolution, "exclusion failed: the name was acquired before the keys of a quorum expired")
	r.Late = append(r.Late, late)
	for i := range after {
		took := after[i].At.Sub(before[i].At)
		r.Commands = append(r.Commands, float64(after[i].Sent-before[i].Sent)*float64(100*time.Millisecond)/float64(took))
	}
	return next
}

// freeAt returns when the key will have expired on a quorum of the servers.
func (c *Crash) freeAt(tb testing.TB, name string) Instant {
	var expiries []Instant
	for _, server := range c.Servers {
		asked := now()
		reply, err := server.Do("PTTL", name)
		require.NoError(tb, err)
		left := reply.(int64)
		require.NotEqual(tb, int64(-1), left, "the key does not expire")
		if left < 0 { // no key: it did not vote for the holder, or has lost it
			expiries = append(expiries, Instant(math.MinInt64))
			continue
		}
		expiries = append(expiries, asked.Add(time.Duration(left)*time.Millisecond))
	}
	slices.Sort(expiries)
	free := expiries[len(expiries)/2] // of the quorum-th
	require.NotEqual(tb, Instant(math.MinInt64), free, "no quorum had the key when its holder was killed")
	return free
}

// count asks all processes, one after the other, how many commands they have sent.
func (c *crew) count() (all []message) {
	for _, p := range c.all {
		require.NoError(c.tb, p.Tell("count"))
		_, m := c.await()
		require.Zero(c.tb, m.Held, "exclusion failed: a process has the name before it is free")
		all = append(all, m)
	}
	return all
}
