package doctor

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/prose"
)

var severityStyles = map[severity]terminal.Style{severe: terminal.Red, warning: terminal.Yellow, note: terminal.Dim}

// writeDiagnosis writes the verdict, an overview of the masters, and the findings. What several
// masters share is written once.
func writeDiagnosis(w io.Writer, d diagnosis) error {
	look := terminal.LookOf(w)
	width, _ := look.Size()
	var b strings.Builder
	for _, line := range d.lines(width) {
		b.WriteString(terminal.Line(line, unlimited, look.Color) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// unlimited is a width that cuts nothing.
const unlimited = 1 << 20

// lines is the text for a terminal of this width.
func (d *diagnosis) lines(width int) [][]terminal.Span {
	lines := append(d.verdict(width), nil)
	lines = append(lines, d.overview(width)...)
	for _, g := range d.groups() {
		lines = append(append(lines, nil), terminal.Wrap([]terminal.Span{terminal.Bold.Of(g.masters)}, width)...)
		lines = append(lines, describe(g.findings, width)...)
	}
	if len(d.Findings) > 0 {
		lines = append(lines, nil, []terminal.Span{terminal.Bold.Of("All masters together")})
		lines = append(lines, describe(d.Findings, width)...)
	}
	return append(lines, d.rights()...)
}

// rights has the lines that allow what was refused, each once and in one piece, to be pasted.
func (d *diagnosis) rights() (lines [][]terminal.Span) {
	said := map[string]bool{"": true}
	for i := range d.Nodes {
		if rule := d.Nodes[i].Rights; !said[rule] {
			if len(lines) == 0 {
				lines = append(lines, nil, []terminal.Span{terminal.Bold.Of("To allow what was refused, in redis-cli at each of these masters")})
			}
			said[rule] = true
			lines = append(lines, []terminal.Span{terminal.Plain.Of(rule)})
		}
	}
	return lines
}

func (d *diagnosis) verdict(width int) [][]terminal.Span {
	text, style := "A quorum is safe", terminal.Green
	if !d.Safe {
		text, style = "NO QUORUM IS SAFE", terminal.Red
	}
	return terminal.Wrap([]terminal.Span{style.Of(text + ":"), terminal.Plain.Of(fmt.Sprintf("%d of %s without an error, %s.",
		d.Sound, prose.Plural(d.Members, "master"), prose.Needed(d.Quorum)))}, width)
}

// overview has a line for each master. Endpoints are not cut: what has no room is left out, from
// the right.
func (d *diagnosis) overview(width int) (lines [][]terminal.Span) {
	all := [][]string{{"MASTER", "FINDINGS", "PING", "CLOCK", "SERVER", "UP"}}
	for i := range d.Nodes {
		all = append(all, d.Nodes[i].row())
	}
	for columns := len(all[0]); columns > 1; columns-- {
		table := terminal.Table{Numbers: []int{2, 3}}
		for _, row := range all {
			table.Rows = append(table.Rows, row[:columns])
		}
		table.Heading, table.Rows = table.Rows[0], table.Rows[1:]
		lines = table.Lines(unlimited, findingsStyle)
		if table.Width() <= width {
			break
		}
	}
	return lines
}

func (n *nodeDiagnosis) row() []string {
	row := []string{n.Endpoint, count(n.Findings), "-", "-", "-", "-"}
	if n.Reachable {
		row[2], row[3] = roundTime(time.Duration(n.RoundTripMicros)*time.Microsecond).String(), fmt.Sprintf("%+dms", n.OffsetMillis)
		row[4] = n.server()
	}
	if n.UptimeSeconds > 0 {
		row[5] = uptimeText(time.Duration(n.UptimeSeconds) * time.Second)
	}
	return row
}

func findingsStyle(row []string, column int) terminal.Style {
	switch text := row[column]; {
	case column != 1:
		return terminal.Plain
	case strings.Contains(text, string(severe)):
		return terminal.Red
	case strings.Contains(text, string(warning)):
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
	seen, at := map[finding]bool{}, map[string]int{}
	for i := range d.Nodes {
		for _, f := range d.Nodes[i].Findings {
			if seen[f] {
				continue
			}
			seen[f] = true
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
		if slices.Contains(d.Nodes[i].Findings, f) {
			names = append(names, d.Nodes[i].Endpoint)
		}
	}
	if len(names) > 1 && len(names) == len(d.Nodes) {
		return "Each of the masters"
	}
	return strings.Join(names, ", ")
}

// severities are all of them, the worst first.
var severities = []severity{severe, warning, note}

// rank is smaller for what is worse.
func (g *group) rank() int {
	worst := len(severities)
	for _, f := range g.findings {
		worst = min(worst, slices.Index(severities, f.Severity))
	}
	return worst
}

// describe has a paragraph for each part of each finding.
func describe(findings []finding, width int) (lines [][]terminal.Span) {
	for _, f := range findings {
		lines = append(lines, hanging("  ", severityStyles[f.Severity].Of(string(f.Severity)+":"), f.What, width)...)
		lines = append(lines, hanging("    ", terminal.Dim.Of("why:"), f.Why, width)...)
		lines = append(lines, hanging("    ", terminal.Dim.Of("do: "), f.Do, width)...)
	}
	return lines
}

// hanging wraps a text behind a label.
func hanging(indent string, label terminal.Span, text string, width int) (lines [][]terminal.Span) {
	room := len(indent) + len(label.Text) + 1
	for i, words := range terminal.Wrap([]terminal.Span{terminal.Plain.Of(text)}, max(width-room, 20)) {
		line := []terminal.Span{terminal.Plain.Of(indent), label, terminal.Plain.Of(" ")}
		if i > 0 {
			line = []terminal.Span{terminal.Plain.Of(strings.Repeat(" ", room))}
		}
		lines = append(lines, append(line, words...))
	}
	return lines
}

// server names the product and its version, and the role if it is no master: Valkey 9.1.2.
func (n *nodeDiagnosis) server() string {
	name := "(unknown)"
	if n.Product != "" {
		name = strings.ToUpper(n.Product[:1]) + n.Product[1:] + " " + orUnknown(n.Version)
	}
	if n.Role != "" && n.Role != "master" {
		name += ", " + n.Role
	}
	return name
}

// uptimeText is short: 3d4h, 5h12m, 40s.
func uptimeText(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return d.String()
	}
}

func orUnknown(text string) string {
	if text == "" {
		return "(unknown)"
	}
	return text
}
