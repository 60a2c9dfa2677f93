package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/internal/trouble"
)

var severityStyles = map[trouble.Severity]terminal.Style{trouble.Error: terminal.Red, trouble.Warning: terminal.Yellow, trouble.Note: terminal.Dim}

// text is the verdict, an overview of the masters, and the findings. What several masters share is
// told once.
func (d *diagnosis) text(look terminal.Look) []string {
	width := look.Width()
	lines := append(append(d.verdict(width), ""), d.overview(width)...)
	groups := d.groups()
	if len(d.Findings) > 0 {
		groups = append(groups, group{"All masters together", d.Findings})
	}
	for _, g := range groups {
		lines = append(append(lines, ""), terminal.Wrap(terminal.Bold.Of(g.masters), width)...)
		for _, f := range g.findings {
			severity := severityStyles[f.Severity].Of(string(f.Severity) + ":")
			lines = slices.Concat(lines, hang("  "+severity, f.What, width),
				hang("    "+terminal.Dim.Of("why:"), f.Why, width), hang("    "+terminal.Dim.Of("do: "), f.Do, width))
			for _, command := range f.Commands { // each in one piece, to be pasted
				lines = append(lines, "         "+command)
			}
		}
	}
	return append(lines, d.rights()...)
}

// hang wraps a text behind a label, which leaves some room.
func hang(label, text string, width int) []string {
	return terminal.Hang(label+" ", text, max(width, terminal.Columns(label)+1+20))
}

// rights has the lines that allow what was refused, each once and in one piece, to be pasted.
func (d *diagnosis) rights() (lines []string) {
	said := map[string]bool{"": true}
	for i := range d.Nodes {
		if rule := d.Nodes[i].Rights; !said[rule] {
			if len(lines) == 0 {
				lines = append(lines, "", terminal.Bold.Of("To allow what was refused, in redis-cli at each of these masters"))
			}
			said[rule] = true
			lines = append(lines, rule)
		}
	}
	return lines
}

func (d *diagnosis) verdict(width int) []string {
	text, style := "A quorum is safe", terminal.Green
	if !d.Safe {
		text, style = "NO QUORUM IS SAFE", terminal.Red
	}
	return terminal.Wrap(fmt.Sprintf("%s %d of %s without an error, %s.",
		style.Of(text+":"), d.Sound, prose.Plural(d.Members, "master"), prose.Needed(d.Quorum)), width)
}

// overview has a line for each master. Endpoints are not cut: what has no room is left out, from
// the right.
func (d *diagnosis) overview(width int) []string {
	table := terminal.Table{
		Heading: []string{"MASTER", "FINDINGS", "PING", "CLOCK", "SERVER", "UP"}, Numbers: []int{2, 3}, Style: findingsStyle,
	}
	for i := range d.Nodes {
		table.Rows = append(table.Rows, d.Nodes[i].row())
	}
	for table.Width() > width && len(table.Heading) > 2 {
		table.Drop(len(table.Heading) - 1)
	}
	return table.Lines(terminal.Unlimited)
}

func (n *nodeDiagnosis) row() []string {
	row := []string{n.Endpoint, count(n.Findings), "-", "-", "-", "-"}
	if n.Reachable {
		row[2], row[3] = roundTime(time.Duration(n.RoundTripMicros)*time.Microsecond).String(), fmt.Sprintf("%+dms", n.OffsetMillis)
		row[4] = n.server()
	}
	if n.UptimeSeconds > 0 {
		row[5] = prose.Span(time.Duration(n.UptimeSeconds) * time.Second)
	}
	return row
}

func findingsStyle(row []string, column int) terminal.Style {
	switch text := row[column]; {
	case column != 1:
		return terminal.Plain
	case strings.Contains(text, string(trouble.Error)):
		return terminal.Red
	case strings.Contains(text, string(trouble.Warning)):
		return terminal.Yellow
	default:
		return terminal.Green
	}
}

// count counts findings by severity: 1 error, 2 notes.
func count(findings []finding) string {
	var parts []string
	for _, s := range severities {
		n := 0
		for _, f := range findings {
			if f.Severity == s {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, prose.Plural(n, string(s)))
		}
	}
	if len(parts) == 0 {
		return "ok"
	}
	return strings.Join(parts, ", ")
}

// group is findings that the same masters have.
type group struct {
	masters  string
	findings []finding
}

// groups returns every finding of a master once, the groups with the most severe ones first.
func (d *diagnosis) groups() (all []group) {
	seen, at := map[string]bool{}, map[string]int{}
	for i := range d.Nodes {
		for _, f := range d.Nodes[i].Findings {
			if seen[f.key()] {
				continue
			}
			seen[f.key()] = true
			masters := d.mastersWith(f)
			if _, known := at[masters]; !known {
				at[masters], all = len(all), append(all, group{masters: masters})
			}
			g := &all[at[masters]]
			g.findings = append(g.findings, f)
		}
	}
	slices.SortStableFunc(all, func(a, b group) int { return cmp.Compare(a.rank(), b.rank()) })
	return all
}

// mastersWith names the masters that have a finding.
func (d *diagnosis) mastersWith(f finding) string {
	var names []string
	for i := range d.Nodes {
		if slices.ContainsFunc(d.Nodes[i].Findings, func(other finding) bool { return other.key() == f.key() }) {
			names = append(names, d.Nodes[i].Endpoint)
		}
	}
	if len(names) > 1 && len(names) == len(d.Nodes) {
		return "Each of the masters"
	}
	return strings.Join(names, ", ")
}

// severities are all of them, the worst first.
var severities = []trouble.Severity{trouble.Error, trouble.Warning, trouble.Note}

// rank is smaller for what is worse.
func (g *group) rank() int {
	worst := len(severities)
	for _, f := range g.findings {
		worst = min(worst, slices.Index(severities, f.Severity))
	}
	return worst
}

// server names the product and its version, and the role if it is no master: Valkey 9.1.2.
func (n *nodeDiagnosis) server() string {
	name := "(unknown)"
	if n.Product != "" {
		name = strings.ToUpper(n.Product[:1]) + n.Product[1:] + " " + cmp.Or(n.Version, "(unknown)")
	}
	if n.Role != "" && n.Role != "master" {
		name += ", " + n.Role
	}
	return name
}
