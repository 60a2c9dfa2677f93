package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// table is a table of the document, between these marks:
//
//	<!-- begin NAME: made by COMMAND -->
//	<!-- end NAME -->
//
// Where peers are its rows, the first is ours and has medians. The others have ours divided by
// theirs, round by round, because a disturbance of a round affects both: the median, and in
// brackets the lowest and the highest.
type table struct {
	name, command string
	of            string   // the benchmark, and parts of its name
	rows          []string // the keys of the parts that tell rows apart
	column        string   // of the part that tells columns apart, beside their units
	units         []string
}

var (
	peers     = []string{"peer"}
	load      = []string{"cpu-µs/lock", "servers-µs/lock", "allocs/lock", "B/lock"}
	contended = []string{
		"locks/s", "changes/s", "mean-wait-ms", "p99-wait-ms", "longest-wait-ms", "commands/change", "least-share",
	}
	held = []string{
		"renewals/s", "cpu-µs/renewal", "%-of-a-core", "collector-%-of-a-core", "servers-%-of-a-core", "longest-pause-ms", "p50-µs", "p99-µs",
		"B/lock", "lost",
	}
)

// tables are those of the document, in its order.
var tables = []table{
	{"throughput", "make versus", "Lock nodes=5", peers, "goroutines", []string{"locks/s"}},
	{"cost", "make versus", "Lock nodes=5 goroutines=256", peers, "", load},
	{"latency", "make versus", "Lock nodes=5 goroutines=1", peers, "", []string{"p50-µs", "p99-µs", "cpu-µs/lock", "servers-µs/lock"}},
	{"recovery", "make recovery", "Recovery", []string{"phase"}, "peer", []string{"locks/s", "longest-wait-ms"}},
	{"nodes", "make versus", "Lock goroutines=256", peers, "nodes", []string{"cpu-µs/lock", "servers-µs/lock"}},
	{"nodes-latency", "make versus", "Lock goroutines=1", peers, "nodes", []string{"p50-µs"}},
	{"single", "make versus", "Lock nodes=1 goroutines=256", peers, "", append([]string{"locks/s"}, load...)},
	{"contention", "make versus", "Contention names=1", peers, "", contended},
	{"held", "make scale", "Held", []string{"locks", "ttl"}, "", held},
	{"crowds", "make scale", "Contention names=1000", []string{"processes", "goroutines"}, "", contended},
}

// fill returns the text with its tables as the lines have them.
func fill(text []byte, lines []line) ([]byte, error) {
	said := ""
	for _, t := range tables {
		begin := fmt.Appendf(nil, "<!-- begin %s: made by %s -->\n", t.name, t.command)
		end := fmt.Appendf(nil, "<!-- end %s -->\n", t.name)
		before, rest, found := bytes.Cut(text, begin)
		_, after, closed := bytes.Cut(rest, end)
		if !found || !closed || bytes.Contains(after, begin) {
			return nil, fmt.Errorf("the document does not have %q and %q once", begin, end)
		}
		made, on := t.make(lines)
		if on != said {
			made, said = on+"\n"+made, on
		}
		text = bytes.Join([][]byte{before, begin, []byte(made), end, after}, nil)
	}
	return text, nil
}

// has reports whether a line is in the table.
func (t *table) has(l *line) bool {
	name, parts, _ := strings.Cut(t.of, " ")
	for _, part := range strings.Fields(parts) {
		if key, value, _ := strings.Cut(part, "="); l.parts[key] != value {
			return false
		}
	}
	return l.name == name && !slices.ContainsFunc(append(t.rows, t.column), func(key string) bool { return key != "" && l.parts[key] == "" })
}

// make returns the table, and what the benchmarks ran on.
func (t *table) make(lines []line) (made, on string) {
	var rows, columns, ran []string
	cells := make(map[[2]string][]float64)
	for i := range lines {
		l := &lines[i]
		if !t.has(l) {
			continue
		}
		var words []string
		for _, key := range t.rows {
			words = append(words, strings.ReplaceAll(l.parts[key], "_", " "))
		}
		row := strings.Join(words, ", ")
		rows, ran = appendNew(rows, row), appendNew(ran, l.on())
		for _, unit := range t.units {
			if value, known := l.values[unit]; known {
				column := strings.TrimSpace(l.parts[t.column] + " " + unit)
				columns = appendNew(columns, column)
				cells[[2]string{row, column}] = append(cells[[2]string{row, column}], value)
			}
		}
	}
	if t.column == "" {
		columns = slices.DeleteFunc(slices.Clone(t.units), func(unit string) bool { return !slices.Contains(columns, unit) })
	}
	var text strings.Builder
	corner := strings.TrimSuffix(t.column+", "+strings.Join(t.rows, ", "), ", peer")
	fmt.Fprintf(&text, "| %s | %s |\n| --- |%s\n", strings.TrimPrefix(corner, ", "), strings.Join(columns, " | "), strings.Repeat(" ---: |", len(columns)))
	for i, row := range rows {
		ratio := i > 0 && slices.Equal(t.rows, peers)
		if ratio {
			row = "divided by " + row
		}
		fmt.Fprintf(&text, "| %s |", row)
		for _, column := range columns {
			fmt.Fprintf(&text, " %s |", cell(cells[[2]string{rows[i], column}], cells[[2]string{rows[0], column}], ratio))
		}
		text.WriteString("\n")
	}
	return text.String(), strings.Join(ran, "\n")
}

func appendNew(all []string, one string) []string {
	if slices.Contains(all, one) {
		return all
	}
	return append(all, one)
}

// on tells what a benchmark ran on.
func (l *line) on() string {
	return fmt.Sprintf("Measured with %s CPUs for the clients and the servers together, %s/%s, %s, %s,\nat commit %s.\n",
		l.parts["cpus"], l.parts["goos"], l.parts["goarch"], l.parts["go"], l.parts["server"], l.parts["commit"])
}

// cell is the median of values, or of ours divided by them.
func cell(values, ours []float64, ratio bool) string {
	if len(values) == 0 || ratio && (len(values) != len(ours) || slices.Contains(values, 0)) {
		return "–"
	}
	if !ratio {
		return grouped(median(values))
	}
	quotients := make([]float64, len(values))
	for i := range values {
		quotients[i] = ours[i] / values[i]
	}
	if median(quotients) > 1000 {
		return "–" // theirs is nothing
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", median(quotients), slices.Min(quotients), slices.Max(quotients))
}

// median returns the middle value.
func median(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// grouped returns a number with at least three digits, and commas between the thousands.
func grouped(value float64) string {
	decimals := 2
	for least := 10.0; decimals > 0 && value >= least; least *= 10 {
		decimals--
	}
	text := strconv.FormatFloat(value, 'f', decimals, 64)
	for i := len(text) - 3; decimals == 0 && i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
