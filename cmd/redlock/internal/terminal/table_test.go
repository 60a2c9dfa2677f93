package terminal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func text(lines [][]Span) (all []string) {
	for _, line := range lines {
		all = append(all, Line(line, 1000, false))
	}
	return all
}

func TestTableIsMadeNarrowerUntilItFits(t *testing.T) {
	table := Table{
		Heading: []string{"NAME", "N", "HOLDER"},
		Rows:    [][]string{{"a", "1", "somebody@host:4711"}, {"orders/123456789", "200", "x"}},
		Numbers: []int{1}, Long: []int{0, 2},
	}
	for width, want := range map[int]string{
		80: `
NAME                N  HOLDER
a                   1  somebody@host:4711
orders/123456789  200  x`,
		30: `
NAME           N  HOLDER
a              1  somebody@ho…
orders/123…  200  x`,
		10: `
NAME        N  HOLDER
a           1  somebod…
orders/…  200  x`,
	} {
		assert.Equal(t, strings.TrimPrefix(want, "\n"), strings.Join(text(table.Lines(width, nil)), "\n"), "width %d", width)
	}
	assert.Equal(t, 16+2+3+2+18, table.Width())
	style := func(row []string, column int) Style {
		if row[column] == "200" {
			return Red
		}
		return Plain
	}
	lines := table.Lines(80, style)
	assert.Equal(t, Bold, lines[0][0].Style)
	assert.Equal(t, Red, lines[2][1].Style)
	assert.Equal(t, Plain, lines[2][0].Style)
}

func TestWideRunesTakeTwoColumns(t *testing.T) {
	assert.Equal(t, 0, Columns(""))
	assert.Equal(t, 4, Columns("für"+"…"))
	assert.Equal(t, 6, Columns("日本🔒"))
	assert.Equal(t, 1, Columns("e\u0301"))
	for width, want := range map[int]string{0: "", 1: "…", 2: "…", 3: "日…", 4: "日…", 5: "日本…", 6: "日本🔒"} {
		assert.Equal(t, want, Cut("日本🔒", width), "%d", width)
	}
}

// Clearing the rest of a full line would clear its last column, where the cursor still is.
func TestAFullLineKeepsItsLastColumn(t *testing.T) {
	full, short := []Span{{"abc", ""}}, []Span{{"ab", ""}}
	assert.Equal(t, "\x1b[Habc\r\nab\x1b[K\x1b[J", Frame([][]Span{full, short}, 3, 9, false))
	assert.Equal(t, "\x1b[Hab\x1b[K\r\nabc\r\n\x1b[J", Frame([][]Span{short, full}, 3, 9, false))
	assert.Equal(t, "\x1b[Hab\x1b[K\r\nabc", Frame([][]Span{short, full, short}, 3, 2, false))
}
