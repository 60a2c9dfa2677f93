package redlock_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/redlock"
)

// A mixed fleet competes for one lock: workers of ours and of another Redlock library. Each worker
// holds it for 5 to 20 ms, releases it, and wants it again at once.
type mixedFleet struct {
	*cluster
	pause func(rng *rand.Rand) time.Duration // of the other library, after a failed attempt
	until time.Time

	mu    sync.Mutex // guards the fields below
	ours  side
	their side
	busy  bool // a worker holds the lock
}

// side counts what the workers of one side achieve.
type side struct {
	holds   int
	longest time.Duration // wait, including waits cut off at the end
}

func (s *side) String() string {
	return fmt.Sprintf("%d holds, longest wait %v", s.holds, s.longest.Round(time.Millisecond))
}

// foreignPauses are the default pauses of other libraries.
var foreignPauses = []struct {
	name   string
	single bool // locks one node only
	soak   bool // tried for long only: it pauses a little longer than redsync
	pause  func(rng *rand.Rand) time.Duration
}{
	{"redsync", false, false, func(rng *rand.Rand) time.Duration { return 50*time.Millisecond + upTo(rng, 200*time.Millisecond) }},
	{"node-redlock", false, true, func(rng *rand.Rand) time.Duration { return 100*time.Millisecond + upTo(rng, 200*time.Millisecond) }},
	{"redis-py", true, false, func(*rand.Rand) time.Duration { return 100 * time.Millisecond }},
}

const (
	mixedTime    = 20 * time.Second
	mixedWorkers = 4 // of each side
	mixedWait    = 3 * time.Second
)

