package simulation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// simulation is one that is under way: processes, nodes, and what becomes of them.
type simulation struct {
	*virtual.Cluster
	kind      *using
	seed      uint64
	rng       *rand.Rand
	names     []string
	processes []*process
	faults    faults
	about     string // what a failure is to tell beside the faults
	fenced    bool
	latency   time.Duration // of a message in calm times, at most
	maxTTL    time.Duration
	mending   time.Duration // for how long a storm is felt after it
	length    time.Duration
	patience  time.Duration // for which somebody may wait after the end
	tasks     int           // of a process
	hold      func(rng *rand.Rand) time.Duration
	judge     *judge

	base   context.Context    //nolint:containedctx // ends every wait of a simulation that hangs
	ending chan struct{}      // closed when nothing new is to be begun
	cancel context.CancelFunc // of base

	exchange sync.Mutex     // guards the elements of servers, which weather alone replaces
	whole    []atomic.Int64 // by node: since when it works; -1 while it is broken

	// By node, and of weather's goroutine alone.
	dead    []bool          // killed
	born    []clock.Instant // when it was last restarted; 0 for never
	keeping []bool          // claims to be durable, and never restarts from an old copy
	open    []*fault        // those that have begun
	faulty  int             // the node that has wrong clocks and counters
	members int             // how many of the nodes are members at the beginning

	// Where masters forget.
	mode  redlock.Quarantine // of all Lockers, unless they are mixed
	spare *fakeredis.Node    // an empty master of another cluster
	apart time.Duration      // by how much the clock of a node may be wrong
}

// seeds returns the seeds to run: the one of the environment, or as many new ones as the size says.
// Those that are settled are the same in every ordinary run.
func seeds(t *testing.T, small, full int, settled bool) (all []uint64) {
	t.Helper()
	if seed, asked := history.Seed(t); asked {
		return []uint64{seed}
	}
	if virtual.Raced {
		t.Skip("takes too long under the race detector, which gets the histories of the driver")
	}
	for i := range virtual.SizeOf(small, full) {
		seed := rand.Uint64()
		if settled && !virtual.Soaks() {
			seed = uint64(i + 1)
		}
		all = append(all, seed)
	}
	return all
}

func TestMain(m *testing.M) { virtual.OneProcessor(m) }

// simulate runs a test in a world of its own. A failure names the seed: REDQUORUM_SEED repeats it,
// as far as the order of goroutines allows. Porcupine must find what our own judge found.
func simulate(t *testing.T, seed uint64, test func(s *simulation)) {
	t.Helper()
	t.Run(fmt.Sprint("REDQUORUM_SEED=", seed), func(t *testing.T) {
		var s *simulation
		synctest.Test(t, func(t *testing.T) {
			s = newSimulation(t, seed)
			defer s.cancel()
			test(s)
		})
		for _, c := range s.judge.cases {
			assert.Empty(t, c.Disagreement())
		}
	})
}

// newSimulation returns a simulation without nodes and processes. It must be canceled.
func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{
		Cluster: &virtual.Cluster{T: t, Clock: clocktest.New()}, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)),
		ending: make(chan struct{}), latency: 2 * time.Millisecond, maxTTL: 2 * time.Second, patience: time.Minute,
		hold: func(rng *rand.Rand) time.Duration { return upTo(rng, 20*time.Millisecond) },
	}
	s.base, s.cancel = context.WithCancel(context.Background())
	return s
}

// nodes starts fake nodes: so many members, and spare ones if the members change. They have been up
// for long, unless the cluster is young.
func (s *simulation) nodes(members int) {
	n := members
	if s.kind.changes {
		n += spares + foreigners
	}
	s.whole, s.dead, s.born = make([]atomic.Int64, n), make([]bool, n), make([]clock.Instant, n)
	s.keeping, s.faulty = make([]bool, n), s.rng.IntN(n)
	how := s.kind.forgetful
	for i := range n {
		up := time.Hour
		if how != nil && how.young {
			up = 0
		}
		s.Servers = append(s.Servers, s.newNode(fakeredis.WithUptime(up)))
		s.slowDown(i, s.latency)
		if how == nil {
			continue
		}
		if s.keeping[i] = s.rng.Float64() < how.durable; s.keeping[i] {
			virtual.SetDurable(s.Servers[i])
		}
	}
	if how == nil || s.kind.changes {
		s.found(members)
	}
	if how != nil {
		s.spare, s.apart = s.newNode(), wrongBy
		if how.modes != nil {
			s.mode = how.modes[s.rng.IntN(len(how.modes))]
			s.about += []string{"auto, ", "strict, "}[s.mode]
		}
	}
}

