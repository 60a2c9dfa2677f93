package redlock_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A history that failed is played again with parts of its plan left out, as long as it still fails.

const (
	shrinkTries = 3                // of each candidate: a replay is not always the same
	shrinkTime  = 60 * time.Second // unless REDQUORUM_SHRINK says otherwise
	mostReplays = 20               // of a seed
)

// shrinker makes a history that failed smaller.
type shrinker struct {
	play  func(p *plan) *small
	until time.Time
	best  *small
}

// try reports whether a plan fails, and keeps it then.
func (s *shrinker) try(p plan) bool {
	for range shrinkTries {
		if time.Now().After(s.until) {
			return false
		}
		if h := s.play(&p); len(h.wrong) > 0 {
			s.best = h
			return true
		}
	}
	return false
}

// shrink leaves out what is not needed, until nothing more can be left out.
func (s *shrinker) shrink() {
	for before := ""; before != s.best.plan.command(); {
		before = s.best.plan.command()
		p := *s.best.plan
		for _, eighths := range []time.Duration{1, 2, 4, 6, 7} {
			if shorter := p; s.try(*shorter.cut(p.length * eighths / 8)) {
				break
			}
		}
		without(s.best.plan.faults, func(rest []fault) bool {
			p := *s.best.plan
			p.faults = rest
			return s.try(p)
		})
		without(s.best.plan.actors, func(rest []string) bool {
			p := *s.best.plan
			p.actors = rest
			return len(rest) > 0 && s.try(p)
		})
	}
}

// without leaves out parts of a list, at first half of it and at last single ones, while the rest
// fails. It returns the rest.
func without[T any](all []T, fails func(rest []T) bool) []T {
	for size := (len(all) + 1) / 2; size > 0; size /= 2 {
		for i := 0; i < len(all); {
			rest := slices.Concat(all[:i], all[min(i+size, len(all)):])
			if fails(rest) {
				all = rest
			} else {
				i += size
			}
		}
	}
	return all
}

// cut shortens a plan, and returns it. Faults that would begin later are left out.
func (p *plan) cut(length time.Duration) *plan {
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
	return fmt.Sprintf("REDQUORUM_SEED=%d REDQUORUM_FAULTS=%s REDQUORUM_ACTORS=%s REDQUORUM_LENGTH=%v go test -count=1 -v -run TestSmallHistories ./redlock",
		p.seed, strings.Join(ids, ","), strings.Join(p.actors, ","), p.length)
}

// asked leaves out of a plan what the environment does not name.
func (p *plan) asked(t *testing.T) {
	if text, ok := os.LookupEnv("REDQUORUM_LENGTH"); ok {
		length, err := time.ParseDuration(text)
		require.NoError(t, err)
		p.length = length
	}
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
	limit := shrinkTime
	if text := os.Getenv("REDQUORUM_SHRINK"); text != "" {
		var err error
		limit, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	defer repeatably()()
	s := &shrinker{until: time.Now().Add(limit), play: func(p *plan) *small { return p.play(t) }}
	if !s.try(*p) {
		return fmt.Sprintf("did not fail again:\n%s", p.command())
	}
	s.shrink()
	after := s.best.plan
	return fmt.Sprintf("%d of %d faults, %d of %d clients, %v of %v:\n%s\n%s\n%s", len(after.faults), len(p.faults),
		len(after.actors), len(p.actors), after.length, p.length,
		strings.Join(s.best.wrong, "\n"), s.best.timeline.String(), after.command())
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
// preempted a goroutine. So two in a row are enough, of five.
func TestASeedDecidesAHistory(t *testing.T) {
	if raced {
		t.Skip("with the race detector, the scheduler's order is random")
	}
	if !seededRandom {
		t.Skip("seeding crypto/rand needs Go 1.26")
	}
	defer repeatably()()
	for seed := range uint64(4) {
		same, last := false, ""
		for i := 0; i < 5 && !same; i++ {
			h := newPlan(seed).play(t)
			now := h.timeline.String()
			same, last = now == last, now
		}
		assert.True(t, same, "no two replays of seed %d are the same", seed)
	}
}

func TestShrinkingKeepsWhatIsNeeded(t *testing.T) {
	for _, needed := range [][]int{{}, {0}, {3, 7}, {0, 1, 10}, {4, 5, 6, 10}} {
		rest := without([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, func(rest []int) bool {
			return !slices.ContainsFunc(needed, func(i int) bool { return !slices.Contains(rest, i) })
		})
		assert.ElementsMatch(t, needed, rest)
	}
}

func TestAShrunkHistoryHasTheFaultsThatItNeeds(t *testing.T) {
	p := &plan{seed: 1, length: time.Second, actors: []string{"0.0", "0.1", "1.0"}}
	for i := range 9 {
		p.faults = append(p.faults, fault{id: i, at: time.Duration(i) * 10 * time.Millisecond})
	}
	s := &shrinker{until: time.Now().Add(time.Hour), best: &small{plan: p}, play: func(p *plan) *small {
		h := &small{plan: p}
		has := func(id int) bool { return slices.ContainsFunc(p.faults, func(f fault) bool { return f.id == id }) }
		if has(2) && has(5) && slices.Contains(p.actors, "0.1") {
			h.wrong = []string{"wrong"}
		}
		return h
	}}
	s.shrink()
	assert.Contains(t, s.best.plan.command(), "REDQUORUM_SEED=1 REDQUORUM_FAULTS=2,5 REDQUORUM_ACTORS=0.1 ")
	assert.Less(t, s.best.plan.length, 100*time.Millisecond)
}
