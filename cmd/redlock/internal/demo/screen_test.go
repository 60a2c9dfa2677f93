package demo

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLineIsCutToTheWidth(t *testing.T) {
	line := []span{{"abc", ""}, {"défg", red}, {"h", ""}}
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
		if got := drawLine(line, c.width, c.color); got != c.want {
			t.Errorf("width %d, color %v: got %q, want %q", c.width, c.color, got, c.want)
		}
	}
}

func TestFrameOverwritesAndNeverScrolls(t *testing.T) {
	lines := [][]span{{{"one", ""}}, {}, {{"three", ""}}}
	if got, want := drawFrame(lines, 80, 24, false), "\x1b[Hone\x1b[K\r\n\x1b[K\r\nthree\x1b[K\x1b[J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := drawFrame(lines, 80, 1, false), "\x1b[Hone\x1b[K\x1b[J"; got != want {
		t.Errorf("got %q of a screen of one line, want %q", got, want)
	}
}

func TestTextIsWrappedAtSpaces(t *testing.T) {
	text := []span{{"one two", ""}, {"THREE", red}, {"4", ""}, {"sixsixsix", ""}}
	var got []string
	for _, line := range wrapText(text, 8) {
		got = append(got, drawLine(line, 80, false))
	}
	if want := []string{"one two", "THREE 4", "sixsixsix"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := wrapText(nil, 8); got != nil {
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
		if width, _ := got.size(); got.live != c.live || got.color != c.color || width != c.width {
			t.Errorf("%s: got live %v, color %v, width %d, want %v, %v, %d", c.name, got.live, got.color, width, c.live, c.color, c.width)
		}
	}
}

func TestLiveViewDrawsPictureAndEvents(t *testing.T) {
	v := &liveView{title: "redlock demo", total: 4 * time.Second}
	tr := story()
	tr.events = []event{{time.Second, "node 2 stopped"}}
	frame := drawFrame(v.lines(tr, 80), 80, 24, false)
	for _, want := range []string{"2.0 of 4.0 s, acquired 5 times", "   worker 3  ", "nodes up  5555", "  1.0 s  node 2 stopped"} {
		if !strings.Contains(frame, want) {
			t.Errorf("got %q, want %q in it", frame, want)
		}
	}
}

func TestLiveViewGivesTheScreenBack(t *testing.T) {
	var out bytes.Buffer
	v := &liveView{out: &output{w: &out}, now: func() trace { return trace{} }, look: wide}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v.run(ctx)
	if got := out.String(); !strings.HasPrefix(got, enterScreen) || !strings.HasSuffix(got, leaveScreen) {
		t.Errorf("got %q, want it to begin with %q and end with %q", got, enterScreen, leaveScreen)
	}
}

func TestBufferIsNotATerminal(t *testing.T) {
	if got := lookOf(&bytes.Buffer{}); got.live || got.color {
		t.Errorf("got live %v, color %v", got.live, got.color)
	}
}
