package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

// Snapshot is what is known at one moment.
type Snapshot struct {
	At      time.Time // when it was known
	Count   string    // of the locks, in a sentence
	Problem string    // why there are no locks to show; empty if there are
	Notes   []string  // what may be missing
	Masters []Master  // in the order of the endpoints
	Locks   []survey.Inspection
}

// Master is the state of a master.
type Master struct {
	Endpoint string
	State    string // see [survey.Standing]
	Why      string // if it does not vote
	Server   string // product and version
	admin.Vitals
}

var masterStyles = map[string]terminal.Style{
	survey.MemberVotes: terminal.Green, survey.MemberBarred: terminal.Yellow, "connecting": terminal.Yellow, survey.MemberDown: terminal.Red,
}

// Styles of the states of locks.
var lockStyles = map[string]terminal.Style{
	"held": terminal.Green, "split": terminal.Yellow, "free": terminal.Dim, "unknown": terminal.Red,
}

// summary is what stands above the locks.
func (s *Snapshot) summary(width int) []string {
	lines := slices.Concat(terminal.Wrap(s.Count, width), terminal.Wrap(terminal.Red.Of(s.Problem), width))
	for _, note := range s.Notes {
		lines = append(lines, terminal.Wrap(terminal.Yellow.Of(note), width)...)
	}
	return append(append(lines, ""), s.masters(width)...)
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
