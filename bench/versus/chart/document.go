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
	figures.Minority:   describeMinority,
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
	text := fmt.Sprintf("Measured with %d CPUs for the clients and the servers together, %s, %s, %s",
		e.CPUs, e.Platform, e.Go, e.Server)
	if e.Commit != "" {
		text += ",\nat commit " + e.Commit
	}
	return text + ".\n"
}

// section has the chart, what was measured, and the tables.
func section(e *figures.Experiment, alt string, tables ...string) string {
	var text strings.Builder
	if _, drawn := charts[e.Name]; drawn {
		fmt.Fprintf(&text, "![%s](charts/%s.svg)\n\n", alt, e.Name)
	}
	fmt.Fprintf(&text, "%s: %s.\n", rounds(e), e.Setup)
	for _, table := range tables {
		fmt.Fprintf(&text, "\n%s", table)
	}
	return text.String()
}

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
func loadColumns(goroutines int) []column {
	return []column{
		{title: "locks/s", size: goroutines, value: figures.LocksPerSecond, more: true},
		{title: "client CPU, µs", size: goroutines, value: figures.ClientCPU, decimals: 1},
		{title: "servers' CPU, µs", size: goroutines, value: figures.ServerCPU, decimals: 1},
		{title: "allocations", size: goroutines, value: figures.Allocations, decimals: 1},
		{title: "bytes", size: goroutines, value: figures.Bytes},
	}
}

// manyGoroutines is the load at which costs are shown.
const manyGoroutines = 256

func describeThroughput(d *figures.Data) string {
	e := d.Experiment(figures.Throughput)
	var columns []column
	for _, size := range sizesOf(e) {
		columns = append(columns, column{title: fmt.Sprint(size), size: size, value: figures.LocksPerSecond, more: true})
	}
	return section(e, "Throughput over goroutines",
		table(e, "locks/s, by goroutines", columns),
		table(e, fmt.Sprintf("per lock, %d goroutines", manyGoroutines), loadColumns(manyGoroutines)))
}

func describeLatency(d *figures.Data) string {
	e := d.Experiment(figures.Latency)
	var columns []column
	for _, percentile := range percentiles {
		columns = append(columns, column{title: percentile.title, value: percentile.value, decimals: 1})
	}
	columns = append(columns,
		column{title: "client CPU", value: figures.ClientCPU, decimals: 1},
		column{title: "servers' CPU", value: figures.ServerCPU, decimals: 1})
	return section(e, "Latency with one goroutine", table(e, "µs", columns))
}

func describeContention(d *figures.Data) string {
	e := d.Experiment(figures.Contention)
	return section(e, "Waits for one name", table(e, "", []column{
		{title: "locks/s", value: figures.LocksPerSecond, more: true},
		{title: "changes/s", value: figures.ChangesPerSecond, more: true},
		{title: "mean wait, ms", value: figures.MeanWait, decimals: 1},
		{title: "p99", value: figures.P99Wait, decimals: 1},
		{title: "longest", value: figures.LongestWait, decimals: 1},
		{title: "commands per change", value: figures.CommandsPerChange, decimals: 1},
		{title: "least share of a process", value: figures.LeastShare, decimals: 2, more: true},
	}))
}

func describeMinority(d *figures.Data) string {
	e := d.Experiment(figures.Minority)
	var columns, slower []column
	for _, state := range statesOf(e) {
		columns = append(columns,
			column{title: state + ", p50", state: state, value: figures.P50},
			column{title: "p99", state: state, value: figures.P99})
		if state != figures.Healthy {
			slower = append(slower,
				column{title: state, state: state, value: figures.P99, decimals: 2, over: &column{state: figures.Healthy, value: figures.P99}},
				column{title: "locks that failed", state: state, value: figures.Failed})
		}
	}
	return section(e, "Latency while two of five servers are late or dead",
		table(e, "µs", columns), table(e, "p99, divided by that of five healthy servers", slower))
}

func describeRenewal(d *figures.Data) string {
	e := d.Experiment(figures.Renewal)
	var text strings.Builder
	text.WriteString("| locks held | % of a core | renewals/s | client CPU per renewal, µs | servers' CPU, µs | lost |\n")
	text.WriteString("| ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, size := range sizesOf(e) {
		fmt.Fprintf(&text, "| %s |", grouped(float64(size), 0))
		for _, c := range []column{
			{value: figures.CoreShare, decimals: 2},
			{value: figures.RenewalsPerSecond},
			{value: figures.ClientCPUPerRenewal, decimals: 2},
			{value: figures.ServerCPUPerRenewal, decimals: 2},
			{value: figures.LostLocks},
		} {
			c.size = size
			cell := "–"
			if f, found := c.figure(e, "redquorum"); found {
				cell = grouped(f.Median, c.decimals)
			}
			fmt.Fprintf(&text, " %s |", cell)
		}
		text.WriteString("\n")
	}
	return section(e, "CPU of the client over locks held", text.String())
}

func describeNodes(d *figures.Data) string {
	e := d.Experiment(figures.Nodes)
	sizes := sizesOf(e)
	var tables []string
	for _, cost := range []struct{ title, value string }{
		{"client CPU per lock, µs", figures.ClientCPU},
		{"servers' CPU per lock, µs", figures.ServerCPU},
		{"p50 of one goroutine, µs", figures.P50},
	} {
		var columns []column
		for _, size := range sizes {
			columns = append(columns, column{title: fmt.Sprintf("N = %d", size), size: size, value: cost.value, decimals: 1})
		}
		if len(sizes) > 1 {
			last, first := columns[len(columns)-1], columns[0]
			last.title, last.over, last.decimals = fmt.Sprintf("%d / %d", last.size, first.size), &first, 2
			columns = append(columns, last)
		}
		tables = append(tables, table(e, cost.title, columns))
	}
	return section(e, "Cost over the number of servers", tables...)
}

func describeSingle(d *figures.Data) string {
	e := d.Experiment(figures.Single)
	columns := append(loadColumns(manyGoroutines), column{title: "p50 of one goroutine, µs", size: 1, value: figures.P50, decimals: 1})
	return section(e, "", table(e, fmt.Sprintf("per lock, %d goroutines", manyGoroutines), columns))
}
