package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/redquorum/redquorum/bench/versus/figures"
)

// column is a figure of each peer.
type column struct {
	title    string
	state    string
	size     int
	value    string
	decimals int
	more     bool // is better

	// over is what the figure is divided by, round by round; nil for nothing.
	over *column
}

func (c *column) figure(e *figures.Experiment, peer string) (figures.Figure, bool) {
	f, found := e.Value(peer, c.state, c.size, c.value)
	if !found || c.over == nil {
		return f, found
	}
	other, found := c.over.figure(e, peer)
	if !found {
		return f, false
	}
	return f.By(other)
}

// table returns the medians of the peers, and of those that there are: ours divided by the best
// redsync, and by the limit.
func table(e *figures.Experiment, corner string, columns []column) string {
	var text strings.Builder
	fmt.Fprintf(&text, "| %s |", corner)
	for _, c := range columns {
		fmt.Fprintf(&text, " %s |", c.title)
	}
	text.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(columns)) + "\n")
	for _, peer := range peersOf(e) {
		cells(&text, peer, columns, func(c *column) string {
			f, found := c.figure(e, peer)
			if !found {
				return "–"
			}
			return grouped(f.Median, c.decimals)
		})
	}
	for _, other := range []struct{ title, prefix string }{
		{"redquorum, divided by the best redsync", "redsync"},
		{"redquorum, divided by the limit", "limit"},
		{"redquorum, divided by the best redislock", "redislock"},
	} {
		if comparable(e, columns, other.prefix) {
			cells(&text, other.title, columns, func(c *column) string { return ratio(e, c, other.prefix) })
		}
	}
	return text.String()
}

// cells writes a row.
func cells(text *strings.Builder, title string, columns []column, cell func(*column) string) {
	fmt.Fprintf(text, "| %s |", title)
	for i := range columns {
		fmt.Fprintf(text, " %s |", cell(&columns[i]))
	}
	text.WriteString("\n")
}

// comparable reports whether any column has a ratio.
func comparable(e *figures.Experiment, columns []column, prefix string) bool {
	for i := range columns {
		if ratio(e, &columns[i], prefix) != "–" {
			return true
		}
	}
	return false
}

// ratio returns ours divided by the best of the others: the median of the rounds, the lowest and
// the highest.
func ratio(e *figures.Experiment, c *column, prefix string) string {
	// The limit allocates nothing.
	nothing := prefix == "limit" && (c.value == figures.Allocations || c.value == figures.Bytes)
	if c.over != nil || nothing {
		return "–"
	}
	mine, found := c.figure(e, "redquorum")
	other, others := best(e, c, prefix)
	if !found || !others {
		return "–"
	}
	quotient, ok := mine.By(other)
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", quotient.Median, quotient.Lowest, quotient.Highest)
}

// best returns the figure with the best median, of the peers whose names begin like this.
func best(e *figures.Experiment, c *column, prefix string) (best figures.Figure, found bool) {
	for _, peer := range peersOf(e) {
		f, known := c.figure(e, peer)
		if known && strings.HasPrefix(peer, prefix) && (!found || (f.Median > best.Median) == c.more) {
			best, found = f, true
		}
	}
	return best, found
}

// grouped returns a number with commas between the thousands.
func grouped(value float64, decimals int) string {
	text := strconv.FormatFloat(math.Abs(value), 'f', decimals, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if value < 0 {
		whole = "-" + whole
	}
	return whole
}
