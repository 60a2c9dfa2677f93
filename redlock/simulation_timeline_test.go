package redlock_test

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/fake"
)

// timeline is what happened in a small history, in the order in which it happened. The values of
// locks are random, so it numbers them.
type timeline struct {
	clock clock.Clock

	mu    sync.Mutex // guards the fields below
	notes []note
	locks map[string]int // by value
}

// note is a line of a timeline.
type note struct {
	at        clock.Instant
	who, what string
}

func (l *timeline) add(who, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes = append(l.notes, note{l.clock.Now(), who, fmt.Sprintf(format, args...)})
}

// lock names the lock of a value.
func (l *timeline) lock(value string) string {
	if len(value) < 26 { // of another library
		return value
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.locks == nil {
		l.locks = make(map[string]int)
	}
	if l.locks[value] == 0 {
		l.locks[value] = len(l.locks) + 1
	}
	_, owner, _ := strings.Cut(value, "|")
	return fmt.Sprintf("lock %d of %s", l.locks[value], owner)
}

func (l *timeline) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var text strings.Builder
	for _, n := range l.notes {
		fmt.Fprintf(&text, "%12v  %-12s %s\n", time.Duration(n.at), n.who, n.what)
	}
	return text.String()
}

// note adds a line to the timeline of a small history.
func (s *simulation) note(who, format string, args ...any) {
	if s.small != nil {
		s.small.timeline.add(who, format, args...)
	}
}

// call notes that a client calls something.
func (c *client) call(format string, args ...any) { c.process.sim.note(c.who, format, args...) }

// noteChange notes that a node has another holder of a name.
func (s *simulation) noteChange(node int, c fake.Change) {
	switch {
	case s.small == nil || strings.HasPrefix(c.Key, "redquorum:"):
	case c.New == "":
		s.note(fmt.Sprint("node ", node), "%s is no longer of %s", c.Key, s.small.timeline.lock(c.Old))
	default:
		s.note(fmt.Sprint("node ", node), "%s goes to %s", c.Key, s.small.timeline.lock(c.New))
	}
}

// begin lets a fault begin.
func (u *users) begin(f *fault) {
	who := f.who()
	if !f.ill.ofProcess {
		u.whole[f.target].Store(-1)
	}
	u.note(who, "%s (fault %d)", f.ill.name, f.id)
	if f.ill.begin(u, f) {
		u.small.injected.Add(1)
	}
}

// end lets a fault end.
func (u *users) end(f *fault) {
	if f.ill.end != nil {
		f.ill.end(u, f)
	}
	u.note(f.who(), "no longer %s (fault %d)", f.ill.name, f.id)
	u.whole[f.target].Store(int64(u.clock.Now()))
}

// who names what a fault breaks.
func (f *fault) who() string {
	if f.ill.ofProcess {
		return fmt.Sprint("process ", f.target)
	}
	return fmt.Sprint("node ", f.target)
}
