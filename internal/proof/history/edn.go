package history

import (
	"fmt"
	"io"
	"strconv"
)

// WriteEDN writes a history as Jepsen does: a map per line, in the order of the events. Knossos
// knows a mutex, so give it the events of one name.
//
//	{:index 0, :time 1000, :process 0, :type :invoke, :f :acquire, :value nil, :name "a"}
//	{:index 1, :time 2000, :process 0, :type :ok, :f :acquire, :value 17, :name "a"}
//
// Times are nanoseconds. The value of a lock is its fencing token, nil without one; that of a queue
// is the task. A permit also has :permits, the number that the process believes in. Names and tasks
// are printable ASCII.
func WriteEDN(to io.Writer, events []Event) error {
	var text []byte
	for i, e := range events {
		value := "nil"
		switch {
		case e.Task != "":
			value = strconv.Quote(e.Task)
		case e.Token != 0:
			value = fmt.Sprint(e.Token)
		}
		text = fmt.Appendf(text, "{:index %d, :time %d, :process %d, :type :%s, :f :%s, :value %s, :name %q",
			i, e.Time, e.Process, e.Type, e.Function, value, e.Name)
		if e.Permits > 0 {
			text = fmt.Appendf(text, ", :permits %d", e.Permits)
		}
		text = append(text, "}\n"...)
	}
	_, err := to.Write(text)
	return err
}
