package figures

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Column is a figure of each peer.
type Column struct {
	Title    string
	State    string
	Size     int
	Value    string
	Decimals int
	More     bool // is better

	// Over is what the figure is divided by, round by round; nil for nothing.
	Over *Column
}

// Cell returns the median of a peer, or a dash.
func (c *Column) Cell(e *Experiment, peer string) string {
	f, found := c.figure(e, peer)
	if !found {
		return "–"
	}
	return Grouped(f.Median, c.Decimals)
}

func (c *Column) figure(e *Experiment, peer string) (Figure, bool) {
	f, found := e.Value(peer, c.State, c.Size, c.Value)
	if !found || c.Over == nil {
		return f, found
	}
	other, found := c.Over.figure(e, peer)
	if !found {
		return f, false
	}
	return f.By(other)
}

// ours is this library among the peers.
const ours = "redquorum"

// Table returns our medians, as they are and divided by those of others (see [Rows]).
func Table(e *Experiment, corner string, columns []Column) string {
	return Head(corner, columns) + Rows(e, ours, columns)
}

// TableOfPeers returns the medians of all peers.
func TableOfPeers(e *Experiment, corner string, columns []Column) string {
	var text strings.Builder
	text.WriteString(Head(corner, columns))
	for _, peer := range e.Peers() {
		cells(&text, peer, columns, func(c *Column) string { return c.Cell(e, peer) })
	}
	return text.String()
}

// Head returns the head of a table.
func Head(corner string, columns []Column) string {
	var text strings.Builder
	fmt.Fprintf(&text, "| %s |", corner)
	for _, c := range columns {
		fmt.Fprintf(&text, " %s |", c.Title)
	}
	text.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(columns)) + "\n")
	return text.String()
}

// Rows returns our medians under a title, and divided by those of the best redsync and of others
// that there are: the medians of peers drift with the machine, and stand in the data.
func Rows(e *Experiment, title string, columns []Column) string {
	var text strings.Builder
	cells(&text, title, columns, func(c *Column) string { return c.Cell(e, ours) })
	for _, other := range []struct{ title, prefix string }{
		{"divided by the best redsync", "redsync"},
		{"divided by the limit", "limit"},
		{"divided by the best redislock", "redislock"},
	} {
		if hasRatio(e, columns, other.prefix) {
			cells(&text, other.title, columns, func(c *Column) string { return Ratio(e, c, other.prefix) })
		}
	}
	return text.String()
}

// cells writes a row.
func cells(text *strings.Builder, title string, columns []Column, cell func(*Column) string) {
	fmt.Fprintf(text, "| %s |", title)
	for i := range columns {
		fmt.Fprintf(text, " %s |", cell(&columns[i]))
	}
	text.WriteString("\n")
}

// hasRatio reports whether any column has a ratio.
func hasRatio(e *Experiment, columns []Column, prefix string) bool {
	for i := range columns {
		if Ratio(e, &columns[i], prefix) != "–" {
			return true
		}
	}
	return false
}

// Ratio returns ours divided by the best of the peers whose names begin like this: the median of
// the rounds, the lowest and the highest.
func Ratio(e *Experiment, c *Column, prefix string) string {
	// The limit allocates nothing.
	nothing := prefix == "limit" && (c.Value == Allocations || c.Value == Bytes)
	if c.Over != nil || nothing {
		return "–"
	}
	mine, found := c.figure(e, ours)
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
func best(e *Experiment, c *Column, prefix string) (best Figure, found bool) {
	for _, peer := range e.Peers() {
		f, known := c.figure(e, peer)
		if known && strings.HasPrefix(peer, prefix) && (!found || (f.Median > best.Median) == c.More) {
			best, found = f, true
		}
	}
	return best, found
}

// Grouped returns a number with commas between the thousands.
func Grouped(value float64, decimals int) string {
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

// Peers returns the peers, in the order in which they appear.
func (e *Experiment) Peers() []string {
	return distinct(e, func(row Row) string { return row.Peer })
}

// Sizes returns the sizes, in the order in which they appear.
func (e *Experiment) Sizes() []int {
	return distinct(e, func(row Row) int { return row.Size })
}

func distinct[V comparable](e *Experiment, of func(Row) V) (all []V) {
	for _, row := range e.Rows {
		if v := of(row); !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}
