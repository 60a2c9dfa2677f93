package pipeline

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"
)

// What a server says reaches terminals, logs and pages, and a server may be anybody's: between a
// client and a master without TLS, anyone can answer. So its errors and its INFO are made printable
// here, where they enter: a terminal shows an escape sequence, and does not obey it.

// maxLine bounds what is kept of a line. The longest errors of Redis itself have half of it.
const maxLine = 1024

// Printable escapes what is not graphic: control and invisible characters, those that change the
// direction of a text, and what is not UTF-8.
func Printable(text string) string {
	isPlain := func(r rune) bool { return r != utf8.RuneError && strconv.IsGraphic(r) }
	if strings.IndexFunc(text, func(r rune) bool { return !isPlain(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if part := text[:size]; isPlain(r) {
			b.WriteString(part)
		} else {
			quoted := strconv.QuoteToGraphic(part)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[size:]
	}
	return b.String()
}

// receive returns the next reply, with an error of the server in printable words.
func (c *conn) receive() (any, error) {
	reply, err := c.in.receive()
	if err == nil { // words escapes to the heap, which would cost every reply an allocation
		return reply, nil
	}
	return reply, printableError(err)
}

func printableError(err error) error {
	var words redis.Error
	if !errors.As(err, &words) {
		return err
	}
	return redis.Error(PrintableLine(string(words)))
}

// PrintableLine is [Printable] for a line that a server says, without what is too long of it.
func PrintableLine(text string) string {
	if len(text) <= maxLine {
		return Printable(text)
	}
	return Printable(fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:maxLine], ""), len(text)))
}

// printableLines is [PrintableLine] for each line of a text.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = PrintableLine(strings.TrimSuffix(line, "\r"))
	}
	return strings.Join(lines, "\n")
}
