package driver_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof"
	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/internal/proof/search"
)

// acts are all that an actor may do.
var acts = slices.Concat(acquisitions, handling, operating, seldom, []*act{{"mistakes", 1, errs}})

// TestMain gives the tests one processor: in virtual time, hardly two goroutines run at once. And
// it has garbage collected less often, which takes a quarter of the time otherwise. The histories
// on servers wait for most of their time: they are played side by side.
func TestMain(m *testing.M) {
	search.RunMore(2)
	if !search.Race {
		runtime.GOMAXPROCS(1)
		debug.SetGCPercent(400)
	}
	m.Run()
}

// playVirtual plays a plan over fake masters, in virtual time.
func playVirtual(t *testing.T, p *plan) (r *run) {
	t.Helper()
	history.SeedRandom(t, p.seed)
	synctest.Test(t, func(t *testing.T) {
		r = newRun(t, p, virtual(t, p))
		r.play()
	})
	return r
}

func planOf(seed uint64) *plan {
	if p := newScene(seed); p != nil {
		return p
	}
	return newPlan(seed, slices.Sorted(maps.Keys(virtualFaults)))
}

// outcome is what happened in many histories.
type outcome struct {
	Faults           int64
	Checked, Reached map[string]int
	Failed           []uint64
	Wrong            []string
}

func newOutcome() *outcome {
	return &outcome{Checked: make(map[string]int), Reached: make(map[string]int)}
}

func (o *outcome) addRun(r *run) {
	o.Faults += int64(r.broken)
	merge(o.Checked, r.checked)
	merge(o.Reached, r.reached)
	if len(r.wrong) > 0 {
		o.Failed, o.Wrong = append(o.Failed, r.plan.seed), append(o.Wrong, r.wrong[0])
	}
}

func (o *outcome) add(other *outcome) {
	o.Faults += other.Faults
	merge(o.Checked, other.Checked)
	merge(o.Reached, other.Reached)
	o.Failed, o.Wrong = append(o.Failed, other.Failed...), append(o.Wrong, other.Wrong...)
}

func merge(into, from map[string]int) {
	for name, n := range from {
		into[name] += n
	}
}

// share is every step-th history of a series, which a process of its own plays.
type share struct {
	Base               uint64
	First, Step, Count int
	Told               string // the file for the outcome
}

const (
	shareVariable = "REDQUORUM_DRIVE"

	// enough is how many histories look at every promise, and reach every rare state. Runs of so
	// many or fewer play the same ones each time; longer ones play new ones.
	enough = 2000

	// mostFailed ends a share of a broken library.
	mostFailed = 5
)

func (s *share) play(t *testing.T) *outcome {
	all := newOutcome()
	for i := s.First; i < s.Count && len(all.Failed) < mostFailed; i += s.Step {
		all.addRun(playVirtual(t, planOf(s.Base+uint64(i))))
	}
	return all
}

// playApart plays a share in a process of its own.
func (s *share) playApart(t *testing.T) *outcome {
	told := newOutcome()
	text, err := json.Marshal(s)
	if !assert.NoError(t, err) {
		return told
	}
	limit := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration)
	limit -= limit / 10 // a child that hangs tells where, before this process ends
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout="+limit.String())
	child.Env = append(os.Environ(), shareVariable+"="+string(text))
	if said, err := child.CombinedOutput(); !assert.NoError(t, err, "%s", proof.Tail(string(said))) {
		return told
	}
	text, err = os.ReadFile(s.Told)
	if assert.NoError(t, err) {
		assert.NoError(t, json.Unmarshal(text, told))
	}
	return told
}

// Histories of all that the public API offers, beside faults: everything is as the documentation
// says. REDQUORUM_HISTORIES says how many; REDQUORUM_SEED replays one, and prints it.
func TestHistories(t *testing.T) {
	if text := os.Getenv(shareVariable); text != "" {
		var s share
		require.NoError(t, json.Unmarshal([]byte(text), &s))
		told, err := json.Marshal(s.play(t))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(s.Told, told, 0o600))
		return
	}
	base, asked := history.Seed(t)
	if asked {
		replay(t, base)
		return
	}
	t.Parallel() // only other processes play
	count := history.Count(t, 60)
	if base >>= 1; count <= enough {
		base = 1
	}
	t.Logf("REDQUORUM_SEED=%d and the next %d", base, count-1)
	all := newOutcome()
	var playing sync.WaitGroup
	outcomes := make([]*outcome, runtime.NumCPU())
	for i := range outcomes {
		s := &share{Base: base, First: i, Step: len(outcomes), Count: count, Told: filepath.Join(t.TempDir(), fmt.Sprint(i))}
		playing.Go(func() { outcomes[i] = s.playApart(t) })
	}
	playing.Wait()
	for _, o := range outcomes {
		all.add(o)
	}
	if len(all.Failed) > 0 {
		i := slices.Index(all.Failed, slices.Min(all.Failed))
		t.Logf("first: history %d: %s", all.Failed[i]-base+1, all.Wrong[i])
	}
	for i, seed := range all.Failed {
		t.Errorf("REDQUORUM_SEED=%d: %s", seed, all.Wrong[i])
	}
	looked(t, all.Checked, count >= enough)
	all.tell(t, count)
}

// replay plays one history again, until it fails, and prints it.
func replay(t *testing.T, seed uint64) {
	for range 20 {
		if r := playVirtual(t, planOf(seed)); len(r.wrong) > 0 {
			t.Fatal(shrunk(t, r).report())
		}
	}
}

// shrunk leaves out faults, actors and others while the history still fails.
func shrunk(t *testing.T, failed *run) *run {
	fails := func(change func(p *plan)) bool {
		p := *failed.plan
		change(&p)
		for range 3 {
			if r := playVirtual(t, &p); len(r.wrong) > 0 {
				failed = r
				return true
			}
		}
		return false
	}
	history.Without(failed.plan.faults, func(rest []faultPlan) bool { return fails(func(p *plan) { p.faults = rest }) })
	history.Without(failed.plan.actors, func(rest []string) bool { return fails(func(p *plan) { p.actors = rest }) })
	history.Without(failed.plan.beside, func(rest []besidePlan) bool { return fails(func(p *plan) { p.beside = rest }) })
	return failed
}

// tell prints how often each rare state was reached.
func (o *outcome) tell(t *testing.T, count int) {
	reached := make(map[string]int)
	for _, state := range rare {
		if reached[state] = o.Reached[state]; count >= enough {
			assert.NotZero(t, o.Reached[state], "no history reached %q", state)
		}
	}
	for state := range o.Reached {
		assert.Contains(t, rare, state)
	}
	t.Log(proof.Line{
		Step: "driver of the public API", Size: fmt.Sprint(count, " histories"), Faults: o.Faults, Violations: int64(len(o.Failed)),
		Reached: reached,
	})
}
