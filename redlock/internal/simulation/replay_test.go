package simulation_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/internal/proof/virtual"
)

// Small histories are played one at a time in a process and on one processor, so that the seed
// decides all but what the runtime draws. Processes beside each other use more processors.

// shareVariable makes a process play a share of the histories.
const shareVariable = "REDQUORUM_SHARE"

// mostMemory is what a process may use without garbage collection: many times what a history takes
// in which nobody waits for ever.
const mostMemory = 512 << 20

// share is every step-th history of a series.
type share struct {
	Base        uint64 // the first seed
	First, Step int
	Count       int    // of the whole series
	Told        string // the file for the outcome
}

// outcome is what happened in many histories.
type outcome struct {
	Faults  int64
	Tenures int
	Failed  []failed
}

// failed is a history that failed.
type failed struct {
	Seed  uint64
	Wrong string
}

func (o *outcome) add(other outcome) {
	o.Faults += other.Faults
	o.Tenures += other.Tenures
	o.Failed = append(o.Failed, other.Failed...)
}

// play plays a share in this process.
func (s share) play(t *testing.T) (all outcome) {
	defer repeatably()()
	for i := s.First; i < s.Count; i += s.Step {
		h := newPlan(s.Base + uint64(i)).play(t)
		all.Faults += h.injected
		all.Tenures += h.tenures
		if len(h.wrong) > 0 {
			all.Failed = append(all.Failed, failed{h.plan.seed, strings.Join(h.wrong, "\n")})
		}
	}
	return all
}

// playApart plays a series in as many processes as there are processors.
func playApart(t *testing.T, base uint64, count int) (all outcome) {
	var running sync.WaitGroup
	outcomes := make([]outcome, runtime.NumCPU())
	for i := range outcomes {
		s := share{Base: base, First: i, Step: len(outcomes), Count: count, Told: filepath.Join(t.TempDir(), fmt.Sprint(i))}
		running.Go(func() { outcomes[i] = s.playApart(t) })
	}
	running.Wait()
	for _, one := range outcomes {
		all.add(one)
	}
	return all
}

// playApart plays a share in a process of its own.
func (s share) playApart(t *testing.T) (told outcome) {
	text, err := json.Marshal(s)
	if !assert.NoError(t, err) {
		return told
	}
	//nolint:gosec // this program itself
	child := exec.CommandContext(t.Context(), os.Args[0],
		"-test.run=^"+t.Name()+"$", "-test.timeout="+flag.Lookup("test.timeout").Value.String())
	stacks := "GODEBUG=adaptivestackstart=1," + os.Getenv("GODEBUG") // a tenth less time
	child.Env = append(os.Environ(), shareVariable+"="+string(text), stacks)
	if said, err := child.CombinedOutput(); !assert.NoError(t, err, "%s", said) {
		return told
	}
	text, err = os.ReadFile(s.Told)
	if assert.NoError(t, err) {
		assert.NoError(t, json.Unmarshal(text, &told))
	}
	return told
}

// playShare plays the share that another process asks for.
func playShare(t *testing.T, text string) {
	var s share
	require.NoError(t, json.Unmarshal([]byte(text), &s))
	told, err := json.Marshal(s.play(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.Told, told, 0o600))
}

