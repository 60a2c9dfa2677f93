//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof"
	"github.com/redquorum/redquorum/internal/proof/history"
)

const (
	// around is how much of what happened before and after a violation is shown, but of its name
	// nearestLines at most.
	around       = 2 * time.Second
	nearestLines = 30
	// mostShown is how many violations are shown.
	mostShown = 5
)

// told is what the clients have written.
type told struct {
	holds  []*history.Hold
	tasks  *tasks
	counts map[string]int // acquisitions of each kind
}

// read reads what the clients have written.
func (a *arena) read(t *testing.T, last *process) told {
	t.Helper()
	all := told{tasks: newTasks(), counts: map[string]int{}}
	for _, p := range append(slices.Clone(a.all), last) {
		records, err := readJournal(p.file)
		if p == last || !p.Killed() || !errors.Is(err, fs.ErrNotExist) { // it may have been killed at once
			require.NoError(t, err)
		}
		for _, r := range records {
			switch {
			case r.Odd != "":
				t.Errorf("%v: client %d: %s", r.At.Sub(a.began), p.id, r.Odd)
			case r.Call != nil:
				all.tasks.called(r.Call)
				if r.Call.Returned != 0 && !r.Call.Uncertain {
					all.counts[string(r.Call.Function)]++ // each takes the lock of its queue
				}
			default:
				all.took(r.Hold, p.stoppedAround(r.Hold.From, r.Hold.To))
			}
		}
	}
	return all
}

func (all *told) took(h *history.Hold, stopped bool) {
	if !h.Late {
		all.counts[h.How]++
	}
	if task, ok := strings.CutPrefix(h.Names[0], handled+"/"); ok {
		all.tasks.handled[task] = true
		if stopped {
			return // a late timer may not have told it that its lease was over
		}
	}
	all.holds = append(all.holds, h)
}

// verdict judges what the clients have written.
func (a *arena) verdict(t *testing.T, length time.Duration, last *process) {
	t.Helper()
	all, ends := a.read(t, last), now()
	cases := history.Judge(all.holds, false)
	for _, c := range cases {
		assert.Empty(t, c.Disagreement())
	}
	queued := all.tasks.history.History()
	assert.Equal(t, history.Legal, history.Check(queued, history.Queue), "what porcupine finds about the tasks")
	found := append(history.All(cases), all.tasks.judge(ends)...)
	for _, v := range found[:min(len(found), mostShown)] {
		t.Error(a.timeline(v, all.holds))
	}
	faults := map[string]int{}
	if a.clock != "" {
		faults["clock "+a.clock]++
	}
	for _, f := range a.faults {
		faults[f.name]++
	}
	acquisitions := 0
	for _, n := range all.counts {
		acquisitions += n
	}
	t.Logf("%d acquisitions: %v", acquisitions, all.counts)
	t.Logf("%d faults: %v", len(a.faults), faults)
	assert.NotZero(t, acquisitions)
	for _, kind := range a.kinds {
		assert.NotZero(t, all.counts[kind], kind)
	}
	if length >= longRun {
		for _, c := range a.deck {
			assert.NotZero(t, faults[c.name], c.name)
		}
		for _, u := range uses {
			if u.kind != "push" && u.kind != "pop" { // counted by what they do
				assert.NotZero(t, all.counts[u.kind], u.kind)
			}
		}
	}
	fmt.Println(proof.Line{
		Step: a.step, Size: fmt.Sprintf("%d acquisitions in %v, seed %d", acquisitions, length, a.seed),
		Faults: int64(len(a.faults)), Violations: int64(len(found)),
	})
}

// timeline tells what happened around a violation: to its name, and which faults there were. Times
// count from the beginning of the run.
func (a *arena) timeline(v history.Violation, holds []*history.Hold) string {
	from, to := v.From.Add(-around), v.From.Add(around)
	var lines history.Timeline
	add := func(at clock.Instant, who, format string, args ...any) {
		lines.Add(clock.Instant(at.Sub(a.began)), who, format, args...)
	}
	for _, h := range holds {
		for _, name := range h.Names {
			if history.SemaphoreOf(name) == history.SemaphoreOf(v.Name) && h.Since < to && h.To > from {
				add(h.Since, h.Who, "the round of %s begins", name)
				add(h.From, h.Who, "%v", h)
				add(h.To, h.Who, "end of %s", name)
			}
		}
	}
	lines.Nearest(clock.Instant(v.From.Sub(a.began)), nearestLines)
	for _, f := range a.faults {
		if f.from < to && f.to > from.Add(-around) {
			add(f.from, "*", "%s: %s", f.name, f.where)
			add(f.to, "*", "%s: %s: over", f.name, f.where)
		}
	}
	return fmt.Sprintf("%v: %v\n%v", v.From.Sub(a.began), v, &lines)
}

