package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/redquorum/redquorum/bench/versus/figures"
)

// parts are what is written into the document, by the name of the marks:
//
//	<!-- begin throughput: made by make versus -->
//	<!-- end throughput -->
var parts = map[string]func(*figures.Data) string{
	"environment":      describeEnvironment,
	figures.Throughput: describeThroughput,
	figures.Latency:    describeLatency,
	figures.Contention: describeContention,
	figures.Renewal:    describeRenewal,
	figures.Nodes:      describeNodes,
	figures.Single:     describeSingle,
}

// fill returns the text with its parts as the data has them. Each must be there once.
func fill(text []byte, data *figures.Data) (_ []byte, err error) {
	for name, describe := range parts {
		if text, err = fillPart(text, name, "make versus", describe(data)); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// fillPart returns the text with one part, which the command makes.
func fillPart(text []byte, name, command, part string) ([]byte, error) {
	begin := []byte("<!-- begin " + name + ": made by " + command + " -->\n")
	end := []byte("<!-- end " + name + " -->\n")
	before, rest, found := bytes.Cut(text, begin)
	_, after, closed := bytes.Cut(rest, end)
	if !found || !closed || bytes.Contains(after, begin) {
		return nil, fmt.Errorf("the document does not have %q and %q once", begin, end)
	}
	return bytes.Join([][]byte{before, begin, []byte(part), end, after}, nil), nil
}

func describeEnvironment(d *figures.Data) string { return sentenceOf(d.Environment) }

func sentenceOf(e figures.Environment) string {
	server := strings.Replace(e.Server, "redis", "Redis", 1)
	text := fmt.Sprintf("Measured with %d CPUs for the clients and the servers together, %s, %s, %s",
		e.CPUs, e.Platform, e.Go, server)
	if e.Commit != "" {
		text += ",\nat commit " + e.Commit
	}
	return text + ".\n"
}

// section has what was measured, and the tables.
func section(e *figures.Experiment, tables ...string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s.\n", rounds(e), e.Setup)
	for _, table := range tables {
		fmt.Fprintf(&text, "\n%s", table)
	}
	return text.String()
}

// image shows a chart.
func image(alt, name string) string { return fmt.Sprintf("![%s](charts/%s.svg)\n\n", alt, name) }

// rounds returns how many rounds the experiment had.
func rounds(e *figures.Experiment) string {
	for _, row := range e.Rows {
		for _, f := range row.Values {
			if len(f.Rounds) == 1 {
				return "One round"
			}
			return fmt.Sprintf("Medians of %d rounds", len(f.Rounds))
		}
	}
	return "Not measured"
}

// loadColumns are what a lock costs with so many goroutines.
func loadColumns(goroutines int) []figures.Column {
	return []figures.Column{
		{Title: "locks/s", Size: goroutines, Value: figures.LocksPerSecond, More: true},
		{Title: "client CPU, µs", Size: goroutines, Value: figures.ClientCPU, Decimals: 1},
		{Title: "servers' CPU, µs", Size: goroutines, Value: figures.ServerCPU, Decimals: 1},
		{Title: "allocations", Size: goroutines, Value: figures.Allocations, Decimals: 1},
		{Title: "bytes", Size: goroutines, Value: figures.Bytes},
	}
}

// manyGoroutines is the load at which costs are shown.
const manyGoroutines = 256

func describeThroughput(d *figures.Data) string {
	e := d.Experiment(figures.Throughput)
	var columns []figures.Column
	for _, size := range e.Sizes() {
		columns = append(columns, figures.Column{Title: fmt.Sprint(size), Size: size, Value: figures.LocksPerSecond, More: true})
	}
	return image("Throughput over goroutines", e.Name) + section(e,
		figures.Table(e, "locks/s, by goroutines", columns),
		figures.Table(e, fmt.Sprintf("per lock, %d goroutines", manyGoroutines), loadColumns(manyGoroutines)[1:]))
}

func describeLatency(d *figures.Data) string {
	e := d.Experiment(figures.Latency)
	var columns []figures.Column
	for _, c := range []struct{ title, value string }{
		{"p50", figures.P50},
		{"p99", figures.P99},
		{"p99.9", figures.P999},
		{"client CPU", figures.ClientCPU},
		{"servers' CPU", figures.ServerCPU},
	} {
		columns = append(columns, figures.Column{Title: c.title, Value: c.value, Decimals: 1})
	}
	return section(e, figures.Table(e, "µs", columns))
}

// contendedColumns are what contention for a name comes to.
var contendedColumns = []figures.Column{
	{Title: "locks/s", Value: figures.LocksPerSecond, More: true},
	{Title: "changes/s", Value: figures.ChangesPerSecond, More: true},
	{Title: "mean wait, ms", Value: figures.MeanWait, Decimals: 1},
	{Title: "p99", Value: figures.P99Wait, Decimals: 1},
	{Title: "longest", Value: figures.LongestWait, Decimals: 1},
	{Title: "commands per change", Value: figures.CommandsPerChange, Decimals: 1},
	{Title: "least share of a process", Value: figures.LeastShare, Decimals: 2, More: true},
}

func describeContention(d *figures.Data) string {
	e := d.Experiment(figures.Contention)
	return section(e, figures.Table(e, "", contendedColumns))
}

func describeRenewal(d *figures.Data) string {
	e := d.Experiment(figures.Renewal)
	columns := []figures.Column{
		{Title: "% of a core", Value: figures.CoreShare, Decimals: 2},
		{Title: "renewals/s", Value: figures.RenewalsPerSecond},
		{Title: "client CPU per renewal, µs", Value: figures.ClientCPUPerRenewal, Decimals: 2},
		{Title: "servers' CPU, µs", Value: figures.ServerCPUPerRenewal, Decimals: 2},
		{Title: "lost", Value: figures.LostLocks},
	}
	return section(e, tableOfOurs(e, "locks held", columns, func(row *figures.Row) string { return figures.Grouped(float64(row.Size), 0) }))
}

// tableOfOurs has a line for each row of this library.
func tableOfOurs(e *figures.Experiment, corner string, columns []figures.Column, title func(row *figures.Row) string) string {
	var text strings.Builder
	text.WriteString(figures.Head(corner, columns))
	for i := range e.Rows {
		row := &e.Rows[i]
		fmt.Fprintf(&text, "| %s |", title(row))
		for _, c := range columns {
			c.Size, c.State = row.Size, row.State
			fmt.Fprintf(&text, " %s |", c.Cell(e, row.Peer))
		}
		text.WriteString("\n")
	}
	return text.String()
}

// describeScale has a million locks, and thousands of waiters.
func describeScale(d *figures.Data) string {
	held, crowds := d.Experiment(figures.Held), d.Experiment(figures.Crowds)
	ofHeld := []figures.Column{
		{Title: "renewals/s", Value: figures.RenewalsPerSecond},
		{Title: "calls/s", Value: figures.CallsPerSecond},
		{Title: "client, % of a core", Value: figures.CoreShare, Decimals: 1},
		{Title: "garbage collector", Value: figures.CollectorShare, Decimals: 1},
		{Title: "servers", Value: figures.ServerCoreShare, Decimals: 1},
		{Title: "longest pause, ms", Value: figures.LongestPause, Decimals: 1},
		{Title: "another lock, p50, µs", Value: figures.P50},
		{Title: "p99", Value: figures.P99},
		{Title: "bytes per lock", Value: figures.HeapPerLock},
		{Title: "lost", Value: figures.LostLocks},
	}
	return sentenceOf(d.Environment) + "\n" +
		section(held, tableOfOurs(held, "locks held", ofHeld, func(row *figures.Row) string {
			return figures.Grouped(float64(row.Size), 0) + ", a TTL of " + strings.TrimSuffix(row.State, "0s")
		})) + "\n" +
		section(crowds, tableOfOurs(crowds, "waiters", contendedColumns, func(row *figures.Row) string {
			return figures.Grouped(float64(row.Size), 0) + ", processes: " + row.State
		}))
}

func describeNodes(d *figures.Data) string {
	e := d.Experiment(figures.Nodes)
	sizes := e.Sizes()
	var table strings.Builder
	for i, cost := range []struct{ title, value string }{
		{"client CPU per lock, µs", figures.ClientCPU},
		{"servers' CPU per lock, µs", figures.ServerCPU},
		{"p50 of one goroutine, µs", figures.P50},
	} {
		var columns []figures.Column
		for _, size := range sizes {
			columns = append(columns, figures.Column{Title: fmt.Sprintf("N = %d", size), Size: size, Value: cost.value, Decimals: 1})
		}
		if len(sizes) > 1 {
			last, first := columns[len(columns)-1], columns[0]
			last.Title, last.Over, last.Decimals = fmt.Sprintf("%d / %d", last.Size, first.Size), &first, 2
			columns = append(columns, last)
		}
		if i == 0 {
			table.WriteString(figures.Head("", columns))
		}
		table.WriteString(figures.Rows(e, cost.title, columns))
	}
	return section(e, table.String())
}

func describeSingle(d *figures.Data) string {
	e := d.Experiment(figures.Single)
	columns := append(loadColumns(manyGoroutines), figures.Column{Title: "p50 of one goroutine, µs", Size: 1, Value: figures.P50, Decimals: 1})
	return section(e, figures.Table(e, fmt.Sprintf("per lock, %d goroutines", manyGoroutines), columns))
}

// describeRecovery has a row for each phase.
func describeRecovery(r *figures.Recovery) string {
	var out strings.Builder
	out.WriteString(image("Locks per second and longest waits through faults", "recovery"))
	out.WriteString(sentenceOf(r.Environment))
	runs := "One run of each peer"
	if n := len(r.Courses[0].Runs); n > 1 {
		runs = fmt.Sprintf("Medians of %d runs of each peer, in turns", n)
	}
	fmt.Fprintf(&out, "%s:\n%s.\n\n| seconds |  |", runs, r.Setup)
	for _, c := range r.Courses {
		fmt.Fprintf(&out, " %s, locks/s | longest wait, ms |", c.Peer)
	}
	out.WriteString("\n| ---: | --- |" + strings.Repeat(" ---: | ---: |", len(r.Courses)) + "\n")
	for _, phase := range r.Phases {
		if phase.Title == figures.Calm {
			continue // the chart has it
		}
		fmt.Fprintf(&out, "| %g–%g | %s |", phase.From, phase.To, phase.Title)
		for _, c := range r.Courses {
			locks, wait := c.Of(phase, r.Step)
			fmt.Fprintf(&out, " %s | %s |", figures.Grouped(locks, 0), figures.Grouped(wait, 0))
		}
		out.WriteString("\n")
	}
	return out.String()
}
