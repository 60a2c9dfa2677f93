package terminal

import (
	"bytes"
	"slices"
	"testing"
)

func TestLineIsCutToTheWidth(t *testing.T) {
	line := []Span{{"abc", ""}, {"défg", Red}, {"h", ""}}
	for _, c := range []struct {
		width int
		color bool
		want  string
	}{
		{80, false, "abcdéfgh"},
		{80, true, "abc\x1b[31mdéfg\x1b[0mh"},
		{5, true, "abc\x1b[31mdé\x1b[0m"},
		{3, true, "abc"},
		{0, true, ""},
	} {
		if got := Line(line, c.width, c.color); got != c.want {
			t.Errorf("width %d, color %v: got %q, want %q", c.width, c.color, got, c.want)
		}
	}
}

func TestFrameOverwritesAndNeverScrolls(t *testing.T) {
	lines := [][]Span{{{"one", ""}}, {}, {{"three", ""}}}
	if got, want := Frame(lines, 80, 24, false), "\x1b[Hone\x1b[K\r\n\x1b[K\r\nthree\x1b[K\x1b[J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Frame(lines, 80, 1, false), "\x1b[Hone\x1b[K\x1b[J"; got != want {
		t.Errorf("got %q of a screen of one line, want %q", got, want)
	}
}

func TestTextIsWrappedAtSpaces(t *testing.T) {
	text := []Span{{"one two", ""}, {"THREE", Red}, {"4", ""}, {"sixsixsix", ""}}
	var got []string
	for _, line := range Wrap(text, 8) {
		got = append(got, Line(line, 80, false))
	}
	if want := []string{"one two", "THREE 4", "sixsixsix"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Wrap(nil, 8); got != nil {
		t.Errorf("got %v of nothing", got)
	}
}

func TestEnvironmentDecidesOnTheLook(t *testing.T) {
	for _, c := range []struct {
		name        string
		terminal    bool
		system      string
		env         map[string]string
		live, color bool
		width       int
	}{
		{"terminal", true, "linux", nil, true, true, 80},
		{"no terminal", false, "linux", map[string]string{"TERM": "xterm"}, false, false, 80},
		{"NO_COLOR", true, "linux", map[string]string{"NO_COLOR": "1"}, true, false, 80},
		{"empty NO_COLOR", true, "linux", map[string]string{"NO_COLOR": ""}, true, true, 80},
		{"dumb", true, "linux", map[string]string{"TERM": "dumb"}, false, false, 80},
		{"windows", true, "windows", nil, false, false, 80},
		{"COLUMNS", false, "linux", map[string]string{"COLUMNS": "132"}, false, false, 132},
		{"no COLUMNS", false, "linux", map[string]string{"COLUMNS": "many"}, false, false, 80},
		{"negative COLUMNS", false, "linux", map[string]string{"COLUMNS": "-1"}, false, false, 80},
	} {
		got := chooseLook(c.terminal, c.system, func(name string) string { return c.env[name] })
		if width, _ := got.Size(); got.Live != c.live || got.Color != c.color || width != c.width {
			t.Errorf("%s: got live %v, color %v, width %d, want %v, %v, %d", c.name, got.Live, got.Color, width, c.live, c.color, c.width)
		}
	}
}

func TestBufferIsNotATerminal(t *testing.T) {
	if got := LookOf(&bytes.Buffer{}); got.Live || got.Color {
		t.Errorf("got live %v, color %v", got.Live, got.Color)
	}
}
