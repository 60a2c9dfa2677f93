package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/redlock"
)

// A simulation has processes that contend for locks over fake nodes, in virtual time, while the
// nodes are broken and healed. One seed decides everything random, except for the order in which
// goroutines run at one instant and the library's own random numbers.
type simulation struct {
	*cluster
	seed      uint64
	rng       *rand.Rand
	names     []string
	processes []*process
	faults    faults
	about     string // what a failure is to tell beside the faults
	fenced    bool
	minHolds  bool
	latency   time.Duration // of a message in calm times, at most
	maxTTL    time.Duration
	mending   time.Duration // for how long a storm is felt after it
	length    time.Duration
	patience  time.Duration // for which somebody may wait after the end
	tasks     int           // of a process
	hold      func(rng *rand.Rand) time.Duration
	judge     *judge

	small *small // what is recorded about a small history; nil otherwise

	base   context.Context    //nolint:containedctx // ends every wait of a simulation that hangs
	ending chan struct{}      // closed when nothing new is to be begun
	cancel context.CancelFunc // of base

	exchange sync.Mutex // guards the elements of servers, which weather alone replaces

	// By node, and of weather's goroutine alone.
	dead []bool          // killed
	born []clock.Instant // when it was last restarted; 0 for never
}

// seeds returns the seeds to run: the one of the environment, or as many new ones as the size says.
func seeds(t *testing.T, small, full int) (all []uint64) {
	t.Helper()
	if text := os.Getenv("REDQUORUM_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		return []uint64{seed}
	}
	if raced {
		t.Skip("takes too long under the race detector, which gets TestSmallHistoriesOfAllKinds")
	}
	for range sizeOf(small, full) {
		all = append(all, rand.Uint64())
	}
	return all
}

// sizeOf returns how often to do something: with REDQUORUM_SOAK=1, as often as the project
// promises.
func sizeOf(small, full int) int {
	switch {
	case os.Getenv("REDQUORUM_SOAK") == "1":
		return full
	case testing.Short(), raced:
		return max(small/10, 1)
	default:
		return small
	}
}

// unraced returns the first number under the race detector, which makes everything take ten times
// as long, and the second one without it.
func unraced(raceSize, size int) int {
	if raced {
		return raceSize
	}
	return size
}

// skipRaced skips a statistic of many turns under the race detector. It would take half a minute,
// and its goroutines are those of the simulations, which do run.
func skipRaced(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("a statistic of many turns: it runs without the race detector")
	}
}

// simulate runs a test in a world of its own. A failure names the seed: REDQUORUM_SEED repeats it,
// as far as the order of goroutines allows.
func simulate(t *testing.T, seed uint64, test func(s *simulation)) {
	t.Helper()
	t.Run(fmt.Sprint("REDQUORUM_SEED=", seed), func(t *testing.T) {
		var s *simulation
		synctest.Test(t, func(t *testing.T) {
			s = newSimulation(t, seed)
			defer s.cancel()
			test(s)
		})
		if s.judge != nil {
			agree(t, s.judge.judged)
		}
	})
}

// newSimulation returns a simulation without nodes and processes. It must be canceled.
func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{
		cluster: &cluster{t: t, clock: clocktest.New()}, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)),
		ending: make(chan struct{}), latency: 2 * time.Millisecond, maxTTL: 2 * time.Second, patience: time.Minute,
		hold: func(rng *rand.Rand) time.Duration { return upTo(rng, 20*time.Millisecond) },
	}
	s.base, s.cancel = context.WithCancel(context.Background())
	return s
}

// nodes starts n fake nodes that have been up for long.
func (s *simulation) nodes(n int) {
	for range n {
		s.servers = append(s.servers, s.newNode(fake.WithUptime(time.Hour)))
		s.admit(len(s.servers)-1, s.maxTTL)
		s.slowDown(len(s.servers)-1, s.latency)
	}
	s.dead, s.born = make([]bool, n), make([]clock.Instant, n)
}

