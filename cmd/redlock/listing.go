package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/cmd/redlock/internal/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/redlock"
)

// listing is what list --json prints. Its field names are documented (docs/command.md).
type listing struct {
	Complete bool          `json:"complete"` // no lock that is held is missing
	Quorum   int           `json:"quorum"`
	Members  int           `json:"members"` // of which that is a majority
	Locks    []inspection  `json:"locks"`
	LeftOut  leftOut       `json:"left_out"`
	Nodes    []nodeListing `json:"nodes"`
}

// leftOut counts the names that are those of no lock, and those of which the user may not know.
type leftOut struct {
	Lasting   int `json:"lasting"`
	Large     int `json:"large"`
	OtherType int `json:"other_type"`
	Forbidden int `json:"forbidden"`
}

func (l leftOut) total() int { return l.Lasting + l.Large + l.OtherType + l.Forbidden }

type nodeListing struct {
	Endpoint string `json:"endpoint"`
	Keys     int    `json:"keys"`    // looked at, rounded up to thousands
	Locks    int    `json:"locks"`   // found
	Bounded  bool   `json:"bounded"` // --scan or --limit ended the scan
	Votes    bool   `json:"votes"`   // if not, it may have forgotten locks
	Error    string `json:"error"`   // why the master was not listed

	err     error // nil if Error is empty
	lacking error // why locks that are held may be missing there; nil if they are not
}

// isForbidden reports whether the master answered, and the user may not list.
func (n *nodeListing) isForbidden() bool {
	var forbidden *survey.ForbiddenError
	return errors.As(n.err, &forbidden)
}

// newListing returns what was found, sorted by name, and what is known of the masters after that.
func newListing(scans []survey.Scan, all *redlock.Stats, locks []inspection) listing {
	l := listing{Members: all.Members, Quorum: all.Quorum(), Locks: append([]inspection{}, locks...)}
	masterStats := all.Nodes
	slices.SortFunc(l.Locks, func(a, b inspection) int { return natural(a.Name, b.Name) })
	// Where no master was ever used, none has forgotten anything.
	unused := !slices.ContainsFunc(masterStats, func(n redlock.NodeStats) bool { return n.Memory != "new" })
	candidates, others := map[string]bool{}, map[string]survey.Reason{}
	for i := range scans {
		s := &scans[i]
		for _, name := range s.Names {
			candidates[name] = true
		}
		maps.Copy(others, s.LeftOut)
		stats := &masterStats[i]
		node := nodeListing{
			Endpoint: stats.Endpoint, Keys: s.Keys, Locks: len(s.Names), Bounded: s.Bounded, Votes: masters.Votes(stats),
			err: s.Err,
		}
		if !unused {
			node.lacking = stats.Barred
		}
		if s.Err != nil {
			node.Error = s.Err.Error()
		}
		l.Nodes = append(l.Nodes, node)
	}
	for name, why := range others {
		if !candidates[name] {
			l.LeftOut.add(why)
		}
	}
	// A majority that holds a lock has a master in common with every set of this size.
	l.Complete = l.scanned() >= l.sufficient() && l.LeftOut.Forbidden == 0
	return l
}

// sufficient returns how many masters have every lock that is held.
func (l *listing) sufficient() int { return l.Members - l.Quorum + 1 }

func (l *leftOut) add(why survey.Reason) {
	switch why {
	case survey.Lasting:
		l.Lasting++
	case survey.Large:
		l.Large++
	case survey.OtherType:
		l.OtherType++
	case survey.Forbidden:
		l.Forbidden++
	}
}

// scanned returns how many masters were scanned to the end, and have forgotten nothing.
func (l *listing) scanned() (full int) {
	for _, n := range l.Nodes {
		if n.err == nil && n.lacking == nil && !n.Bounded {
			full++
		}
	}
	return full
}

// unlimited is a width that cuts nothing.
const unlimited = 1 << 20

