package demo

import (
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// look describes how the output looks.
type look struct {
	size  func() (width, height int) // in columns and lines
	color bool
	live  bool // draw the state while the demo runs
}

// Escape sequences. The live view uses the alternate screen, so it leaves nothing behind.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[2J" // alternate screen, no cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	cursorHome  = "\x1b[H"
	clearToEOL  = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// style is how a piece of text looks; the zero value is plain.
type style string

const (
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// Without a terminal to ask.
const (
	usualWidth  = 80
	usualHeight = 24
)

// lookOf returns the look of output to w.
func lookOf(w io.Writer) look {
	file, ok := w.(*os.File)
	terminal := ok && term.IsTerminal(int(file.Fd()))
	l := chooseLook(terminal, runtime.GOOS, os.Getenv)
	if terminal {
		fallback := l.size
		l.size = func() (width, height int) {
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
func chooseLook(terminal bool, system string, getenv func(string) string) look {
	width, err := strconv.Atoi(getenv("COLUMNS"))
	if err != nil || width <= 0 {
		width = usualWidth
	}
	able := terminal && system != "windows" && getenv("TERM") != "dumb"
	return look{
		size:  func() (int, int) { return width, usualHeight },
		live:  able,
		color: able && getenv("NO_COLOR") == "",
	}
}

// span is text in one style; a line of the screen is made of spans.
type span struct {
	text  string
	style style
}

// drawLine returns a line cut to the width, so that it does not wrap.
func drawLine(line []span, width int, color bool) string {
	var b strings.Builder
	for _, s := range line {
		text := []rune(s.text)
		text = text[:min(len(text), width)]
		width -= len(text)
		if color && s.style != "" && len(text) > 0 {
			b.WriteString("\x1b[" + string(s.style) + "m" + string(text) + "\x1b[0m")
		} else {
			b.WriteString(string(text))
		}
	}
	return b.String()
}

// drawFrame returns the output that draws lines over the previous frame. It overwrites each line
// and clears the rest of it, so nothing flickers. Lines that do not fit on the screen are cut off
// at the bottom.
func drawFrame(lines [][]span, width, height int, color bool) string {
	var b strings.Builder
	b.WriteString(cursorHome)
	for i, line := range lines[:min(len(lines), height)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(drawLine(line, width, color))
		b.WriteString(clearToEOL)
	}
	b.WriteString(clearBelow)
	return b.String()
}

// wrapText wraps a text at spaces into lines of at most width columns. A longer word has a line of
// its own.
func wrapText(text []span, width int) (lines [][]span) {
	var line []span
	used := 0
	for _, s := range text {
		for word := range strings.FieldsSeq(s.text) {
			length := len([]rune(word))
			if used > 0 && used+1+length > width {
				lines, line, used = append(lines, line), nil, 0
			}
			if used > 0 {
				line, used = append(line, span{" ", ""}), used+1
			}
			line, used = append(line, span{word, s.style}), used+length
		}
	}
	if used > 0 {
		lines = append(lines, line)
	}
	return lines
}
