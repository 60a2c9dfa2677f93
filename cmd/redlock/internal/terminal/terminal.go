// Package terminal writes text for people: in colors, wrapped, in tables, or as a screen that is
// drawn again and again. A line is a string, with the escape sequences of its styles.
package terminal

import (
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
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
	beginStyle = "\x1b["
	endStyle   = "\x1b[0m"
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
func (s Style) Of(text string) string {
	if s == Plain || text == "" {
		return text
	}
	return beginStyle + string(s) + "m" + text + endStyle
}

// Without a terminal to ask.
const (
	usualWidth  = 80
	usualHeight = 24
)

// Unlimited is a width that cuts nothing.
const Unlimited = 1 << 20

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

// Text returns lines below each other, without their styles if there are no colors.
func (l Look) Text(lines []string) string {
	text := strings.Join(lines, "\n") + "\n"
	if !l.Color {
		return ansi.Strip(text)
	}
	return text
}

// Print writes lines as the look of w wants them.
func Print(w io.Writer, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	_, err := io.WriteString(w, LookOf(w).Text(lines))
	return err
}

// Frame returns the output that draws lines over the previous frame. It overwrites each line
// and clears the rest of it, so nothing flickers. Lines that do not fit on the screen are cut off
// at the bottom.
func (l Look) Frame(lines []string) string {
	width, height := l.Size()
	var b strings.Builder
	b.WriteString(cursorHome)
	lines = lines[:min(len(lines), height)]
	full := false
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		if line = ansi.Truncate(line, width, ""); !l.Color {
			line = ansi.Strip(line)
		}
		b.WriteString(line)
		// The cursor of a full line is on its last column, and clearing would take that.
		if full = Columns(line) >= width; !full {
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

// Wrap wraps a text at spaces into lines of at most width columns. A longer word has a line of
// its own. A style ends with each word, and begins again with the next one.
func Wrap(text string, width int) (lines []string) {
	line, style := "", ""
	for word := range strings.FieldsSeq(text) {
		word = style + word
		if last := strings.LastIndex(word, beginStyle); last >= 0 {
			style = word[last : last+strings.IndexByte(word[last:], 'm')+1]
		}
		if style == endStyle {
			style = ""
		}
		if style != "" {
			word += endStyle
		}
		if line != "" && Columns(line)+1+Columns(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// Hang wraps a text behind a label, which stands in the first line alone.
func Hang(label, text string, width int) []string {
	room := Columns(label)
	lines := Wrap(text, width-room)
	for i := range lines {
		lines[i] = label + lines[i]
		label = strings.Repeat(" ", room)
	}
	return lines
}

// Columns returns how wide a terminal shows a text.
func Columns(text string) int { return ansi.StringWidth(text) }

// Cut cuts a text to a width. What was cut ends with "…".
func Cut(text string, width int) string { return ansi.Truncate(text, width, "…") }
