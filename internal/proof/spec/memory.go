package spec

import "fmt"

// A State is what a marker says of its node.
type State uint8

// What a marker may say.
const (
	Absent State = iota // there is no marker
	New                 // there was none, and the client that wrote it did not know the node
	Lost                // there is evidence that the node forgot
	Active              // the node remembers
)

func (s State) String() string { return [...]string{"absent", "new", "lost", "active"}[s] }

// Facts are what a client knows of a node after it has read the marker, and then the identity of
// the server.
type Facts struct {
	State         State
	Own           bool // the run id in the marker is that of the server
	Durable       bool // the marker says that data survives a restart
	DurableNow    bool // the server says so
	ReplidChanged bool // the replid in the marker is not that of the server
	Promoted      bool // the server has a second replid: it once had another server's data
	Elsewhere     bool // another node has the incarnation, or may have it
	Known         bool // the client has known this node as active
	Passed        bool // T has passed, by the node's clock
}

// A Verdict is what the client does next.
type Verdict uint8

// What a client may do.
const (
	Wait      Verdict = iota // until T, or until the cluster turns out to be new
	Vote                     // admit the node
	WriteNew                 // write new, from now on
	WriteLost                // write lost, from now on
	ToLost                   // write lost for new, and leave T as it is
	Activate                 // write active, and admit the node
	TakeRun                  // write the current run id, and admit the node
)

// Judge is how a client admits a node. A write is a compare-and-set on the text that the client has
// read.
func Judge(f Facts) Verdict {
	switch {
	case f.State == Absent && f.Known:
		return WriteLost
	case f.State == Absent:
		return WriteNew
	case !f.Own && f.State == Active && f.Durable && f.DurableNow && !f.Promoted && !f.Elsewhere:
		return TakeRun
	case !f.Own, f.ReplidChanged && f.Promoted:
		return WriteLost
	case f.State == Active:
		return Vote
	case f.State == New && f.Known:
		return ToLost
	case f.Passed:
		return Activate
	default:
		return Wait
	}
}

// Swap is the script that makes every change of a marker. It returns the text of the marker that it
// leaves behind. It writes if the text is the expected one and the node's time now has reached due.
// A wait of 0 then writes "write rest", and any other one "write until T rest" with T = now + wait.
// A write of "" only reads. The text of an absent marker is "". All times are milliseconds since
// 1970 by the node's clock.
func Swap(text, expected, write, rest string, wait, due, now int64) string {
	if write == "" || text != expected || now < due {
		return text
	}
	if wait == 0 {
		return write + " " + rest
	}
	return fmt.Sprintf("%s until %d %s", write, now+wait, rest)
}

// A Page is what a node knows of its cluster: its marker, and its register.
type Page struct{ Marker, Register string }

// A PageChange asks for another page.
type PageChange struct {
	Marker, Register string // the new ones; "" only reads, and leaves the register as it is
	Since            string // the first line of the register; "" for the node's time
	Due, Latest      int64  // when it may be made; no Latest for ever
}

// SwapPage is the script that makes every change of a cluster. It returns the page that it leaves
// behind. It writes if both texts are the expected ones and the node's time is neither before due
// nor behind latest.
func SwapPage(held, expected Page, c PageChange, now int64) Page {
	if c.Marker == "" || held != expected || now < c.Due || c.Latest != 0 && now > c.Latest {
		return held
	}
	left := Page{c.Marker, held.Register}
	if c.Register != "" {
		left.Register = c.Since + "\n" + c.Register
		if c.Since == "" {
			left.Register = fmt.Sprintf("%d\n%s", now, c.Register)
		}
	}
	return left
}
