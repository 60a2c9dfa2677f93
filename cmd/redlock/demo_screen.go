package main

import (
	"io"
	"os"
	"runtime"
	"strings"

	"golang.org/x/term"
)

// screen is the terminal that the live view is drawn on.
type screen struct {
	size  func() (width, height int)
	color bool
}

// What is sent to the terminal. The live view has the alternate screen to itself, so that nothing of it stays behind.
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

// screenOf returns the terminal that w is, or nil where it is none that a live view can be drawn on. The console of
// Windows is not known to understand the sequences above.
func screenOf(w io.Writer) *screen {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" || runtime.GOOS == "windows" {
		return nil
	}
	size := func() (width, height int) {
		width, height, err := term.GetSize(int(file.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24
		}
		return width, height
	}
	return &screen{size: size, color: os.Getenv("NO_COLOR") == ""}
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

// drawFrame returns what draws the lines over the last frame: every line is overwritten and its rest cleared, so nothing
// flickers. What does not fit on the screen is left out at the bottom.
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