// newNode starts a fake node that ends with the simulation.
func (s *simulation) newNode(opts ...fake.Option) *fake.Node {
	server := fake.New(s.clock, append(opts, fake.WithCommandLog(0))...)
	s.t.Cleanup(server.Close)
	return server
}

// goesOn reports whether there is something new to begin.
func (s *simulation) goesOn() bool {
	select {
	case <-s.ending:
		return false
	default:
		return true
	}
}

// newProcess makes a process without a Locker.
func (s *simulation) newProcess(id int, rng *rand.Rand, opts []redlock.Option) *process {
	p := &process{sim: s, id: id, clock: s.clock, opts: append([]redlock.Option{redlock.WithMaxTTL(s.maxTTL)}, opts...)}
	if !s.faults.restarts && rng.IntN(2) == 0 { // a counter that is lost as well would be too much
		p.clock = &skewed{s.clock, upTo(rng, time.Second) - 500*time.Millisecond}
	}
	return p
}

// start makes processes, each with Lockers of the same options.
func (s *simulation) start(n int, opts func(rng *rand.Rand) []redlock.Option) {
	for i := range n {
		p := s.newProcess(i, s.rng, opts(s.rng))
		p.start()
		s.processes = append(s.processes, p)
	}
	for _, p := range s.processes {
		require.NoError(s.t, p.current().Ready(s.base))
	}
}

// run lets clients work in all processes for the length of the simulation, and others beside them.
// Then it waits for all of them, and judges.
func (s *simulation) run(work func(c *client), beside ...func()) {
	var running sync.WaitGroup
	for _, p := range s.processes {
		for task := range s.tasks {
			if !s.small.keepsClient(p.id, task) {
				continue
			}
			c := &client{p, fmt.Sprint("client ", clientActor(p.id, task)), rand.New(rand.NewPCG(s.seed, uint64(p.id*100+task+1)))}
			running.Go(func() { work(c) })
		}
	}
	for _, f := range beside {
		running.Go(f)
	}
	if s.length > 0 {
		time.AfterFunc(s.length, func() { close(s.ending) })
	}
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	if s.judge.bound < neverJudged {
		go s.watchParts(done)
	}
	<-s.ending
	select {
	case <-done:
	case <-time.After(s.patience):
		s.judge.fail("somebody has waited for %v since the end", s.patience)
		s.cancel()
		<-done
	}
	for _, p := range s.processes {
		_ = p.current().Close()
	}
	tenures, wrong := s.judge.sentence()
	if len(wrong) > 0 {
		s.report("seed %d, %d nodes, %s%+v:\n%s", s.seed, len(s.servers), s.about, s.faults, strings.Join(wrong, "\n"))
	}
	if s.small != nil {
		s.small.tenures = tenures
		return
	}
	all := s.total()
	s.t.Logf("%+v: %d tenures, %d handed over, %d woken, %d polls, %d split, %d second rounds; free for %v at most, %v allowed",
		s.faults, tenures, all.HandedOver, all.Woken, all.Polls, all.Split, all.SecondRounds, s.judge.longest, s.judge.bound)
	if tenures == 0 {
		s.t.Error("nobody ever had a lock")
	}
}

// report reports what was wrong.
func (s *simulation) report(format string, args ...any) {
	if s.small != nil {
		s.small.wrong = append(s.small.wrong, fmt.Sprintf(format, args...))
		return
	}
	s.t.Errorf(format, args...)
}

// total sums up what all processes did.
func (s *simulation) total() (sum redlock.Stats) {
	for _, p := range s.processes {
		p.addStats(&sum)
	}
	return sum
}

// pause waits a while, less when the simulation ends.
func (s *simulation) pause(d time.Duration) {
	select {
	case <-s.ending:
	case <-time.After(d):
	}
}

