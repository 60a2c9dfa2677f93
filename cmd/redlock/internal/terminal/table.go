package terminal

import (
	"slices"
	"strings"
)

// gap is the space between two columns of a table.
const gap = 2

// least is the width to which a column of long texts is cut, if the table is too wide.
const least = 8

// Table is rows below a heading. All rows are as long as the heading.
type Table struct {
	Heading []string
	Rows    [][]string
	Numbers []int // columns that are aligned to the right
	Long    []int // columns that may be cut

	// Style chooses the style of a cell; nil for plain.
	Style func(row []string, column int) Style
}

// Lines lays out the table in lines that have at most this width, unless its columns cannot be made
// narrow enough.
func (t *Table) Lines(width int) []string {
	widths := t.widths(width)
	lines := []string{t.line(t.Heading, widths, func([]string, int) Style { return Bold })}
	for _, row := range t.Rows {
		lines = append(lines, t.line(row, widths, t.Style))
	}
	return lines
}

// Width returns how wide the table is if nothing is cut.
func (t *Table) Width() int {
	sum := gap * (len(t.Heading) - 1)
	for _, width := range t.widths(Unlimited) {
		sum += width
	}
	return sum
}

// widths returns the width of each column.
func (t *Table) widths(width int) []int {
	widths, sum := make([]int, len(t.Heading)), gap*(len(t.Heading)-1)
	for column, heading := range t.Heading {
		widths[column] = Columns(heading)
		for _, row := range t.Rows {
			widths[column] = max(widths[column], Columns(row[column]))
		}
		sum += widths[column]
	}
	for ; sum > width; sum-- {
		widest := -1
		for _, column := range t.Long {
			if widths[column] > least && (widest < 0 || widths[column] > widths[widest]) {
				widest = column
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

func (t *Table) line(row []string, widths []int, style func([]string, int) Style) string {
	var cells []string
	for column, text := range row {
		text = Cut(text, widths[column])
		space := strings.Repeat(" ", widths[column]-Columns(text))
		switch {
		case slices.Contains(t.Numbers, column):
			text = space + text
		case column < len(row)-1:
			text += space
		}
		if style != nil {
			text = style(row, column).Of(text)
		}
		cells = append(cells, text)
	}
	return strings.Join(cells, strings.Repeat(" ", gap))
}

// IsEmpty reports whether a column has dashes alone.
func (t *Table) IsEmpty(column int) bool {
	return !slices.ContainsFunc(t.Rows, func(row []string) bool { return row[column] != "-" })
}

// Drop leaves a column out. No number and no long text may stand behind it.
func (t *Table) Drop(column int) {
	t.Heading = slices.Delete(slices.Clone(t.Heading), column, column+1)
	for i, row := range t.Rows {
		t.Rows[i] = slices.Delete(slices.Clone(row), column, column+1)
	}
}
