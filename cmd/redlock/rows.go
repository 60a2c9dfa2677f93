package main

import (
	"io"
	"strings"

	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/survey"
)

// stateColumn is the one of the state in [tableOf].
const stateColumn = 2

// tableOf has a row for each lock.
func tableOf(locks []survey.Inspection) terminal.Table {
	table := terminal.Table{
		Heading: []string{"NAME", "KIND", "STATE", "HOLDER", "HELD", "LEFT", "WAITING", "MASTERS"}, Long: []int{0, 3},
	}
	for i := range locks {
		table.Rows = append(table.Rows, locks[i].Row().Cells())
	}
	return table
}

// unlimited is a width that cuts nothing.
const unlimited = 1 << 20

// writeListing writes a table of the locks, and what is missing from it. On a terminal, sentences
// are wrapped; names are never cut.
func writeListing(w io.Writer, l survey.Listing) error {
	width := unlimited
	if look := terminal.LookOf(w); look.Live {
		width, _ = look.Size()
	}
	var b strings.Builder
	if len(l.Locks) > 0 {
		table := tableOf(l.Locks)
		for _, line := range table.Lines(unlimited, nil) {
			b.WriteString(terminal.Line(line, unlimited, false) + "\n")
		}
		b.WriteString("\n")
	}
	for _, sentence := range l.Sentences() {
		for _, line := range terminal.Wrap([]terminal.Span{terminal.Plain.Of(sentence)}, width) {
			b.WriteString(terminal.Line(line, unlimited, false) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
