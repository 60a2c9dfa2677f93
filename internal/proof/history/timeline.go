package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// Timeline is what happened in a history, for people. Its zero value is empty.
type Timeline struct {
	mu    sync.Mutex // guards notes
	notes []note
}

// note is a line of a timeline.
type note struct {
	at        clock.Instant
	who, what string
}

// Add adds what somebody did at an instant.
func (l *Timeline) Add(at clock.Instant, who, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes = append(l.notes, note{at, who, fmt.Sprintf(format, args...)})
}

// Nearest leaves out all but so many of those that are nearest to an instant.
func (l *Timeline) Nearest(at clock.Instant, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortStableFunc(l.notes, func(a, b note) int { return cmp.Compare(a.at.Sub(at).Abs(), b.at.Sub(at).Abs()) })
	l.notes = l.notes[:min(len(l.notes), most)]
}

// String returns the notes in the order of time.
func (l *Timeline) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	notes := slices.Clone(l.notes)
	slices.SortStableFunc(notes, func(a, b note) int { return cmp.Compare(a.at, b.at) })
	var text strings.Builder
	for _, n := range notes {
		fmt.Fprintf(&text, "%14v  %-12s %s\n", time.Duration(n.at), n.who, n.what)
	}
	return text.String()
}
