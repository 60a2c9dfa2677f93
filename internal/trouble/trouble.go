// Package trouble is the table of what can be wrong with a master, or with a list of masters: how
// each trouble is told apart, how it is said, and what cures it. The library's errors, redlock
// doctor, the other commands and the page take their words from here (docs/troubles.md shows them).
package trouble

import (
	"errors"
	"strings"
)

// Kind is a trouble. Its text is a word that never changes: doctor --json shows it.
type Kind string

// Severity says how bad a trouble is to the vote of a master.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // the vote does not count, or cannot be relied on
	Warning Severity = "warning" // it works today
	Note    Severity = "note"    // good to know
)

// Row is what there is to say about a trouble. In Why, Do and Commands, a word in braces stands for
// what only an examination knows, and doctor fills it in. A word in capitals in Commands stands for
// what only the reader knows, and Do explains it.
type Row struct {
	Kind     Kind
	Check    string   // the check of doctor that it belongs to
	Severity Severity // unless the examination shows another
	Told     string   // how it is told apart
	Says     string   // what is said before the words of the error; "" for these alone
	Why      string   // why it matters
	Do       string   // who must do what
	Commands []string // the cure, as redis-cli at the master, or a shell, takes it; may be empty
	Quiet    bool     // its errors do not say what to do: it passes, or they say it in their own words
}

// Row returns the row of a kind. A kind without one is a mistake of ours.
func (k Kind) Row() *Row {
	for i := range Table {
		if Table[i].Kind == k {
			return &Table[i]
		}
	}
	panic("trouble: no row for " + string(k))
}

// Hint returns what to do about a trouble, in brackets behind an error; "" if there is nothing to
// say that the error does not.
func (k Kind) Hint() string {
	if k == "" {
		return ""
	}
	row := k.Row()
	do := strings.Join(append([]string{row.Do}, row.Commands...), ": ")
	switch {
	case row.Quiet:
		return ""
	case strings.Contains(do, "{"):
		return " (`redlock doctor` says what to do)"
	default:
		return " (" + do + ")"
	}
}

// Mark returns an error with the same text that is of a kind.
func Mark(k Kind, err error) error { return &marked{err, k} }

// marked is an error whose author knows the kind.
type marked struct {
	error
	kind Kind
}

func (m *marked) Unwrap() error { return m.error }

// markOf returns the kind with which an error was marked; "" if it was not.
func markOf(err error) Kind {
	var m *marked
	if errors.As(err, &m) {
		return m.kind
	}
	return ""
}
