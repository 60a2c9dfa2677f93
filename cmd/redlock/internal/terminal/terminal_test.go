package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTextIsWrappedAtSpacesAndKeepsItsStyles(t *testing.T) {
	text := "one two " + Red.Of("THREE 4") + " sixsixsix"
	assert.Equal(t, []string{"one two", "\x1b[31mTHREE\x1b[0m \x1b[31m4\x1b[0m", "sixsixsix"}, Wrap(text, 8))
	assert.Equal(t, []string{"\x1b[31mTHREE\x1b[0m", "\x1b[31m4\x1b[0m"}, Wrap(Red.Of("THREE 4"), 5))
	assert.Nil(t, Wrap("", 8))
	assert.Equal(t, []string{Red.Of("a:") + " one", "   two"}, Hang(Red.Of("a:")+" ", "one two", 7))
	assert.Equal(t, "THREE 4\n\n", Look{}.Text([]string{Red.Of("THREE 4"), ""}))
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
orders/123456789  200  x
`,
		30: `
NAME           N  HOLDER
a              1  somebody@ho…
orders/123…  200  x
`,
		10: `
NAME        N  HOLDER
a           1  somebod…
orders/…  200  x
`,
	} {
		assert.Equal(t, want, "\n"+Look{}.Text(table.Lines(width)), "width %d", width)
	}
	assert.Equal(t, 16+2+3+2+18, table.Width())
	table.Style = func(row []string, column int) Style {
		if row[column] == "200" {
			return Red
		}
		return Plain
	}
	assert.Equal(t, "orders/123456789  \x1b[31m200\x1b[0m  x", table.Lines(80)[2])
	assert.False(t, table.IsEmpty(1))
	table.Rows[0][1] = "-"
	assert.False(t, table.IsEmpty(1))
	assert.Equal(t, Bold.Of("NAME            ")+"  "+Bold.Of("  N")+"  "+Bold.Of("HOLDER"), table.Lines(80)[0])
	table.Drop(2)
	assert.Equal(t, "NAME                N\na                   -\norders/123456789  200\n", Look{}.Text(table.Lines(80)))
	table.Rows = [][]string{{"-", "1"}}
	assert.True(t, table.IsEmpty(0))
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
		env         string // NAME=VALUE
		live, color bool
		width       int
	}{
		{true, "linux", "", true, true, 80},
		{false, "linux", "TERM=xterm", false, false, 80},
		{true, "linux", "NO_COLOR=1", true, false, 80},
		{true, "linux", "NO_COLOR=", true, true, 80},
		{true, "linux", "TERM=dumb", false, false, 80},
		{true, "windows", "", false, false, 80},
		{false, "linux", "COLUMNS=132", false, false, 132},
		{false, "linux", "COLUMNS=many", false, false, 80},
		{false, "linux", "COLUMNS=-1", false, false, 80},
	} {
		got := chooseLook(c.terminal, c.system, func(name string) string {
			value, _ := strings.CutPrefix(c.env, name+"=")
			if value == c.env {
				return ""
			}
			return value
		})
		width := got.Width()
		assert.Equal(t, []any{c.live, c.color, c.width}, []any{got.Live, got.Color, width}, "%+v", c)
	}
	var buffer bytes.Buffer
	assert.False(t, LookOf(&buffer).Live || LookOf(&buffer).Color)
	assert.NoError(t, Print(&buffer, []string{Red.Of("red")}))
	assert.NoError(t, Print(&buffer, nil))
	assert.Equal(t, "red\n", buffer.String())
}
