// Package prose has what several commands say in the same words.
package prose

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// Plural returns a number with a noun: "1 master", "3 masters".
func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Needed says of how many there must be: 1 is needed, 2 are needed.
func Needed(n int) string {
	if n == 1 {
		return "1 is needed"
	}
	return fmt.Sprintf("%d are needed", n)
}

// Span is a time that has passed, in its two largest units: 45s, 5h12m, 3d4h.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return d.Truncate(time.Second).String()
	}
}

// WriteJSON writes a value as one indented JSON object.
// A terminal that shows it obeys nothing of it.
func WriteJSON[T any](w io.Writer, value T) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(GraphicJSON(b.Bytes()))
	return err
}

// GraphicJSON escapes what is not graphic, for whoever encodes by itself: strings are the same to a
// program, and the rest of JSON is ASCII.
func GraphicJSON(text []byte) []byte {
	if bytes.IndexFunc(text, func(r rune) bool { return r != '\n' && !strconv.IsGraphic(r) }) < 0 {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		switch high, low := utf16.EncodeRune(r); {
		case r == '\n' || strconv.IsGraphic(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// Printable escapes a text that anybody may have stored, so that a terminal shows it and does not
// obey it.
func Printable(text string) string {
	quoted := strconv.QuoteToGraphic(text)
	return quoted[1 : len(quoted)-1]
}

// What a key is that can be that of no lock: a lock is a string that expires.
const (
	Lasting  = "does not expire"
	NoString = "is no string"
)

// UseAnother is what to do about a key that is no lock.
const UseAnother = "use another name or --key-prefix"

// NoLock says that a key is that of no lock, and which of the two above it is.
func NoLock(key, is string) string { return fmt.Sprintf("the key %q %s: it is no lock", key, is) }

// How Redis says that a key is no string.
const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

// scriptPlace is where in a script a command has failed, as Redis 7 and Valkey say it. It tells a
// user nothing.
var scriptPlace = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`:? script: [0-9a-f]{40}, on @user_script:[0-9]+\.?`) })

// credentials are the part of an endpoint that nobody may see. What was mistaken for a file, a
// command or a name may be an endpoint.
var credentials = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`([A-Za-z]+://)[^\s"']*@`) })

// Readable returns the text of an error without what only the authors of its script understand, and
// without passwords. What others may have put into it, such as the names of a certificate, a
// terminal does not obey.
func Readable(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = pipeline.Printable(line)
	}
	text = strings.Join(lines, "\n")
	text = credentials().ReplaceAllString(scriptPlace().ReplaceAllString(text, ""), "$1…@")
	return strings.ReplaceAll(text, wrongType, "the key "+NoString)
}
