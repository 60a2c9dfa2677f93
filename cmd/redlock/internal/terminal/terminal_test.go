package terminal

import (
	"bytes"
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

func TestLineIsCutToTheWidth(t *testing.T) {
	line := []Span{{"abc", ""}, {"défg", Red}, {"h", ""}}
	assert.Equal(t, "abcdéfgh", Line(line, 80, false))
	for width, want := range map[int]string{80: "abc\x1b[31mdéfg\x1b[0mh", 5: "abc\x1b[31mdé\x1b[0m", 3: "abc", 0: ""} {
		assert.Equal(t, want, Line(line, width, true), "width %d", width)
	}
}

func TestFrameOverwritesAndNeverScrolls(t *testing.T) {
	lines := [][]Span{{{"one", ""}}, {}, {{"three", ""}}}
	assert.Equal(t, "\x1b[Hone\x1b[K\r\n\x1b[K\r\nthree\x1b[K\x1b[J", Frame(lines, 80, 24, false))
	assert.Equal(t, "\x1b[Hone\x1b[K\x1b[J", Frame(lines, 80, 1, false), "a screen of one line")
}

// Clearing the rest of a full line would clear its last column, where the cursor still is.
func TestAFullLineKeepsItsLastColumn(t *testing.T) {
	full, short := []Span{{"abc", ""}}, []Span{{"ab", ""}}
	assert.Equal(t, "\x1b[Habc\r\nab\x1b[K\x1b[J", Frame([][]Span{full, short}, 3, 9, false))
	assert.Equal(t, "\x1b[Hab\x1b[K\r\nabc\r\n\x1b[J", Frame([][]Span{short, full}, 3, 9, false))
	assert.Equal(t, "\x1b[Hab\x1b[K\r\nabc", Frame([][]Span{short, full, short}, 3, 2, false))
}

func TestTextIsWrappedAtSpaces(t *testing.T) {
	spans := []Span{{"one two", ""}, {"THREE", Red}, {"4", ""}, {"sixsixsix", ""}}
	assert.Equal(t, []string{"one two", "THREE 4", "sixsixsix"}, text(Wrap(spans, 8)))
	assert.Nil(t, Wrap(nil, 8))
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
	lines := table.Lines(80, func(row []string, column int) Style {
		if row[column] == "200" {
			return Red
		}
		return Plain
	})
	assert.Equal(t, []Style{Bold, Red, Plain}, []Style{lines[0][0].Style, lines[2][1].Style, lines[2][0].Style})
}

func TestWideRunesTakeTwoColumns(t *testing.T) {
	for text, want := range map[string]int{"": 0, "für…": 4, "日本🔒": 6, "e\u0301": 1} {
		assert.Equal(t, want, Columns(text), text)
	}
	for width, want := range map[int]string{0: "", 1: "…", 2: "…", 3: "日…", 4: "日…", 5: "日本…", 6: "日本🔒"} {
		assert.Equal(t, want, Cut("日本🔒", width), "%d", width)
	}
}

func TestEnvironmentDecidesOnTheLook(t *testing.T) {
	for _, c := range []struct {
		terminal    bool
		system      string
		env         map[string]string
		live, color bool
		width       int
	}{
		{true, "linux", nil, true, true, 80},
		{false, "linux", map[string]string{"TERM": "xterm"}, false, false, 80},
		{true, "linux", map[string]string{"NO_COLOR": "1"}, true, false, 80},
		{true, "linux", map[string]string{"NO_COLOR": ""}, true, true, 80},
		{true, "linux", map[string]string{"TERM": "dumb"}, false, false, 80},
		{true, "windows", nil, false, false, 80},
		{false, "linux", map[string]string{"COLUMNS": "132"}, false, false, 132},
		{false, "linux", map[string]string{"COLUMNS": "many"}, false, false, 80},
		{false, "linux", map[string]string{"COLUMNS": "-1"}, false, false, 80},
	} {
		got := chooseLook(c.terminal, c.system, func(name string) string { return c.env[name] })
		width, _ := got.Size()
		assert.Equal(t, []any{c.live, c.color, c.width}, []any{got.Live, got.Color, width}, "%+v", c)
	}
	buffer := LookOf(&bytes.Buffer{})
	assert.False(t, buffer.Live || buffer.Color)
}
