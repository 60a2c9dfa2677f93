package pipeline

import (
	"crypto/sha1"
	"encoding/hex"

	"github.com/redquorum/redquorum/clock"
)

// Request is what is asked of a node. Any number of calls, to any number of nodes, may share a Request; nobody may
// change it once the first of them has been made.
type Request struct {
	// Name is the command; for a script, leave it empty.
	Name string
	// Args are the command's arguments: strings, byte slices, integers. For a script they are what [Script.Args] returns.
	Args []any
	// Script is what to run; nil for a plain command.
	Script *Script
	// Key is the key that is written, so that a script whose text must be sent again does not come behind a later
	// call of the same key. Empty where there are many: such a script is not sent again, unless it may come late.
	Key string
	// Accept reports whether a reply is of a kind that this request can have. A reply that is not breaks the
	// connection: the server is out of step. Nil accepts everything. Error replies are always accepted.
	Accept func(reply any) bool
	// Prove makes the node read its server's memory key behind each call, on the same connection
	// and with the same write. Sink must be a [Prover].
	Prove bool
	// Deadline is when a call without an answer ends with [ErrTimeout].
	Deadline clock.Instant
	// Sink is told how each call ended.
	Sink Sink
}

// Sink takes the answers of calls.
type Sink interface {
	// Complete is called exactly once per call: with the reply of the server (nil, int64, string for a status, []byte
	// for a bulk string, []any), or with a [*CallError]. It runs on a goroutine of the node's, or
	// inside of [Node.Do] where the call fails at once: it must be quick, must not wait and must not call the node.
	Complete(call *Call, reply any, err error)
}

// Call is one request to one node. It must not be copied or used again once it was given to [Node.Do].
type Call struct {
	// Request is what is asked.
	Request *Request
	// Index is the caller's own; the node does not look at it.
	Index int32
	// Keep makes the node deliver the call whatever happens, until it is closed: when it ends
	// without an answer it is told so to the Sink as usual, and sent again, before everything else,
	// when the node is back. For calls that may come late and twice without harm, as a
	// compare-and-delete of a unique value. Bounded: see [Stats.Dropped]; [Node.Drain] waits for
	// them.
	Keep bool

	eval      bool // send the script's text, guarded by Node.mu
	completed bool // the Sink has been told, guarded by Node.mu
}

// Script is a Lua script. It is loaded once per connection, ahead of the first call that runs it, and sent by its digest
// from then on; a server that forgot it meanwhile gets it in full.
type Script struct {
	source string
	digest any // hex SHA-1, boxed once
	late   bool
}

// NewScript returns a script that must run in order: when the server did not know it and a later call of the same key has
// been sent meanwhile, it is not sent again, and its call ends as [Refused].
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source)) // Redis names scripts by their SHA-1; nothing is protected by it
	return &Script{source: source, digest: hex.EncodeToString(sum[:])}
}

// NewLateScript returns a script that does no harm when it runs after a later call of the same key.
func NewLateScript(source string) *Script {
	s := NewScript(source)
	s.late = true
	return s
}

// Args returns the arguments of a request that runs the script on keys, appended to room.
func (s *Script) Args(room, keys []any, args ...any) []any {
	return append(append(append(room, s.digest, len(keys)), keys...), args...)
}

// Digest returns what a request that runs the script begins with; the number of keys, the keys and the arguments follow.
func (s *Script) Digest() any { return s.digest }

// load returns a call that makes the server know the script. Nobody waits for its answer: where an ACL forbids it, the
// server will say NOSCRIPT.
func (s *Script) load(deadline clock.Instant) *Call {
	return &Call{completed: true, Request: &Request{
		Name: "SCRIPT", Args: []any{"LOAD", s.source}, Deadline: deadline, Sink: nobody{},
	}}
}

// wire returns the command as it goes to the server.
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
