// Package tables writes what was asked about locks as text: for list, inspect, unlock, log and top.
package tables

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/prose"
)

// StateColumn is the one of the state in [Locks].
const StateColumn = 2

// Locks is a table of rows, each of a lock.
func Locks(rows []survey.Row) terminal.Table {
	table := terminal.Table{
		Heading: []string{"NAME", "KIND", "STATE", "HOLDER", "HELD", "LEFT", "WAITING", "MASTERS"}, Long: []int{0, 3},
	}
	for _, row := range rows {
		table.Rows = append(table.Rows, row.Cells())
	}
	return table
}

// Listing is a table of the locks, and what is missing from it. On a terminal, sentences are
// wrapped; names are never cut.
func Listing(l *survey.Listing, look terminal.Look) (lines []string) {
	width := terminal.Unlimited
	if look.Live {
		width = look.Width()
	}
	if len(l.Locks) > 0 {
		var rows []survey.Row
		for i := range l.Locks {
			rows = append(rows, l.Locks[i].Row())
		}
		table := Locks(rows)
		lines = append(table.Lines(terminal.Unlimited), "")
	}
	for _, sentence := range l.Sentences() {
		lines = append(lines, terminal.Wrap(sentence, width)...)
	}
	return lines
}

// Inspection has a line per master, reader and permit, the verdict, and the newest of the history.
func Inspection(i *survey.Inspection) (lines []string) {
	lines = append(Holders(i, terminal.Unlimited), strings.Split(i.Sentences(), "\n")...)
	if len(i.History) > 0 {
		lines = append(append(lines, ""), History(&survey.Events{Events: i.History})...)
	}
	return lines
}

// Holders has a line per master, reader and permit. Names are cut where it would be wider.
func Holders(i *survey.Inspection, width int) (lines []string) {
	for _, table := range []terminal.Table{mastersOf(i), holdingsOf(i, "READER", i.Readers), holdingsOf(i, "PERMIT", i.Permits)} {
		if len(table.Rows) > 0 {
			lines = append(append(lines, table.Lines(width)...), "")
		}
	}
	return lines
}

// mastersOf is a table of what each master has. FENCE, WAITING and ERROR are left out if no master
// has any: 80 columns are then enough.
func mastersOf(i *survey.Inspection) terminal.Table {
	table := terminal.Table{Heading: []string{"MASTER", "VALUE", "OWNER", "TTL", "FENCE", "WAITING", "ERROR"}, Long: []int{0, 2}}
	for _, n := range i.Nodes {
		value, ttl := "-", "-"
		if n.Value != "" || n.TTLMillis != 0 {
			value, ttl = survey.Shortened(n.Value), survey.TTLText(n.TTLMillis)
		}
		table.Rows = append(table.Rows, []string{
			n.Endpoint, value, cmp.Or(prose.Printable(n.Owner), "-"), ttl, positive(n.Fence), positive(int64(n.Waiting)), cmp.Or(n.Error, "-"),
		})
	}
	for column := len(table.Heading) - 1; column >= 4; column-- {
		if table.IsEmpty(column) {
			table.Drop(column)
		}
	}
	return table
}

// positive is a number, or a dash.
func positive(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

// holdingsOf is a table of permits or readers. What is free has no row.
func holdingsOf(i *survey.Inspection, what string, holdings []survey.Holding) terminal.Table {
	table := terminal.Table{Heading: []string{what, "OWNER", "HELD", "TTL", "FENCE", "MASTERS"}, Long: []int{0, 1}}
	for _, h := range holdings {
		if h.Verdict == "free" {
			continue
		}
		name, owner := prose.Printable(h.Name), survey.Named(h.Owner)
		if what == "READER" {
			name = survey.Shortened(h.Value)
		}
		if h.Verdict != "held" {
			owner = h.Verdict
		}
		table.Rows = append(table.Rows, []string{
			name, owner, h.Short(), survey.TTLText(h.TTLMillis), positive(h.Fence), fmt.Sprintf("%d of %d", h.Masters, i.Members),
		})
	}
	return table
}

// Events has a line for each entry. What others may have stored is shown, and not obeyed.
func Events(told *survey.Events) []string {
	switch {
	case len(told.Events) == 0 && told.Complete:
		return []string{"The log is empty."}
	case len(told.Events) == 0:
		return []string{"No entries were found."}
	}
	table := events(told.Events)
	return table.Lines(terminal.Unlimited)
}

// History is Events of one name, whose entries need not tell it.
func History(told *survey.Events) []string {
	switch {
	case len(told.Events) == 0 && told.Complete:
		return []string{"Nothing is noted of this name."}
	case len(told.Events) == 0:
		return []string{"No entries were found."}
	}
	table := events(told.Events)
	table.Drop(lockColumn)
	return table.Lines(terminal.Unlimited)
}

const lockColumn = 2 // of events

func events(told []survey.Event) terminal.Table {
	table := terminal.Table{Heading: []string{"TIME", "WHAT", "LOCK", "HOLDER", "BY", "WHY"}}
	for _, e := range told {
		row := []string{time.UnixMilli(e.At()).UTC().Format(time.RFC3339)}
		for _, text := range []string{e.Kind, e.Key, e.Holder, e.By, e.Says()} {
			row = append(row, cmp.Or(prose.Printable(text), "-"))
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}
