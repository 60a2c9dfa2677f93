package terminal

import (
	"slices"
	"strings"
	"unicode"
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
}

// Lines lays out the table in lines that have at most this width, unless its columns cannot be made
// narrow enough. Style chooses the style of a cell; nil for plain.
func (t *Table) Lines(width int, style func(row []string, column int) Style) [][]Span {
	widths := t.widths(width)
	heading := t.line(t.Heading, widths)
	for i := range heading {
		heading[i].Style = Bold
	}
	lines := [][]Span{heading}
	for _, row := range t.Rows {
		line := t.line(row, widths)
		for column := range line {
			if style != nil {
				line[column].Style = style(row, column)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// Width returns how wide the table is if nothing is cut.
func (t *Table) Width() int {
	sum := gap * (len(t.Heading) - 1)
	for _, width := range t.widths(unlimited) {
		sum += width
	}
	return sum
}

// unlimited is a width that cuts nothing.
const unlimited = 1 << 20

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

func (t *Table) line(row []string, widths []int) (line []Span) {
	for column, text := range row {
		text = Cut(text, widths[column])
		space := strings.Repeat(" ", widths[column]-Columns(text))
		switch {
		case slices.Contains(t.Numbers, column):
			text = space + text
		case column < len(row)-1:
			text += space
		}
		if column < len(row)-1 {
			text += strings.Repeat(" ", gap)
		}
		line = append(line, Plain.Of(text))
	}
	return line
}

// Cut cuts a text to a width. What was cut ends with "…".
func Cut(text string, width int) string {
	if Columns(text) <= width {
		return text
	}
	if width < 1 {
		return ""
	}
	return begin(text, width-1) + "…"
}

// begin returns as much of a text as fits.
func begin(text string, width int) string {
	for i, r := range text {
		if width -= columns(r); width < 0 {
			return text[:i]
		}
	}
	return text
}

// Columns returns how wide a terminal shows a text.
func Columns(text string) (sum int) {
	for _, r := range text {
		sum += columns(r)
	}
	return sum
}

// columns returns the width of a rune: most terminals show the scripts of East Asia, and emoji, two
// columns wide.
func columns(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana),
		r >= 0x3000 && r <= 0x303e, r >= 0xff01 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff:
		return 2
	default:
		return 1
	}
}