// leavesNothing asks that there are no keys after some time, but for those that are to outlive the
// locks.
func (s *simulation) leavesNothing(after time.Duration) {
	time.Sleep(after)
	for i, server := range s.servers {
		for _, key := range server.Keys() {
			if !outlives(key) {
				s.report("seed %d: node %d still has %q", s.seed, i, key)
			}
		}
	}
}

// outlives reports whether a key is to outlive the locks: a counter of fencing tokens, the number
// of a semaphore's permits, and the proof of memory.
func outlives(key string) bool {
	return strings.HasPrefix(key, "redquorum:fence:") || strings.HasPrefix(key, "redquorum:permits:") || key == memoryKey
}

// Whatever the faults, options and use: locks are exclusive, tokens in order, nobody is stuck, and
// nothing is left.
func TestSimulatedClientsExcludeEachOtherAndGetTheLock(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 5, 10_000) {
		simulate(t, seed, func(s *simulation) {
			rng := s.rng
			s.nodes([]int{1, 2, 3, 3, 4, 5, 5, 5, 5, 5}[rng.IntN(10)])
			for i := range 1 + rng.IntN(4) {
				s.names = append(s.names, fmt.Sprint("name", i))
			}
			s.faults = faults{
				losses: rng.IntN(4) > 0, outages: rng.IntN(3) > 0, restarts: rng.IntN(2) == 0,
				refusals: rng.IntN(3) == 0, closings: rng.IntN(2) == 0,
			}
			s.fenced, s.tasks, s.length = rng.IntN(2) == 0, 1+rng.IntN(4), time.Duration(unraced(4, 10))*time.Second
			s.hold = func(rng *rand.Rand) time.Duration {
				if rng.IntN(20) == 0 {
					return upTo(rng, 2*s.maxTTL)
				}
				return upTo(rng, 20*time.Millisecond)
			}
			s.mending = s.maxTTL + 3*time.Second
			s.judge = newJudge(s.clock, waitBound(s.latency))
			s.start(3+rng.IntN(6), randomOptions)
			beside := []func(){func() { s.weather(rng) }}
			if !s.faults.restarts && rng.IntN(2) == 0 {
				f := &foreigner{sim: s, rng: rand.New(rand.NewPCG(seed, 1<<40)), ttl: time.Second}
				beside = append(beside, f.run)
			}
			s.run((*client).run, beside...)
			// The lists of those whose leaving was lost live longest.
			s.leavesNothing(3*time.Minute + time.Second)
		})
	}
}

// The slowest of the options of a simulation.
const (
	slowestRetry   = 500 * time.Millisecond
	slowestTimeout = 100 * time.Millisecond
	slowestTTL     = 2 * time.Second
)

func randomOptions(rng *rand.Rand) []redlock.Option {
	ttls := []time.Duration{300 * time.Millisecond, time.Second, slowestTTL}
	opts := []redlock.Option{redlock.WithTTL(ttls[rng.IntN(len(ttls))])}
	if rng.IntN(2) == 0 {
		opts = append(opts, redlock.WithoutRenewal())
	}
	if rng.IntN(2) == 0 {
		opts = append(opts, redlock.WithRetry(20*time.Millisecond, 200*time.Millisecond))
	} else {
		opts = append(opts, redlock.WithRetry(slowestRetry/5, slowestRetry))
	}
	return opts
}

// waitBound is how long a lock may be free while a client waits for it and nothing is broken. The
// vote may have been handed to a waiter that just gave up and whose leaving was lost: the grace
// (two node timeouts). Nobody else is woken then, and the next poll comes after the longest pause.
// Its attempt may meet others, and pause as in an outage (250 ms), before the one that wins: two
// attempts, each of a node timeout and four messages.
func waitBound(latency time.Duration) time.Duration {
	return 2*slowestTimeout + slowestRetry + 250*time.Millisecond + 2*(slowestTimeout+4*latency)
}