// newNode starts a fake node that ends with the simulation.
func (s *simulation) newNode(opts ...fakeredis.Option) *fakeredis.Node {
	server := fakeredis.New(s.Clock, append(opts, fakeredis.WithoutCommandLog())...)
	s.T.Cleanup(server.Close)
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

// start makes processes, each with Lockers of the same options.
func (s *simulation) start(n int, opts func(rng *rand.Rand) []redlock.Option) {
	for i := range n {
		rng := rand.New(rand.NewPCG(s.seed, uint64(1<<42+i)))
		p := s.newProcess(i, rng, opts(rng))
		p.start()
		s.processes = append(s.processes, p)
	}
	for _, p := range s.processes {
		if s.kind.forgetful == nil {
			require.NoError(s.T, p.current().Ready(s.base))
		}
	}
}

// run lets clients work in all processes for the length of the simulation, and others beside them.
// Then it waits for all of them, and judges.
func (s *simulation) run(work func(c *client), beside ...func()) {
	var running sync.WaitGroup
	for _, p := range s.processes {
		for task := range s.tasks {
			c := &client{p, fmt.Sprintf("client %d.%d", p.id, task), rand.New(rand.NewPCG(s.seed, uint64(p.id*100+task+1)))}
			running.Go(func() { work(c) })
		}
	}
	for _, f := range beside {
		running.Go(f)
	}
	time.AfterFunc(s.length, func() { close(s.ending) })
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
	if s.kind.changes {
		s.goesOnWithChanges()
	}
	tenures, wrong := s.judge.sentence()
	if len(wrong) > 0 {
		s.T.Errorf("seed %d, %d nodes, %s%+v:\n%s", s.seed, len(s.Servers), s.about, s.faults, strings.Join(wrong, "\n"))
	}
	all := s.total()
	s.T.Logf("%+v: %d tenures, %d handed over, %d woken, %d polls, %d split, %d second rounds; free for %v at most, %v allowed",
		s.faults, tenures, all.HandedOver, all.Woken, all.Polls, all.Split, all.SecondRounds, s.judge.longest, s.judge.bound)
	if tenures == 0 {
		s.T.Error("nobody ever had a lock")
	}
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
	for i, server := range s.Servers {
		for _, key := range server.Keys() {
			if !outlives(key) {
				s.T.Errorf("seed %d: node %d still has %q", s.seed, i, key)
			}
		}
	}
}

// outlives reports whether a key is to outlive the locks: a counter of fencing tokens, the number
// of a semaphore's permits, the proof of memory, and the log.
func outlives(key string) bool {
	return strings.HasPrefix(key, "redquorum:fence:") || strings.HasPrefix(key, "redquorum:permits:") ||
		key == pipeline.MemoryKey || key == pipeline.RegisterKey || key == virtual.LogKey
}

// watchParts looks for names that a set holds while it waits for the rest, until done is closed:
// such names are not free.
func (s *simulation) watchParts(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(20 * time.Millisecond):
		}
		for _, name := range s.names {
			s.judge.watch(name, s.quorumHolds(name))
		}
	}
}

// quorumHolds reports whether a quorum of nodes holds the same value under a name.
func (s *simulation) quorumHolds(name string) bool {
	s.exchange.Lock()
	defer s.exchange.Unlock()
	votes := make(map[string]int)
	for _, server := range s.Servers {
		if value, _, found := server.Get(name); found {
			if votes[value]++; votes[value] > len(s.Servers)/2 {
				return true
			}
		}
	}
	return false
}
