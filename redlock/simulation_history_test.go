package redlock_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/proof/history"
)

// judged is the history of a name, for porcupine, and what our own judge found.
type judged struct {
	name   string
	model  history.Model
	events []history.Event
	wrong  bool
}

// disagreement tells what porcupine finds about a history, or "" if it is what our own judge finds.
func (one judged) disagreement() string {
	want := history.Legal
	if one.wrong {
		want = history.Illegal
	}
	if found := history.Check(one.events, one.model); found != want {
		return fmt.Sprintf("%q, %d events: our own judge finds it %v, and porcupine %v", one.name, len(one.events), want, found)
	}
	return ""
}

// agree fails if porcupine finds something else about a history than our own judge. With
// REDQUORUM_HISTORY=folder, it also writes the histories there.
func agree(t *testing.T, all []judged) {
	t.Helper()
	for _, one := range all {
		assert.Empty(t, one.disagreement())
		if folder := os.Getenv("REDQUORUM_HISTORY"); folder != "" {
			writeHistory(t, folder, one)
		}
	}
}

func writeHistory(t *testing.T, folder string, one judged) {
	t.Helper()
	path := filepath.Join(folder, strings.NewReplacer("/", "-", "=", "-", "#", "-").Replace(t.Name()+"-"+one.name)+".edn")
	file, err := os.Create(path)
	require.NoError(t, err)
	defer func() { assert.NoError(t, file.Close()) }()
	require.NoError(t, history.WriteEDN(file, one.events))
}

// modelOf returns what the tenures of a name must fit.
func (j *judge) modelOf(r *record) history.Model {
	if j.order {
		return history.Tokens
	}
	model := history.Mutex
	for _, t := range r.had {
		if t.shared {
			return history.Shared
		}
		if t.fence > 0 {
			model = history.FencedMutex
		}
	}
	return model
}

// historyOf returns the tenures of a name as a history.
func historyOf(name string, had []*tenure) []history.Event {
	var r history.Recorder
	for _, t := range had {
		t.record(&r, history.Operation{Function: history.Acquire, Name: name})
	}
	return r.History()
}

// permitHistory returns the tenures of a semaphore's permits as a history.
func permitHistory(name string, all []permitTenure) []history.Event {
	var r history.Recorder
	for _, t := range all {
		t.record(&r, history.Operation{Function: history.Acquire, Name: name, Permits: t.permits})
	}
	return r.History()
}

// record adds a tenure to a history. It is acquired at some time of the call, and released when it
// ended or later: its holder says when it stops to use the lock, and Unlock does its work after
// that. If Unlock was not called, or not confirmed, nobody knows when.
func (t *tenure) record(r *history.Recorder, op history.Operation) {
	if op.Forced = t.forced; t.shared {
		op.Function = history.AcquireShared
	}
	token, ended := t.fence, t.to
	if t.void() { // others may have had it before its holder heard that it had it
		token, ended = 0, t.taken
	}
	call := r.Invoke(t.since, op)
	call.Return(t.from, history.OK, token)
	if ended < 0 {
		return
	}
	release := call.Release(ended)
	switch {
	case t.confirmed:
		release.Return(max(t.returned, ended), history.OK, 0)
	case t.returned > 0:
		release.Return(max(t.returned, ended), history.Info, 0)
	}
}

// both returns what our own judge and porcupine find about the tenures of a name.
func both(had []*tenure, order bool) (own, porcupine bool, about string) {
	j := newJudge(clocktest.New(), neverJudged)
	j.order = order
	j.records["a"] = &record{had: had}
	_, wrong := j.sentence()
	one := j.judged[0]
	var edn strings.Builder
	err := history.WriteEDN(&edn, one.events)
	return one.wrong, history.Check(one.events, one.model) != history.Legal, fmt.Sprint(wrong, err, "\n", edn.String())
}

