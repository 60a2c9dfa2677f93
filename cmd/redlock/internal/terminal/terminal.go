// Package terminal writes text for people: in colors, wrapped, or in tables. A line is a string,
// with the escape sequences of its styles.
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
	Width func() int // in columns
	Color bool
	Live  bool // a person reads it there
}

// Escape sequences.
const (
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

// usualWidth is for when there is no terminal to ask.
const usualWidth = 80

// Unlimited is a width that cuts nothing.
const Unlimited = 1 << 20

// LookOf returns the look of output to w. NO_COLOR and TERM=dumb are respected.
func LookOf(w io.Writer) Look {
	file, ok := w.(*os.File)
	terminal := ok && term.IsTerminal(int(file.Fd()))
	l := chooseLook(terminal, runtime.GOOS, os.Getenv)
	if terminal {
		fallback := l.Width
		l.Width = func() int {
			width, _, err := term.GetSize(int(file.Fd()))
			if err != nil || width <= 0 {
				return fallback()
			}
			return width
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
		Width: func() int { return width },
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