func TestOursAndOtherClientsShareALock(t *testing.T) {
	t.Parallel()
	for _, nodes := range mixedNodes() {
		for _, foreign := range foreignPauses[:unraced(1, len(foreignPauses))] {
			if foreign.single && nodes > 1 || foreign.soak && os.Getenv("REDQUORUM_SOAK") != "1" {
				continue
			}
			for _, first := range []string{"ours", "theirs"}[:unraced(1, 2)] {
				t.Run(fmt.Sprintf("%d nodes, %s, %s first", nodes, foreign.name, first), func(t *testing.T) {
					inBubble(t, nodes, func(t *testing.T, c *cluster) {
						m := &mixedFleet{cluster: c, pause: foreign.pause, until: time.Now().Add(mixedTime)}
						m.run(first == "ours")
						share := float64(m.ours.holds) / float64(m.ours.holds+m.their.holds)
						t.Logf("ours: %v; theirs: %v; share %.2f", &m.ours, &m.their, share)
						assert.GreaterOrEqual(t, share, 0.25)
						assert.LessOrEqual(t, m.ours.longest, mixedWait)
						if nodes <= 2 || first == "theirs" {
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
	case os.Getenv("REDQUORUM_SOAK") == "1":
		return []int{1, 2, 3, 5}
	case raced, testing.Short():
		return []int{3}
	default:
		return []int{1, 3}
	}
}

func (m *mixedFleet) run(oursFirst bool) {
	delay := func() time.Duration { return 50*time.Microsecond + rand.N(100*time.Microsecond) }
	m.each(func(n *fake.Node) { n.Delay(delay, delay) })
	var all sync.WaitGroup
	begin := []func(i int){
		func(i int) {
			l := m.locker()
			all.Go(func() { m.work(l, rand.New(rand.NewPCG(1, uint64(i)))) })
		},
		func(i int) { all.Go(func() { m.foreign(i) }) },
	}
	if !oursFirst {
		begin[0], begin[1] = begin[1], begin[0]
	}
	for _, start := range begin {
		for i := range mixedWorkers {
			start(i)
		}
		time.Sleep(100 * time.Millisecond)
	}
	all.Wait()
	time.Sleep(4 * time.Minute)
	assert.Zero(m.t, m.keys(), "the wait list and the note of turns expire")
}

// work is one of our workers, each with a Locker of its own.
func (m *mixedFleet) work(l *redlock.Locker, rng *rand.Rand) {
	for goesOn := true; goesOn; {
		began := time.Now()
		lock, err := l.Lock(ctx, "a")
		if !assert.NoError(m.t, err) {
			return
		}
		goesOn = m.held(&m.ours, began, rng)
		assert.NoError(m.t, lock.Unlock(ctx))
	}
}

// held keeps the lock for a while. It reports false once the fleet is done.
func (m *mixedFleet) held(s *side, began time.Time, rng *rand.Rand) bool {
	m.mu.Lock()
	s.longest = max(s.longest, min(time.Since(began), m.until.Sub(began)))
	over := !time.Now().Before(m.until)
	if !over {
		s.holds++
		assert.False(m.t, m.busy, "two workers hold the lock")
		m.busy = true
	}
	m.mu.Unlock()
	if over {
		return false
	}
	time.Sleep(5*time.Millisecond + upTo(rng, 15*time.Millisecond))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy = false
	return true
}

// foreign is a worker of another library: SET NX PX on all nodes at once, compare-and-delete, and a
// pause after each failed attempt.
func (m *mixedFleet) foreign(id int) {
	rng := rand.New(rand.NewPCG(2, uint64(id)))
	time.Sleep(upTo(rng, 100*time.Millisecond)) // so that workers do not stay in step
	for n, goesOn := 0, true; goesOn; n++ {
		began, value := time.Now(), fmt.Sprintf("%d/%d", id, n)
		for m.ask("SET", "a", value, "NX", "PX", 10_000) <= len(m.servers)/2 {
			m.ask("EVAL", foreignRelease, 1, "a", value)
			time.Sleep(m.pause(rng))
		}
		goesOn = m.held(&m.their, began, rng)
		m.ask("EVAL", foreignRelease, 1, "a", value)
	}
}

// ask sends a command to all nodes at once, and returns how many granted it.
func (m *mixedFleet) ask(command string, args ...any) (granted int) {
	votes := make(chan bool)
	for i := range m.servers {
		go func() {
			reply := m.do(i, command, args...)
			votes <- reply == "OK" || reply == int64(1)
		}()
	}
	for range m.servers {
		if <-votes {
			granted++
		}
	}
	return granted
}

// Without foreign clients nothing is paid for them: a lock that is handed over for long is never
// left free, and nobody polls. On a single node it is left free, rarely and briefly.
func TestWaitersPayNothingForForeignClientsThatAreNotThere(t *testing.T) {
	skipRaced(t)
	for _, test := range []struct {
		nodes int
		most  time.Duration // idle time in total
	}{
		{1, 400 * time.Millisecond},
		{3, time.Microsecond}, // to connect
		{5, time.Microsecond},
	} {
		t.Run(fmt.Sprint(test.nodes, " nodes"), func(t *testing.T) {
			inBubble(t, test.nodes, func(t *testing.T, c *cluster) {
				c.instantly()
				b := c.busy(1, 10*time.Millisecond)
				limited, began := c.within(mixedTime), time.Now()
				var working atomic.Int64
				for range mixedWorkers {
					b.turns(limited, c.locker(rarely), func() []string { return b.names }, func(lock *redlock.Lock, _ time.Duration) {
						b.have(lock, b.hold)
						working.Add(int64(b.hold))
					})
				}
				b.all.Wait()
				assert.LessOrEqual(t, time.Since(began)-time.Duration(working.Load()), test.most)
			})
		})
	}
}

// Nobody gets stuck, whatever others wrote into the key that notes their turns.
func TestForeignTextInTheNoteOfTurnsBlocksNobody(t *testing.T) {
	for _, text := range []string{"", "x", "1 2 3", "-1 5", "1", "99999999999999999999 1000", strings.Repeat("9", 400) + " 0", "1 " + strings.Repeat("9", 400)} {
		inBubble(t, 1, func(t *testing.T, c *cluster) {
			lock := c.lock(c.locker(), "a")
			got := c.waiting(c.locker(), "a")
			c.do(0, "SET", "redquorum:others:a", text)
			c.del("a") // so that the waiter finds the lock free
			began := time.Now()
			next := <-got
			assert.Less(t, time.Since(began), time.Second, "%.50q", text)
			c.unlock(next)
			require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrLost)
		})
	}
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.do(0, "ZADD", "redquorum:others:a", 1, "x")
		c.unlock(c.lock(c.locker(), "a"))
	})
}