// Histories that are wrong in one thing each. Our own judge and porcupine must see it, and accept
// the history without it.
func TestJudgesSeeEveryCorruption(t *testing.T) {
	good := func() []*tenure {
		return []*tenure{
			{since: 0, from: 10, to: 20, fence: 1, confirmed: true, returned: 22},
			{since: 5, from: 20, to: 30, fence: 2, returned: 35},
			{since: 5, from: 40, to: 60, fence: 3, shared: true, confirmed: true, returned: 61},
			{since: 6, from: 45, to: 50, fence: 3, shared: true, confirmed: true, returned: 55},
			{since: 7, from: 70, to: 80, fence: 4, confirmed: true, returned: 80},
			{since: 71, from: 80, to: 80, confirmed: true, returned: 90},
			{since: 75, from: 80, to: 90, fence: 9},
		}
	}
	for _, in := range []struct {
		about   string
		corrupt func(had []*tenure)
		right   bool
	}{
		{"nothing", func([]*tenure) {}, true},
		{"the end of a hold at the start of the next", func(had []*tenure) { had[1].to = 40 }, true},
		{"two holders for a moment", func(had []*tenure) { had[0].to = 21 }, false},
		{"two holders for long", func(had []*tenure) { had[0].to = 75 }, false},
		{"a hold of no time within another", func(had []*tenure) { had[5].from, had[5].to = 75, 75 }, false},
		{"a release that took effect too late", func(had []*tenure) { had[1].to = 41 }, false},
		{"a reader beside a writer", func(had []*tenure) { had[3].to = 71 }, false},
		{"a writer beside a reader", func(had []*tenure) { had[4].from = 55 }, false},
		{"a reader that was a writer", func(had []*tenure) { had[3].shared = false }, false},
		{"a writer that was a reader", func(had []*tenure) { had[1].shared = true }, true},
		{"tokens of two writers swapped", func(had []*tenure) { had[0].fence, had[1].fence = 2, 1 }, false},
		{"one token twice", func(had []*tenure) { had[1].fence = 1 }, false},
		{"a reader's token below a writer's before it", func(had []*tenure) { had[2].fence = 1 }, false},
		{"a reader's token like that of a writer before it", func(had []*tenure) { had[3].fence = 2 }, true},
		{"a writer's token like that of a reader before it", func(had []*tenure) { had[4].fence = 3 }, false},
		{"readers in any order", func(had []*tenure) { had[2].fence, had[2].fence = 3, 2 }, true},
		{"a lock without a token", func(had []*tenure) { had[1].fence = 0 }, true},
	} {
		had := good()
		in.corrupt(had)
		own, porcupine, about := both(had, false)
		assert.Equal(t, !in.right, own, "%s: our own judge: %s", in.about, about)
		assert.Equal(t, !in.right, porcupine, "%s: porcupine: %s", in.about, about)
	}
}

// A reader that was forced twice before it heard that it reads has read until the first time.
func TestJudgesTakeTheFirstTimeThatSomebodyForced(t *testing.T) {
	j := newJudge(clocktest.New(), neverJudged)
	j.records["a"] = &record{had: []*tenure{
		{since: 10, from: 20, to: 30, shared: true},
		{since: 11, from: 15, to: 25, confirmed: true, returned: 26},
	}}
	j.forced.readers = map[string][]clock.Instant{"a": {12, 18}}
	_, wrong := j.sentence()
	assert.Empty(t, wrong)
	assert.Empty(t, j.judged[0].disagreement())
}

// The same for semaphores.
func TestJudgesSeeEveryPermitTooMany(t *testing.T) {
	for _, in := range []struct {
		about string
		had   []permitTenure
		wrong bool
	}{
		{"as many as there are", permitsAt(2, 0, 10, 5, 15, 10, 20, 15, 16), false},
		{"one too many", permitsAt(2, 0, 10, 5, 15, 9, 20), true},
		{"one too many for a moment", permitsAt(2, 0, 10, 5, 15, 9, 9), true},
		{"another number when all are free", append(permitsAt(2, 0, 10, 5, 15), permitsAt(3, 15, 20, 15, 20, 15, 20)...), false},
		{"another number while one is held", append(permitsAt(2, 0, 10), permitsAt(3, 5, 20)...), true},
	} {
		assert.Equal(t, in.wrong, len(crowded(in.had)) > 0, "%s: our own judge", in.about)
		legal := history.Check(permitHistory("a", in.had), history.Semaphore) == history.Legal
		assert.Equal(t, in.wrong, !legal, "%s: porcupine", in.about)
	}
}

// permitsAt returns permits of one number, each from one instant to the next.
func permitsAt(permits int, at ...clock.Instant) (all []permitTenure) {
	for i := 0; i < len(at); i += 2 {
		all = append(all, permitTenure{&tenure{since: 0, from: at[i], to: at[i+1]}, permits})
	}
	return all
}

// Random histories: some are right, and the two judges find the same about each.
func TestJudgesAgreeAboutRandomHistories(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	found := map[bool]int{}
	for range 3000 {
		order := rng.IntN(4) == 0
		own, porcupine, about := both(randomTenures(rng, order), order)
		require.Equal(t, own, porcupine, "seed %d, order %v: %s", seed, order, about)
		found[own]++
	}
	assert.Greater(t, min(found[false], found[true]), 300, "seed %d: both kinds were found: %v", seed, found)
}

// randomTenures returns a few tenures that follow each other, more or less.
func randomTenures(rng *rand.Rand, order bool) (had []*tenure) {
	now, token := clock.Instant(10), int64(10)
	slip := func(n int) int { return max(rng.IntN(20)-20+n, 0) } // usually none
	for range 2 + rng.IntN(5) {
		from := max(now-clock.Instant(slip(3)), 0)
		if len(had) > 0 {
			from = max(from, had[len(had)-1].from)
		}
		t := &tenure{
			since: max(from-clock.Instant(rng.IntN(10)), 0), from: from, to: from + clock.Instant(rng.IntN(5)),
			shared: !order && rng.IntN(3) == 0, confirmed: rng.IntN(2) == 0, who: fmt.Sprint("client ", len(had)),
		}
		t.returned = t.to + clock.Instant(rng.IntN(5))
		if rng.IntN(4) > 0 {
			t.fence = max(token-int64(slip(3)), 1)
			token = max(token, t.fence) + int64(rng.IntN(3))
		}
		now = max(now, t.to)
		had = append(had, t)
	}
	return had
}
