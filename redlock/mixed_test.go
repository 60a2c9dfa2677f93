package redlock_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/virtual"
)

// A mixed fleet competes for one lock: workers of ours and of another Redlock library. Each worker
// holds it for 5 to 20 ms, releases it, and wants it again at once.
type mixedFleet struct {
	*cluster
	pause func(rng *rand.Rand) time.Duration // of the other library, after a failed attempt
	until time.Time
	all   sync.WaitGroup

	mu           sync.Mutex // guards the fields below
	ours, theirs side
	busy         bool // a worker holds the lock
}

// side is what the workers of one side achieve. The longest of many waits is a matter of luck: in
// a stretch in which foreign workers happen to come first, all of ours wait.
type side struct {
	holds []int           // by worker
	waits []time.Duration // including those that the end cut off
}

// total returns the holds of all workers.
func (s *side) total() (holds int) {
	for _, n := range s.holds {
		holds += n
	}
	return holds
}

// wait returns the wait that this share of the waits is no longer than.
func (s *side) wait(share float64) time.Duration {
	slices.Sort(s.waits)
	return s.waits[int(float64(len(s.waits)-1)*share)]
}

func (s *side) String() string {
	return fmt.Sprintf("%d holds, 95 %% of waits at most %v, the longest %v",
		s.total(), s.wait(0.95).Round(time.Millisecond), s.wait(1).Round(time.Millisecond))
}

// foreignPauses are the default pauses of other libraries.
var foreignPauses = []struct {
	name   string
	single bool // locks one node only
	like   bool // another one: it pauses a little longer, and is tried by `make prove` only
	pause  func(rng *rand.Rand) time.Duration
}{
	{"redsync", false, false, func(rng *rand.Rand) time.Duration { return 50*time.Millisecond + upTo(rng, 200*time.Millisecond) }},
	{"node-redlock", false, true, func(rng *rand.Rand) time.Duration { return 100*time.Millisecond + upTo(rng, 200*time.Millisecond) }},
	{"redis-py", true, false, func(*rand.Rand) time.Duration { return 100 * time.Millisecond }},
}

const (
	mixedWorkers = 4 // of each side
	mixedWait    = 800 * time.Millisecond
	foreignTTL   = 10 * time.Second
)

// mixedTime returns for how long a fleet works. In 10 s, the share of ours scatters too much for
// the bounds where a foreign client is seen late, as beside the libraries that pause for longer.
func mixedTime() time.Duration {
	if virtual.Thorough() {
		return 20 * time.Second
	}
	return 10 * time.Second
}

func TestOursAndOtherClientsShareALock(t *testing.T) {
	t.Parallel()
	for _, nodes := range mixedNodes() {
		for _, foreign := range foreignPauses[:virtual.Unraced(1, len(foreignPauses))] {
			if foreign.single && nodes > 1 || foreign.like && !virtual.Thorough() {
				continue
			}
			for _, first := range []string{"ours", "theirs"} {
				if foreign.single == (first == "theirs") && !virtual.Thorough() {
					continue // one order for each library
				}
				t.Run(fmt.Sprintf("%d nodes, %s, %s first", nodes, foreign.name, first), func(t *testing.T) {
					t.Parallel()
					inBubble(t, nodes, func(t *testing.T, c *cluster) {
						m := &mixedFleet{cluster: c, pause: foreign.pause, until: time.Now().Add(mixedTime())}
						m.run(first == "ours")
						share := float64(m.ours.total()) / float64(m.ours.total()+m.theirs.total())
						t.Logf("ours: %v; theirs: %v; share %.2f", &m.ours, &m.theirs, share)
						assert.GreaterOrEqual(t, share, 0.25)
						assert.LessOrEqual(t, m.ours.wait(0.95), mixedWait)
						assert.Less(t, m.ours.wait(1), foreignTTL, "ours never wait until a lock expires")
						assert.GreaterOrEqual(t, slices.Min(m.ours.holds), m.ours.total()/mixedWorkers*9/10)
						if nodes == 1 || first == "theirs" {
							assert.LessOrEqual(t, share, 0.75)
						} // else ours have the lock to themselves until a foreign client is seen
					})
				})
			}
		}
	}
}