// repeatably makes what follows as repeatable as the runtime allows. One goroutine runs at a time,
// unless the race detector is to see them run side by side. The garbage collector and the scheduler
// preempt goroutines at any place, so garbage is only collected between histories (see
// [plan.play]), and a goroutine that always gives way shows the scheduler, which preempts whoever
// has run for 10 ms, that the others take turns. (Those that wake each other share one turn.)
func repeatably() (undo func()) {
	if virtual.Raced {
		percent := debug.SetGCPercent(400) // histories leave nothing behind
		return func() { debug.SetGCPercent(percent) }
	}
	processors, percent, limit := runtime.GOMAXPROCS(1), debug.SetGCPercent(-1), debug.SetMemoryLimit(mostMemory)
	var turning sync.WaitGroup
	over := make(chan struct{})
	turning.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				runtime.Gosched()
			}
		}
	})
	return func() {
		close(over)
		turning.Wait()
		runtime.GOMAXPROCS(processors)
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

// A history that failed is played again with parts of its plan left out, as long as it still fails.

const (
	shrinkTries = 3                // of each candidate: a replay is not always the same
	shrinkTime  = 60 * time.Second // unless REDQUORUM_SHRINK says otherwise
	mostReplays = 20               // of a seed
)

// without leaves parts of a plan out while it still fails: time, faults, and those who take part.
var without = []history.Step[plan]{
	func(p plan, try func(plan) bool) {
		for _, eighths := range []time.Duration{1, 2, 4, 6, 7} {
			if length := p.length * eighths / 8; length > 0 && length < p.length && try(p.cut(length)) {
				return
			}
		}
	},
	func(p plan, try func(plan) bool) {
		history.Without(p.faults, func(rest []fault) bool {
			p.faults = rest
			return try(p)
		})
	},
	func(p plan, try func(plan) bool) {
		history.Without(p.actors, func(rest []string) bool {
			p.actors = rest
			return len(rest) > 0 && try(p)
		})
	},
}

// cut returns a plan that is shorter. Faults that would begin later are left out.
func (p plan) cut(length time.Duration) plan {
	p.length = length
	p.faults = slices.DeleteFunc(slices.Clone(p.faults), func(f fault) bool { return f.at >= length })
	return p
}

// command returns what replays a plan.
func (p *plan) command() string {
	ids := make([]string, len(p.faults))
	for i, f := range p.faults {
		ids[i] = strconv.Itoa(f.id)
	}
	return fmt.Sprintf("REDQUORUM_SEED=%d REDQUORUM_FAULTS=%s REDQUORUM_ACTORS=%s REDQUORUM_LENGTH=%v go test -count=1 -v -run TestSmallHistories ./redlock/internal/simulation",
		p.seed, strings.Join(ids, ","), strings.Join(p.actors, ","), p.length)
}

// asked leaves out of a plan what the environment does not name.
func (p *plan) asked(t *testing.T) {
	p.length = history.Length(t, "REDQUORUM_LENGTH", p.length)
	if text, ok := os.LookupEnv("REDQUORUM_FAULTS"); ok {
		ids := strings.Split(text, ",")
		p.faults = slices.DeleteFunc(p.faults, func(f fault) bool { return !slices.Contains(ids, strconv.Itoa(f.id)) })
	}
	if text, ok := os.LookupEnv("REDQUORUM_ACTORS"); ok {
		p.actors = strings.Split(text, ",")
	}
}

// shrunk plays a history that failed with less and less, and tells of the smallest that fails.
func shrunk(t *testing.T, p *plan) string {
	defer repeatably()()
	until := time.Now().Add(history.Length(t, "REDQUORUM_SHRINK", shrinkTime))
	var smallest *small
	fails := func(p plan) bool {
		for range shrinkTries {
			if time.Now().After(until) {
				return false
			}
			if h := p.play(t); len(h.wrong) > 0 {
				smallest = h
				return true
			}
		}
		return false
	}
	if !fails(*p) {
		return fmt.Sprintf("did not fail again:\n%s", p.command())
	}
	after := history.Shrink(*p, fails, without...)
	return fmt.Sprintf("%d of %d faults, %d of %d clients, %v of %v:\n%s\n%s\n%s", len(after.faults), len(p.faults),
		len(after.actors), len(p.actors), after.length, p.length,
		strings.Join(smallest.wrong, "\n"), smallest.timeline.String(), after.command())
}

// replays plays a seed several times and tells how often it failed, and how often its timeline was
// that of most.
func replays(t *testing.T, seed uint64) {
	defer repeatably()()
	p := newPlan(seed)
	p.asked(t)
	seen, failures := make(map[string]int), 0
	var told *small
	for range mostReplays {
		h := p.play(t)
		seen[h.timeline.String()]++
		if len(h.wrong) > 0 {
			failures++
			told = h
		}
	}
	same := 0
	for _, count := range seen {
		same = max(same, count)
	}
	t.Logf("%s: %d of %d replays failed; %d were the same", p.kind.kind, failures, mostReplays, same)
	if told != nil {
		t.Errorf("%s\n%s", strings.Join(told.wrong, "\n"), told.timeline.String())
	}
}

// Replays are the same to the nanosecond, but now and then one differs, because the scheduler has
// preempted a goroutine: on a busy machine, most do. So two are enough, of thirty.
func TestASeedDecidesAHistory(t *testing.T) {
	if virtual.Raced {
		t.Skip("with the race detector, the scheduler's order is random")
	}
	if !history.SeededRandom {
		t.Skip("seeding crypto/rand needs Go 1.26")
	}
	defer repeatably()()
	for seed := range uint64(2) {
		same, seen := false, make(map[string]bool)
		for i := 0; i < 30 && !same; i++ {
			told := newPlan(seed).play(t).timeline.String()
			same, seen[told] = seen[told], true
		}
		assert.True(t, same, "no two replays of seed %d are the same", seed)
	}
}