// tasks is what happened to the tasks of both queues. They are named with their queue.
type tasks struct {
	history history.Recorder // of those that are popped

	pushed    map[string]bool // false: it may have been
	popped    map[string]int  // how often each was returned without a doubt
	uncertain map[string]bool // those that came with an error
	handled   map[string]bool
	gone      int // how many may be lost with clients that were killed in Pop
}

func newTasks() *tasks {
	return &tasks{
		pushed: make(map[string]bool), popped: make(map[string]int), uncertain: make(map[string]bool), handled: make(map[string]bool),
	}
}

// called takes a call of a client.
func (s *tasks) called(c *call) {
	if c.Function == history.Dequeue && c.Returned == 0 {
		s.gone += fullBatch
	}
	sure := c.Returned != 0 && !c.Uncertain
	for _, id := range c.Tasks {
		switch {
		case c.Function == history.Enqueue:
			s.pushed[c.Queue+"/"+id] = sure
		case sure:
			s.popped[id]++
		default:
			s.uncertain[id] = true
		}
		if c.Queue != popped {
			continue
		}
		op := s.history.Invoke(c.At, history.Operation{Function: c.Function, Name: popped, Task: id})
		if sure {
			op.Return(c.Returned, history.OK, 0)
		} else if c.Returned != 0 {
			op.Return(c.Returned, history.Info, 0)
		}
	}
}

// judge finds tasks that were delivered twice, or not at all.
func (s *tasks) judge(end clock.Instant) (found []history.Violation) {
	add := func(what string) {
		found = append(found, history.Violation{Name: "queue", What: what, From: end, To: end})
	}
	for id, times := range s.popped {
		_, pushed := s.pushed[popped+"/"+id]
		switch {
		case times > 1:
			add(fmt.Sprintf("task %s was popped %d times", id, times))
		case !pushed:
			add(fmt.Sprintf("task %s was popped, and nobody pushed it", id))
		}
	}
	lost := 0
	for task, sure := range s.pushed {
		queue, id, _ := strings.Cut(task, "/")
		switch {
		case !sure:
		case queue == handled && !s.handled[id]:
			add(fmt.Sprintf("task %s was never handled", id))
		case queue == popped && s.popped[id] == 0 && !s.uncertain[id]:
			lost++
		}
	}
	if lost > s.gone {
		add(fmt.Sprintf("%d tasks were lost, and at most %d with clients that were killed", lost, s.gone))
	}
	return found
}

func TestTasksThatAreLostOrDeliveredTwiceAreFound(t *testing.T) {
	pop := func(tasks ...string) call {
		return call{Function: history.Dequeue, Queue: popped, At: 3, Returned: 4, Tasks: tasks}
	}
	uncertain, killed := pop("a"), pop()
	uncertain.Uncertain, killed.Returned = true, 0
	for what, test := range map[string]struct {
		queue string
		calls []call
		wrong bool // as we find
		found history.Verdict
	}{
		"once":             {popped, []call{pop("a")}, false, history.Legal},
		"never":            {popped, nil, true, history.Legal},
		"with a client":    {popped, []call{killed}, false, history.Legal},
		"with an error":    {popped, []call{uncertain}, false, history.Legal},
		"one never pushed": {popped, []call{pop("a", "b")}, true, history.Illegal},
		"twice":            {popped, []call{pop("a"), pop("a")}, true, history.Illegal},
		"never handled":    {handled, nil, true, history.Legal},
	} {
		s := newTasks()
		for _, c := range append([]call{{Function: history.Enqueue, Queue: test.queue, Tasks: []string{"a"}, At: 1, Returned: 2}}, test.calls...) {
			s.called(&c)
		}
		assert.Equal(t, test.wrong, len(s.judge(10)) > 0, what)
		assert.Equal(t, test.found, history.Check(s.history.History(), history.Queue), what)
	}
}

// What a client wrote last counts: if it was killed, it may believe in the lock until the end of
// its validity.
func TestHoldOfAKilledClientLastsAsLongAsItWasValid(t *testing.T) {
	file := filepath.Join(t.TempDir(), "client")
	journal, err := newJournal(file)
	require.NoError(t, err)
	c := &client{journal: journal}
	var want []clock.Instant
	for _, story := range []struct {
		kept clock.Instant
		told []clock.Instant // ends
		want clock.Instant
	}{
		{0, []clock.Instant{100}, 100},
		{0, []clock.Instant{100, 200}, 200}, // renewed
		{0, []clock.Instant{100, 200, 150}, 150},
		{300, []clock.Instant{100, 150}, 300},
		{0, []clock.Instant{5}, 10},
	} {
		h := c.holding("lock", "name")
		h.From, h.Kept = 10, story.kept
		for _, end := range story.told {
			h.until(end)
		}
		want = append(want, story.want)
	}
	_, err = journal.file.WriteString(`{"id":1,"hold":{"To":7`) // and then it was killed
	require.NoError(t, err)
	records, err := readJournal(file)
	require.NoError(t, err)
	var got []clock.Instant
	for _, r := range records {
		got = append(got, r.Hold.To)
	}
	assert.Equal(t, want, got)
}