// writeListing writes a table of the locks, and what is missing from it. On a terminal, sentences
// are wrapped; names are never cut.
func writeListing(w io.Writer, l listing) error {
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
	for _, sentence := range l.sentences() {
		for _, line := range terminal.Wrap([]terminal.Span{terminal.Plain.Of(sentence)}, width) {
			b.WriteString(terminal.Line(line, unlimited, false) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// sentences count the locks, and say what is missing.
func (l *listing) sentences() []string {
	lines := []string{l.count()}
	if n := l.LeftOut.total(); n > 0 {
		lines = append(lines, fmt.Sprintf("Left out: %s.", l.LeftOut.text()))
	}
	for i := range l.Nodes {
		switch n := &l.Nodes[i]; {
		case n.err != nil:
			lines = append(lines, fmt.Sprintf("%s was not listed: %s", n.Endpoint, n.Error))
		case n.lacking != nil:
			lines = append(lines, fmt.Sprintf("%s does not vote, and may lack locks: %v", n.Endpoint, n.lacking))
		}
	}
	lines = append(append(lines, l.bounded()...), l.undecided()...)
	if l.Complete && l.scanned() < l.Members {
		lines = append(lines, fmt.Sprintf("%d of %s were listed in full: every lock that is held is there.",
			l.scanned(), cli.Plural(l.Members, "master")))
	}
	return append(lines, l.missing()...)
}

// undecided says why it is not known who holds what, and what is likely.
func (l *listing) undecided() []string {
	unknown, probable, answered := 0, 0, 0
	for i := range l.Locks {
		if in := &l.Locks[i]; in.Verdict == "unknown" {
			unknown++
			if in.Probably != nil {
				probable++
			}
			answered = max(answered, in.answered())
		}
	}
	if unknown == 0 {
		return nil
	}
	text := fmt.Sprintf("WHO HOLDS %s IS UNKNOWN: %d of %s told what counts, %s. Reasons are above.",
		strings.ToUpper(cli.Plural(unknown, "lock")), answered, cli.Plural(l.Members, "master"), cli.Needed(l.Quorum))
	if probable > 0 {
		text += fmt.Sprintf(" What is marked with ? is probably held: a master has it (%d). It may also be an attempt "+
			"that got no majority, or a lock that has ended elsewhere.", probable)
	}
	return []string{text}
}

// answered returns how many masters told what counts.
func (i *inspection) answered() (n int) {
	for _, node := range i.Nodes {
		if node.Error == "" {
			n++
		}
	}
	return n
}

// bounded says which masters were not listed to the end.
func (l *listing) bounded() (lines []string) {
	for _, n := range l.Nodes {
		if n.Bounded {
			lines = append(lines, fmt.Sprintf("%s may have more: stopped after about %s and %s. Give a narrower PATTERN, "+
				"or a larger --scan or --limit.", n.Endpoint, cli.Plural(n.Keys, "key"), cli.Plural(n.Locks, "lock")))
		}
	}
	return lines
}

// missing says so if locks that are held may be missing.
func (l *listing) missing() []string {
	if l.Complete {
		return nil
	}
	if n := l.LeftOut.Forbidden; n > 0 && l.scanned() >= l.sufficient() {
		return []string{fmt.Sprintf("LOCKS MAY BE MISSING: the user may not read %s.", cli.Plural(n, "key"))}
	}
	return []string{fmt.Sprintf("LOCKS MAY BE MISSING: %d of %s were listed in full, %s.",
		l.scanned(), cli.Plural(l.Members, "master"), cli.Needed(l.sufficient()))}
}

// count says how many locks there are: 3 locks: 2 held, 1 split. 4 wait.
func (l *listing) count() string {
	switch {
	case len(l.Locks) == 0 && l.Complete:
		return "No locks."
	case len(l.Locks) == 0:
		return "No locks were found."
	}
	states, waiting := map[string]int{}, 0
	for i := range l.Locks {
		states[l.Locks[i].state()]++
		waiting += l.Locks[i].waiting()
	}
	var parts []string
	for _, state := range []string{"held", "split", "free", "unknown"} {
		if n := states[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return fmt.Sprintf("%s: %s. Waiting: %d.", cli.Plural(len(l.Locks), "lock"), strings.Join(parts, ", "), waiting)
}

func (l leftOut) text() string {
	var parts []string
	for _, one := range []struct {
		n    int
		what string
	}{
		{l.Lasting, "without a TTL"},
		{l.Large, "too large for a lock"},
		{l.OtherType, "of another type"},
		{l.Forbidden, "that the user may not read"},
	} {
		if one.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", cli.Plural(one.n, "key"), one.what))
		}
	}
	return strings.Join(parts, ", ")
}
