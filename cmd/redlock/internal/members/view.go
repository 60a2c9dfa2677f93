package members

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/redlock"
)

// view is what members --json prints. Its field names are documented (redlock help members).
type view struct {
	survey.Members
	Changes     []string `json:"changes,omitempty"`  // that were made, or would be
	TakesMillis int64    `json:"takes_ms,omitempty"` // with --dry-run: at least

	changes, dryRun bool
}

func viewOf(m *admin.Membership, stats *redlock.Stats) view {
	return view{Members: survey.MembersOf(m, survey.CompareList(m, stats))}
}

// text is a table of the members, and what is wrong with the list.
func (v *view) text(terminal.Look) (lines []string) {
	sentence := func(format string, args ...any) {
		lines = append(lines, strings.Split(fmt.Sprintf(format, args...), "\n")...)
	}
	if v.changes {
		sentence("%s\n", v.done())
	}
	sentence("Cluster %s, version %d: %s, %s. MaxTTL %s.\n", v.Cluster, v.Version, prose.Plural(len(v.Members.Members), "member"), prose.Needed(v.Quorum), v.MaxTTL)
	table := terminal.Table{Heading: []string{"ID", "ENDPOINT", "STATE", "VERSION"}, Style: stateStyle}
	for _, one := range v.Members.Members {
		version := "-"
		if one.Version > 0 {
			version = strconv.FormatInt(one.Version, 10)
		}
		table.Rows = append(table.Rows, []string{one.ID, pipeline.WithServerName(one.Endpoint, one.Name), one.State, version})
	}
	lines = append(lines, table.Lines(terminal.Unlimited)...)
	wrong := slices.DeleteFunc(slices.Clone(v.Members.Members), func(one survey.Member) bool { return one.Error == "" })
	if len(wrong) > 0 {
		sentence("")
	}
	for _, one := range wrong {
		sentence("%s: %s", one.Endpoint, one.Error)
	}
	if len(v.List) > 0 {
		sentence("\nYour list differs:")
	}
	for _, flaw := range v.List {
		sentence("  %s %s", flaw.Endpoint, flaw.What)
	}
	if v.NextMillis > 0 {
		sentence("\nAnother change is possible in %v.", roughly(time.Duration(v.NextMillis)*time.Millisecond))
	}
	return lines
}

// done says what was changed.
func (v *view) done() string {
	switch text := strings.Join(v.Changes, ", then "); {
	case len(v.Changes) == 0:
		return "Nothing to do."
	case v.dryRun:
		return fmt.Sprintf("Would %s. It takes %v at least.", text, roughly(time.Duration(v.TakesMillis)*time.Millisecond))
	default:
		return "Done: " + text + "."
	}
}

func stateStyle(row []string, column int) terminal.Style {
	if column != 2 {
		return terminal.Plain
	}
	switch row[column] {
	case survey.MemberVotes:
		return terminal.Green
	case survey.MemberBarred:
		return terminal.Yellow
	default:
		return terminal.Red
	}
}
