//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
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

// holdsOf returns what the events of a client say. What had not ended when it was killed lasted
// until the end of its validity. No hold ends before the end of its minimum hold.
func holdsOf(client int, events []event) (holds []*history.Hold) {
	open := make(map[int64]*history.Hold)
	for _, e := range events {
		switch h := open[e.ID]; {
		case e.Type == gotEvent || e.Type == voidEvent:
			h := &history.Hold{
				Who: fmt.Sprint("client ", client), How: e.Kind, Names: e.Names, Shared: e.Shared, Permits: e.Permits, Token: e.Token,
				Late: e.Type == voidEvent, Since: e.Begin, From: e.At, To: max(e.At, e.Until, e.Taken), Confirmed: true,
			}
			holds, open[e.ID] = append(holds, h), h
		case h == nil:
		case e.Type == renewedEvent:
			h.To = max(h.To, e.Until)
		case e.Type == endEvent:
			h.To = e.At
		}
	}
	for _, e := range events {
		if h := open[e.ID]; h != nil && e.Type == gotEvent {
			h.To = max(h.To, h.From, e.Taken)
		}
	}
	return holds
}

// read reads what the clients have written.
func (a *arena) read(t *testing.T, last *process) told {
	t.Helper()
	all := told{tasks: newTasks(), counts: map[string]int{}}
	for _, p := range append(slices.Clone(a.all), last) {
		events, err := readJournal(p.file)
		if !p.killed || !errors.Is(err, fs.ErrNotExist) { // it may have been killed at once
			require.NoError(t, err)
		}
		all.tasks.add(events)
		for _, e := range events {
			switch {
			case e.Type == oddEvent:
				t.Errorf("%v: client %d: %s", e.At.Sub(a.began), p.id, e.Text)
			case e.Type == gotEvent:
				all.counts[e.Kind]++
			case (e.Type == pushedEvent || e.Type == poppedEvent) && !e.Doubt:
				all.counts[e.Type]++ // each takes the lock of its queue
			}
		}
		for _, h := range holdsOf(p.id, events) {
			if h.How == "handle" && p.stoppedAround(h.From, h.To) {
				continue // a late timer may not have told it that its lease was over
			}
			all.holds = append(all.holds, h)
		}
	}
	return all
}

// verdict judges what the clients have written.
func (a *arena) verdict(t *testing.T, length time.Duration, last *process) {
	t.Helper()
	all, ends := a.read(t, last), now()
	cases := history.Judge(all.holds, false)
	for _, c := range cases {
		assert.Empty(t, c.Disagreement())
		if !strings.HasPrefix(c.Name, handled+"/") {
			history.Save(t, "chaos-"+c.Name, history.Events(c.Name, c.Holds))
		}
	}
	queued := all.tasks.history.History()
	assert.Equal(t, history.Legal, history.Check(queued, history.Queue), "what porcupine finds about the tasks")
	history.Save(t, "chaos-queue", queued)
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
	t.Log(table("acquisitions", all.counts))
	t.Log(table("faults", faults))
	acquisitions := 0
	for _, n := range all.counts {
		acquisitions += n
	}
	assert.NotZero(t, acquisitions)
	if length >= longRun {
		for _, c := range deck {
			assert.NotZero(t, faults[c.name], c.name)
		}
		for _, u := range uses {
			if u.kind != "push" && u.kind != "pop" {
				assert.NotZero(t, all.counts[u.kind], u.kind)
			}
		}
	}
	fmt.Println(proof.Line{
		Step: "chaos on real servers", Size: fmt.Sprintf("%d acquisitions in %v, seed %d", acquisitions, length, a.seed),
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

// table writes counts in the order of their names, in three columns.
func table(title string, counts map[string]int) string {
	var text strings.Builder
	sum, n := 0, 0
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if n%3 == 0 {
			text.WriteString("\n ")
		}
		n++
		sum += counts[name]
		fmt.Fprintf(&text, " %-26s %7d", name, counts[name])
	}
	return fmt.Sprintf("%s: %d%s", title, sum, text.String())
}
