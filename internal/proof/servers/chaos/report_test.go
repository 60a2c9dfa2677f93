//go:build linux

package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
)

const (
	// around is how much of what happened before and after a violation is shown, but of its name
	// nearestLines at most.
	around       = 2 * time.Second
	nearestLines = 30
	// mostShown is how many violations are shown.
	mostShown = 5
)

// line is a line of a timeline.
type line struct {
	at   clock.Instant
	text string
}

// timeline tells what happened around a violation: to its name, and which faults there were. Times
// count from the beginning of the run.
func (a *arena) timeline(v violation, holds []*hold) string {
	from, to := v.from.Add(-around), v.from.Add(around)
	var lines []line
	add := func(at clock.Instant, format string, args ...any) {
		lines = append(lines, line{at, fmt.Sprintf(format, args...)})
	}
	base, _, _ := strings.Cut(v.name, "#")
	for _, h := range holds {
		if name, _, _ := strings.Cut(h.name, "#"); name == base && h.begin < to && h.end > from {
			add(h.begin, "    client %d: the round of %s begins", h.client, h.name)
			add(h.got, "%v", h)
			add(h.end, "    client %d: end of %s", h.client, h.name)
		}
	}
	slices.SortStableFunc(lines, func(x, y line) int { return cmp.Compare(x.at.Sub(v.from).Abs(), y.at.Sub(v.from).Abs()) })
	lines = lines[:min(len(lines), nearestLines)]
	for _, f := range a.faults {
		if f.from < to && f.to > from.Add(-around) {
			add(f.from, "  * %s: %s", f.name, f.where)
			add(f.to, "  * %s: %s: over", f.name, f.where)
		}
	}
	slices.SortStableFunc(lines, func(x, y line) int { return cmp.Compare(x.at, y.at) })
	var text strings.Builder
	fmt.Fprintf(&text, "%v: %s: %s\n", v.from.Sub(a.began), v.name, v.what)
	for _, l := range lines {
		fmt.Fprintf(&text, "  %12v %s\n", l.at.Sub(a.began).Round(10*time.Microsecond), l.text)
	}
	return text.String()
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
