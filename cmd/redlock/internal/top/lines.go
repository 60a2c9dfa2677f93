// Package top draws locks and masters on a terminal, again and again.
package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/internal/survey"
)

// Snapshot is what is known at one moment.
type Snapshot struct {
	At      time.Time // when it was known
	Title   string
	Count   string         // of the locks, in a sentence
	Problem string         // why there are no locks to show; empty if there are
	Notes   []string       // what may be missing
	Masters []Master       // in the order of the endpoints
	Locks   terminal.Table // most interesting first
	State   int            // the column with the states of the locks
}

// Master is the state of a master.
type Master struct {
	Endpoint string
	State    string // see [survey.Standing]
	Why      string // if it does not vote
	Server   string // product and version
	survey.Vitals
}

var masterStyles = map[string]terminal.Style{
	survey.MemberVotes: terminal.Green, survey.MemberBarred: terminal.Yellow, "connecting": terminal.Yellow, survey.MemberDown: terminal.Red,
}

// Styles of the states of locks.
var lockStyles = map[string]terminal.Style{
	"held": terminal.Green, "split": terminal.Yellow, "free": terminal.Dim, "unknown": terminal.Red,
}

// Lines draws the snapshot for a terminal of this size.
func (s *Snapshot) Lines(width, height int) []string {
	lines := slices.Concat([]string{s.head(width)}, terminal.Wrap(s.Count, width), terminal.Wrap(terminal.Red.Of(s.Problem), width))
	for _, note := range s.Notes {
		lines = append(lines, terminal.Wrap(terminal.Yellow.Of(note), width)...)
	}
	lines = append(append(lines, ""), s.masters(width)...)
	if len(s.Locks.Rows) == 0 {
		return lines
	}
	lines = append(lines, "")
	table := s.Locks
	table.Style = func(row []string, column int) terminal.Style {
		if column == s.State {
			return lockStyles[row[column]]
		}
		return terminal.Plain
	}
	locks := table.Lines(width)
	room := max(height-len(lines), 0)
	if len(locks) <= room {
		return append(lines, locks...)
	}
	shown := room - 1 // lines, with the heading; the last line says what is missing
	if shown < 2 {
		shown = 0
	}
	more := prose.Plural(len(locks)-max(shown, 1), "more lock") + "; a narrower PATTERN shows them"
	return append(append(lines, locks[:shown]...), terminal.Dim.Of(more))
}

// head is the title, when the masters were asked, and which keys there are.
func (s *Snapshot) head(width int) string {
	right := "q quits"
	if !s.At.IsZero() {
		right = s.At.Format(time.TimeOnly) + "  " + right
	}
	title := terminal.Cut(s.Title, width-len(right)-1)
	space := max(width-terminal.Columns(title)-len(right), 1)
	return terminal.Bold.Of(title) + strings.Repeat(" ", space) + terminal.Dim.Of(right)
}

// masters is the table of the masters, with the reason below each that does not vote.
func (s *Snapshot) masters(width int) (lines []string) {
	table := terminal.Table{
		Heading: []string{"MASTER", "STATE", "PING", "COMMANDS/S", "KEYS", "CLIENTS", "SERVER"},
		Numbers: []int{2, 3, 4, 5}, Long: []int{0}, Style: func(row []string, column int) terminal.Style {
			if column == 1 {
				return masterStyles[row[column]]
			}
			return terminal.Plain
		},
	}
	for i := range s.Masters {
		m := &s.Masters[i]
		row := []string{m.Endpoint, m.State, "-", "-", "-", "-", m.Server}
		if m.Err == nil && m.RoundTrip > 0 {
			row[2], row[3], row[4], row[5] = pingText(m.RoundTrip), figure(m.Commands), figure(m.Keys), figure(m.Clients)
		}
		table.Rows = append(table.Rows, row)
	}
	if width < 80 { // the endpoints need the room
		table.Drop(6)
	}
	if table.Width() > width { // what the endpoints have in common goes first
		for _, row := range table.Rows {
			if _, address, ok := strings.Cut(row[0], "://"); ok {
				row[0] = address
			}
		}
	}
	for i, line := range table.Lines(width) {
		if lines = append(lines, line); i > 0 {
			for _, why := range terminal.Wrap(terminal.Dim.Of(s.Masters[i-1].Why), width-2) {
				lines = append(lines, "  "+why)
			}
		}
	}
	return lines
}

func pingText(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

func figure(n int64) string {
	if n < 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}
