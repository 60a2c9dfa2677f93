package history

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// WriteEDN writes a history as Jepsen does: a map per line, in the order of the events. Knossos
// knows a mutex, so give it the events of one name.
//
//	{:index 0, :time 1000, :process 0, :type :invoke, :f :acquire, :value nil, :name "a"}
//	{:index 1, :time 2000, :process 0, :type :ok, :f :acquire, :value 17, :name "a"}
//
// Times are nanoseconds. The value of a lock is its fencing token, nil without one; that of a queue
// is the task. A permit also has :permits, the number that the process believes in, and a lock
// that others ended has :forced true. Names and tasks must be valid UTF-8.
func WriteEDN(to io.Writer, events []Event) error {
	var text []byte
	for i, e := range events {
		if !utf8.ValidString(e.Name) || !utf8.ValidString(e.Task) {
			return fmt.Errorf("history: %q of %q is no text", e.Task, e.Name)
		}
		value := "nil"
		switch {
		case e.Task != "":
			value = ednString(e.Task)
		case e.Token != 0:
			value = fmt.Sprint(e.Token)
		}
		text = fmt.Appendf(text, "{:index %d, :time %d, :process %d, :type :%s, :f :%s, :value %s, :name %s",
			i, e.Time, e.Process, e.Type, e.Function, value, ednString(e.Name))
		if e.Permits > 0 {
			text = fmt.Appendf(text, ", :permits %d", e.Permits)
		}
		if e.Forced {
			text = append(text, ", :forced true"...)
		}
		text = append(text, "}\n"...)
	}
	_, err := to.Write(text)
	return err
}

// ednString returns a text as EDN writes it.
func ednString(text string) string {
	var s strings.Builder
	s.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"', r == '\\':
			s.WriteByte('\\')
			s.WriteRune(r)
		case r < ' ', r == 0x7f:
			fmt.Fprintf(&s, `\u%04x`, r)
		default:
			s.WriteRune(r)
		}
	}
	s.WriteByte('"')
	return s.String()
}
