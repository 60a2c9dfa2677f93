// Package terminal writes text for people: in colors, wrapped, or as a screen that is drawn again
// and again.
package terminal

import (
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// Look describes how output looks.
type Look struct {
	Size  func() (width, height int) // in columns and lines
	Color bool
	Live  bool // a screen can be drawn there
}

// Escape sequences. What is drawn live uses the alternate screen, so it leaves nothing behind.
const (
	EnterScreen = "\x1b[?1049h\x1b[?25l\x1b[2J" // alternate screen, no cursor
	LeaveScreen = "\x1b[?25h\x1b[?1049l"

	cursorHome = "\x1b[H"
	clearToEOL = "\x1b[K"
	clearBelow = "\x1b[J"
)

// Style is how a piece of text looks.
type Style string

// Styles.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Of returns a text in this style.
func (s Style) Of(text string) Span { return Span{text, s} }

// Without a terminal to ask.
const (
	usualWidth  = 80
	usualHeight = 24
)

// LookOf returns the look of output to w. NO_COLOR and TERM=dumb are respected.
func LookOf(w io.Writer) Look {
	file, ok := w.(*os.File)
	terminal := ok && term.IsTerminal(int(file.Fd()))
	l := chooseLook(terminal, runtime.GOOS, os.Getenv)
	if terminal {
		fallback := l.Size
		l.Size = func() (width, height int) {
			width, height, err := term.GetSize(int(file.Fd()))
			if err != nil || width <= 0 || height <= 0 {
				return fallback()
			}
			return width, height
		}
	}
	return l
}

// chooseLook decides by the environment. The Windows console is not known to understand the
// sequences above.
func chooseLook(terminal bool, system string, getenv func(string) string) Look {
	width, err := strconv.Atoi(getenv("COLUMNS"))
	if err != nil || width <= 0 {
		width = usualWidth
	}
	able := terminal && system != "windows" && getenv("TERM") != "dumb"
	return Look{
		Size:  func() (int, int) { return width, usualHeight },
		Live:  able,
		Color: able && getenv("NO_COLOR") == "",
	}
}

// Span is text in one style; a line is made of spans.
type Span struct {
	Text  string
	Style Style
}

// Line returns a line cut to the width, so that it does not wrap.
func Line(line []Span, width int, color bool) string {
	var b strings.Builder
	for _, s := range line {
		text := begin(s.Text, width)
		width -= Columns(text)
		if color && s.Style != "" && text != "" {
			b.WriteString("\x1b[" + string(s.Style) + "m" + text + "\x1b[0m")
		} else {
			b.WriteString(text)
		}
	}
	return b.String()
}

// Frame returns the output that draws lines over the previous frame. It overwrites each line
// and clears the rest of it, so nothing flickers. Lines that do not fit on the screen are cut off
// at the bottom.
func Frame(lines [][]Span, width, height int, color bool) string {
	var b strings.Builder
	b.WriteString(cursorHome)
	lines = lines[:min(len(lines), height)]
	full := false
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(Line(line, width, color))
		if full = fills(line, width); !full {
			b.WriteString(clearToEOL)
		}
	}
	switch {
	case !full:
		b.WriteString(clearBelow)
	case len(lines) < height:
		b.WriteString("\r\n" + clearBelow)
	}
	return b.String()
}

// fills reports whether a line leaves nothing to clear: the cursor is on its last column then, and
// clearing would take that.
func fills(line []Span, width int) bool {
	for _, s := range line {
		width -= Columns(s.Text)
	}
	return width <= 0
}

// Wrap wraps a text at spaces into lines of at most width columns. A longer word has a line of
// its own.
func Wrap(text []Span, width int) (lines [][]Span) {
	var line []Span
	used := 0
	for _, s := range text {
		for word := range strings.FieldsSeq(s.Text) {
			length := Columns(word)
			if used > 0 && used+1+length > width {
				lines, line, used = append(lines, line), nil, 0
			}
			if used > 0 {
				line, used = append(line, Span{" ", Plain}), used+1
			}
			line, used = append(line, Span{word, s.Style}), used+length
		}
	}
	if used > 0 {
		lines = append(lines, line)
	}
	return lines
}
