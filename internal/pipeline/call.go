package pipeline

import "github.com/redquorum/redquorum/clock"

// Request is what a node is asked. Any number of calls, to any number of nodes, may share a
// Request. Nobody may change it once the first of them has been made.
type Request struct {
	// Words are what [Command] returns; for a script, what [On] returns.
	Words Words
	// Script is the script to run; nil for a plain command.
	Script *Script
	// Key is the key that the request writes; empty if it writes several, or none. Unless it may
	// run late, a script that must be sent again does not run after a later call for one of the
	// keys.
	Key string
	// Accept reports whether a reply is of a kind that this request can have. Any other reply
	// breaks the connection, because the server is out of step. Nil accepts everything. Error
	// replies are always accepted.
	Accept func(reply any) bool
	// Prove makes the node read its server's memory key behind each call, on the same connection
	// and with the same write. Sink must be a [Prover].
	Prove bool
	// Direct lets the goroutine that makes the call write it, if the connection is idle and takes
	// it at once. That spares a caller that has the node for itself the wake-up of the writer.
	// Among many callers it would make the batches small.
	Direct bool
	// Collects is the word of whoever makes the call that [Node.Collect] comes next. It counts with
	// Direct only.
	Collects bool
	// Deadline is when an unanswered call ends with [ErrTimeout].
	Deadline clock.Instant
	// Sink receives the outcome of each call.
	Sink Sink
}

// Sink receives the outcomes of calls.
type Sink interface {
	// Complete is called exactly once per call, with the call's index and the server's reply (nil,
	// int64, string for a status, []byte for a bulk string, []any) or a [*CallError]. It runs on a
	// goroutine of the node, or inside [Node.Do] if the call fails at once. It must be quick, and
	// must neither wait nor call the node.
	Complete(index int, reply any, err error)
}

// Call is one request to one node.
type Call struct {
	// Request is what the node is asked.
	Request *Request
	// Index is for the Sink.
	Index int16
	// Keep makes the node deliver the call whatever happens, until the node is closed. If the call
	// ends without an answer, its Sink is told so as usual, and the call is sent again when the
	// node is back, before everything else. Use it for calls that do no harm late or twice, such as
	// a compare-and-delete of a unique value. The number of kept calls is bounded: see
	// [Stats.Dropped]. [Node.Drain] waits for them.
	Keep bool

	given // to a node; guarded by Node.mu
}

// given is what a node notes of a call. A struct of up to four fields is copied in registers, so
// fields are nested here: with all of them side by side, a node takes a third more time for a call.
type given struct {
	sent
	eval     bool // send the script's text
	alone    bool // not to be run together with others
	reloaded bool // the server did not know the script, and cannot be sent its text: load it once more
}

type sent struct {
	completed bool  // the Sink has been told
	together  int16 // if sent: so many, from this one on, as one command; 0 behind the first
}

// told is of a call whose answer nobody waits for.
var told = given{sent: sent{completed: true}}

// command says what was sent, for errors.
func (c *Call) command() string {
	if c.Request.Script != nil {
		return "a script"
	}
	return c.Request.Words.name()
}
