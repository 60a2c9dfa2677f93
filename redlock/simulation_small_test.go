package redlock_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof"
	"github.com/redquorum/redquorum/redlock"
)

const (
	collected = 16              // after so many histories, garbage is collected
	mostTime  = 2 * time.Minute // for a history, which takes milliseconds unless somebody spins
)

var played int // histories in this process, one at a time

// small is what happened in a small history.
type small struct {
	plan     *plan
	injected atomic.Int64 // faults that broke something
	tenures  int
	wrong    []string
	timeline timeline
}

// play runs a plan in a world of its own.
func (p *plan) play(t *testing.T) *small {
	if played++; played%collected == 0 && !raced {
		runtime.GC()
	}
	seedRandom(t, p.seed)
	tooLong := time.AfterFunc(mostTime, func() { panic(fmt.Sprintf("still in %s after %v", p.command(), mostTime)) })
	defer tooLong.Stop()
	h := &small{plan: p}
	var s *simulation
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if r := recover(); r != nil {
				panic(fmt.Sprintf("REDQUORUM_SEED=%d: %v", p.seed, r))
			}
		}()
		s = newSimulation(t, p.seed)
		defer s.cancel()
		s.small, h.timeline.clock = h, s.clock
		u := &users{simulation: s, using: p.kind, rng: s.rng}
		u.live(p)
	})
	for _, one := range s.judge.judged {
		if text := one.disagreement(); text != "" {
			h.wrong = append(h.wrong, text)
		}
	}
	return h
}

// live runs a small history.
func (u *users) live(p *plan) {
	s := u.simulation
	s.faults, s.about, s.length, s.maxTTL = u.beside, u.kind+" ", p.length, smallMaxTTL
	s.hold = u.smallHold
	s.nodes(p.nodes)
	u.clocks()
	u.whole = make([]atomic.Int64, p.nodes)
	if u.setUp != nil {
		u.setUp(u)
	}
	for i := range 1 + u.rng.IntN(2) {
		s.names = append(s.names, fmt.Sprint("name", i))
	}
	s.fenced, s.tasks = u.rng.IntN(2) == 0, p.tasks
	s.patience = 10 * time.Minute
	s.judge = newJudge(s.clock, neverJudged)
	s.judge.turns, s.judge.order, s.judge.note = u.turns, slices.Contains(u.ills, "wrong clock"), s.note
	for i, server := range s.servers {
		s.watchForced(i, server)
	}
	for i := range p.processes {
		if !s.small.keepsProcess(i) {
			continue
		}
		rng := rand.New(rand.NewPCG(s.seed, uint64(1<<42+i)))
		process := s.newProcess(i, rng, u.smallOptions(rng))
		process.start()
		s.processes = append(s.processes, process)
	}
	for _, process := range s.processes {
		require.NoError(s.t, process.current().Ready(s.base))
	}
	s.run(func(c *client) { u.work(c) }, append(u.others(), func() { u.suffer(p.faults) })...)
	u.judgePermits()
	s.leavesNothing(3*time.Minute + 2*time.Second) // clocks differ by up to 1 %
	for _, server := range s.servers {
		s.small.injected.Add(int64(server.Lost()))
	}
}

// clocks makes the clocks of the nodes a little too fast or slow, by less than the 1 % that are
// allowed, and those of a minority wrong. The judge of minimum holds wants clocks that do not
// drift, and tokens stand on clocks that are near each other if counters are lost.
func (u *users) clocks() {
	if u.simulation.minHolds || u.kind == "minhold" || u.kind == "minhold-foreign" {
		return
	}
	wrong := u.minority(u.rng)
	for i, server := range u.servers {
		rate, offset := 1+(u.rng.Float64()-0.5)/56, time.Duration(0)
		if wrong>>i&1 == 1 && !u.beside.restarts {
			offset = upTo(u.rng, time.Second) - 500*time.Millisecond
		}
		server.SetClock(offset, rate)
	}
}

// smallHold is usually a moment, but now and then longer than the time to live.
func (u *users) smallHold(rng *rand.Rand) time.Duration {
	if !u.still && rng.IntN(5) == 0 || u.using.hold > 0 && rng.IntN(2) == 0 {
		return upTo(rng, smallMaxTTL)
	}
	return upTo(rng, 20*time.Millisecond)
}

func (u *users) smallOptions(rng *rand.Rand) []redlock.Option {
	switch {
	case u.renewed:
		return []redlock.Option{redlock.WithTTL(smallMaxTTL)}
	case u.ttl > 0:
		return []redlock.Option{redlock.WithTTL(smallMaxTTL / 4)}
	default:
		opts := []redlock.Option{redlock.WithTTL([]time.Duration{smallMaxTTL / 4, smallMaxTTL / 2, smallMaxTTL}[rng.IntN(3)])}
		if rng.IntN(2) == 0 {
			opts = append(opts, redlock.WithoutRenewal())
		}
		return append(opts, redlock.WithRetry(20*time.Millisecond, 200*time.Millisecond))
	}
}

// suffer lets the faults begin and end at their times. At the end of the history all end.
func (u *users) suffer(all []fault) {
	type turn struct {
		at clock.Instant
		do func()
	}
	var turns []turn
	var replacing sync.WaitGroup
	since := u.clock.Now()
	for i := range all {
		f := &all[i]
		begun := false
		turns = append(turns, turn{since.Add(f.at), func() {
			if !u.goesOn() {
				return
			}
			begun = true
			if f.ill.ofProcess {
				replacing.Go(func() { u.begin(f) })
				return
			}
			u.begin(f)
		}}, turn{since.Add(f.at + f.lasts), func() {
			if begun && !f.ill.ofProcess {
				u.end(f)
			}
		}})
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.at, b.at) })
	for _, t := range turns {
		u.pause(t.at.Sub(u.clock.Now()))
		t.do()
	}
	replacing.Wait()
}

// Small histories of the library, of every kind, beside dense faults: the same holds as in
// TestSimulatedUsesOfAllKindsAreExclusiveAndServed. REDQUORUM_HISTORIES says how many. The first
// one that fails is shrunk.
func TestSmallHistoriesOfAllKinds(t *testing.T) {
	if text := os.Getenv(shareVariable); text != "" {
		playShare(t, text)
		return
	}
	if text := os.Getenv("REDQUORUM_SEED"); text != "" {
		replays(t, seeds(t, 1, 1)[0])
		return
	}
	base, count := rand.Uint64()>>1, sizeOf(40, 2_000_000)
	if text := os.Getenv("REDQUORUM_HISTORIES"); text != "" {
		var err error
		count, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	t.Logf("REDQUORUM_SEED=%d and the next %d", base, count-1)
	all := playApart(t, base, count)
	for _, h := range all.Failed {
		t.Errorf("REDQUORUM_SEED=%d, %s", h.Seed, h.Wrong)
	}
	if len(all.Failed) > 0 {
		t.Error(shrunk(t, newPlan(all.Failed[0].Seed)))
	}
	assert.Greater(t, all.Tenures, count, "tenures")
	step := "simulation of the library"
	if raced {
		step += ", raced"
	}
	t.Log(proof.Line{
		Step: step, Size: fmt.Sprint(count, " histories"), Faults: all.Faults, Violations: int64(len(all.Failed)),
	})
}