// mixedNodes returns the sizes of clusters that are tried. Two masters behave like one, five like
// three.
func mixedNodes() []int {
	switch {
	case virtual.Raced, testing.Short():
		return []int{3}
	case virtual.Thorough():
		return []int{1, 2, 3, 5}
	default:
		return []int{1, 3}
	}
}

func (m *mixedFleet) run(oursFirst bool) {
	delay := func() time.Duration { return 50*time.Microsecond + rand.N(100*time.Microsecond) }
	m.Each(func(n *fakeredis.Node) { n.Delay(delay, delay) })
	begin := []func(rng *rand.Rand){m.work, m.foreign}
	if !oursFirst {
		begin[0], begin[1] = begin[1], begin[0]
	}
	for side, start := range begin {
		for i := range uint64(mixedWorkers) {
			start(rand.New(rand.NewPCG(uint64(side), i)))
		}
		time.Sleep(100 * time.Millisecond)
	}
	m.all.Wait()
	time.Sleep(4 * time.Minute)
	assert.Zero(m.T, m.Keys(), "the wait list and the note of turns expire")
}

// work starts one of our workers, with a Locker of its own.
func (m *mixedFleet) work(rng *rand.Rand) {
	l := m.Locker()
	m.turns(&m.ours, rng, func() (release func()) {
		lock, err := l.Lock(ctx, "a")
		require.NoError(m.T, err)
		return func() { assert.NoError(m.T, lock.Unlock(ctx)) }
	})
}

// foreign starts a worker of another library: SET NX PX on all nodes at once, compare-and-delete,
// and a pause after each failed attempt.
func (m *mixedFleet) foreign(rng *rand.Rand) {
	late := upTo(rng, 100*time.Millisecond) // so that workers do not stay in step
	m.turns(&m.theirs, rng, func() (release func()) {
		time.Sleep(late)
		late = 0
		value := fmt.Sprint("foreign", rng.Uint64())
		release = func() { m.ask("EVAL", foreignRelease, 1, "a", value) }
		for m.ask("SET", "a", value, "NX", "PX", foreignTTL.Milliseconds()) <= len(m.Servers)/2 {
			release()
			time.Sleep(m.pause(rng))
		}
		return release
	})
}

// turns starts a worker, which has turns until the fleet is done.
func (m *mixedFleet) turns(s *side, rng *rand.Rand, take func() (release func())) {
	m.mu.Lock()
	worker := len(s.holds)
	s.holds = append(s.holds, 0)
	m.mu.Unlock()
	m.all.Go(func() {
		for over := false; !over; {
			began := time.Now()
			release := take()
			m.mu.Lock()
			s.waits = append(s.waits, min(time.Since(began), m.until.Sub(began)))
			if over = !time.Now().Before(m.until); !over {
				s.holds[worker]++
				assert.False(m.T, m.busy, "two workers hold the lock")
				m.busy = true
			}
			m.mu.Unlock()
			if !over {
				time.Sleep(5*time.Millisecond + upTo(rng, 15*time.Millisecond))
				m.mu.Lock()
				m.busy = false
				m.mu.Unlock()
			}
			release()
		}
	})
}

// ask sends a command to all nodes at once, and returns how many granted it.
func (m *mixedFleet) ask(command string, args ...any) (granted int) {
	votes := make(chan bool)
	for i := range m.Servers {
		go func() {
			reply := m.Do(i, command, args...)
			votes <- reply == "OK" || reply == int64(1)
		}()
	}
	for range m.Servers {
		if <-votes {
			granted++
		}
	}
	return granted
}

// Without foreign clients nothing is paid for them: a lock that is handed over for long is never
// left free, and nobody polls. On a single node it is left free, rarely and briefly.
func TestWaitersPayNothingForForeignClientsThatAreNotThere(t *testing.T) {
	virtual.SkipRaced(t)
	const rounds, hold = 125, 10 * time.Millisecond
	for nodes, most := range map[int]time.Duration{1: 120 * time.Millisecond, 3: time.Microsecond, 5: time.Microsecond} {
		runBubble(t, fmt.Sprint(nodes, " nodes"), nodes, func(t *testing.T, c *cluster) {
			c.Instantly()
			lockers := c.lockers(mixedWorkers, rarely)
			took := virtual.Elapsed(func() { takeTurns(t, lockers, rounds, hold) })
			assert.LessOrEqual(t, took-mixedWorkers*rounds*hold, most, "idle")
		})
	}
}

const foreignRelease = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
