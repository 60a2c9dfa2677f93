package pipeline

import (
	"crypto/sha1"
	"encoding/hex"

	"github.com/redquorum/redquorum/clock"
)

// Request is what a node is asked. Any number of calls, to any number of nodes, may share a
// Request. Nobody may change it once the first of them has been made.
type Request struct {
	// Name is the command; empty for a script.
	Name string
	// Args are the command's arguments: strings, byte slices, integers. For a script, they are what
	// [Script.Args] returns.
	Args []any
	// Script is the script to run; nil for a plain command.
	Script *Script
	// Key is the key that the request writes. A script whose text must be sent again must not run
	// after a later call for the same key. Leave Key empty if there are several: such a script is
	// not sent again, unless it may run late.
	Key string
	// Accept reports whether a reply is of a kind that this request can have. Any other reply
	// breaks the connection, because the server is out of step. Nil accepts everything. Error
	// replies are always accepted.
	Accept func(reply any) bool
	// Prove makes the node read its server's memory key behind each call, on the same connection
	// and with the same write. Sink must be a [Prover].
	Prove bool
	// Deadline is when an unanswered call ends with [ErrTimeout].
	Deadline clock.Instant
	// Sink receives the outcome of each call.
	Sink Sink
}

// Sink receives the outcomes of calls.
type Sink interface {
	// Complete is called exactly once per call, with the server's reply (nil, int64, string for a
	// status, []byte for a bulk string, []any) or with a [*CallError]. It runs on a goroutine of
	// the node, or inside [Node.Do] if the call fails at once. It must be quick, and must neither
	// wait nor call the node.
	Complete(call *Call, reply any, err error)
}

// Call is one request to one node. Do not copy it or use it again after giving it to [Node.Do].
type Call struct {
	// Request is what the node is asked.
	Request *Request
	// Index is the caller's; the node does not use it.
	Index int32
	// Keep makes the node deliver the call whatever happens, until the node is closed. If the call
	// ends without an answer, its Sink is told so as usual, and the call is sent again when the
	// node is back, before everything else. Use it for calls that do no harm late or twice, such as
	// a compare-and-delete of a unique value. The number of kept calls is bounded: see
	// [Stats.Dropped]. [Node.Drain] waits for them.
	Keep bool

	eval      bool // send the script's text; guarded by Node.mu
	completed bool // the Sink has been told; guarded by Node.mu
}

// Script is a Lua script. It is loaded once per connection, ahead of the first call that runs it,
// and sent by its digest from then on. A server that has forgotten it since gets the full text.
type Script struct {
	source string
	digest any // hex SHA-1, boxed once
	late   bool
}

// NewScript returns a script that must run in order. If the server did not know it and a later call
// for the same key has been sent since, the script is not sent again, and its call ends as
// [Refused].
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source)) // Redis names scripts by their SHA-1; it protects nothing
	return &Script{source: source, digest: hex.EncodeToString(sum[:])}
}

// NewLateScript returns a script that does no harm if it runs after a later call for the same key.
func NewLateScript(source string) *Script {
	s := NewScript(source)
	s.late = true
	return s
}

// Args appends to room the arguments of a request that runs the script on keys.
func (s *Script) Args(room, keys []any, args ...any) []any {
	return append(append(append(room, s.digest, len(keys)), keys...), args...)
}

// Digest returns the first argument of a request that runs the script. The number of keys, the keys
// and the arguments follow.
func (s *Script) Digest() any { return s.digest }

// load returns a call that loads the script into the server. Nobody waits for its answer: if an ACL
// forbids it, the server will answer NOSCRIPT to the call that runs the script.
func (s *Script) load(deadline clock.Instant) *Call {
	return &Call{completed: true, Request: &Request{
		Name: "SCRIPT", Args: []any{"LOAD", s.source}, Deadline: deadline, Sink: nobody{},
	}}
}

// wire returns the command as it is sent to the server.
func (c *Call) wire() (name string, args []any) {
	r := c.Request
	switch {
	case r.Script == nil:
		return r.Name, r.Args
	case !c.eval:
		return "EVALSHA", r.Args
	default:
		args = append([]any{r.Script.source}, r.Args[1:]...)
		return "EVAL", args
	}
}
