package pipeline

import (
	"crypto/sha1"
	"encoding/hex"
	"sync"

	"github.com/redquorum/redquorum/clock"
)

// Script is a Lua script. It is loaded once per connection, ahead of the first call that runs it,
// and sent by its digest from then on. A server that has forgotten it since gets the full text.
type Script struct {
	encoded func() *encoded // made when the script is first used
	late    bool
	timed   bool
	batch   *batch // nil if each call is run by itself
}

// encoded is a script as it goes on the wire.
type encoded struct {
	digest string // hex SHA-1
	short  string // the first two words that run it: EVALSHA and the digest
	text   string // the source, a word
	load   Words  // SCRIPT LOAD
}

// batch is how many calls of a script are run at once.
type batch struct {
	script *Script
	args   int  // of each call
	most   int  // calls
	one    bool // an integer may be the answer to all of them
}

// NewScript returns a script that must run in order. If the server did not know it and a later call
// for one of its keys has been sent since, the script is not sent again, and its call ends as
// [Refused].
func NewScript(source string) *Script { return Assembled(func() string { return source }) }

// Assembled returns what [NewScript] returns, of a source that is asked for when the script is
// first used. Every program that imports a package with scripts begins with them, and runs a few.
func Assembled(source func() string) *Script {
	return &Script{encoded: sync.OnceValue(func() *encoded {
		source := source()
		sum := sha1.Sum([]byte(source)) // Redis names scripts by their SHA-1; it protects nothing
		e := &encoded{digest: hex.EncodeToString(sum[:]), text: Encode(source)}
		e.short, e.load = Encode("EVALSHA", e.digest), Parts(loadWords, e.text, 3)
		return e
	})}
}

// What comes before the text of a script that the server shall run, or know.
var (
	evalWord  = Encode("EVAL")
	loadWords = Encode("SCRIPT", "LOAD")
)

// NewLateScript returns a script that does no harm if it runs after a later call for its keys.
func NewLateScript(source string) *Script { return NewScript(source).Late() }

// Late makes s one that does no harm if it runs after a later call for its keys.
func (s *Script) Late() *Script {
	s.late = true
	return s
}

// Batch makes the node run calls of s together that wait to be sent at the same time, at most this
// many at once: by a script that gets the keys of all and then the arguments of all, in the same
// order. It returns an array with the answer to each, which may be an error; a script that is its
// own batch returns an array of one to a call by itself, and each call gets that. Only calls with
// one key and this many arguments are run together, and their keys differ. Each is answered as if
// it had been run by itself, and keeps its place among the calls for its key.
func (s *Script) Batch(together *Script, args, most int) *Script {
	s.batch = &batch{script: together, args: args, most: most}
	return s
}

// OneForAll lets the batch of s return, in place of an array, one reply that is the answer to each
// call. A surplus reply of that kind would be believed by all of them: where calls grant something,
// no other command may be answered like this.
func (s *Script) OneForAll() *Script {
	s.batch.one = true
	return s
}

// Timed gives each call of s one more argument, behind the others: how many milliseconds are left
// when the call is written until the instant that its Sink tells, which must be a [Timed]. They are
// rounded up, and 0 once it has passed. A kept call that is sent again gets what is left then.
func (s *Script) Timed() *Script {
	s.timed = true
	return s
}

// Timed is the [Sink] of a call of a timed script.
type Timed interface {
	Sink
	// Until returns the instant. It runs on a goroutine of the node, and must not wait.
	Until() clock.Instant
}

// Digest returns the name by which servers know the script.
func (s *Script) Digest() string { return s.encoded().digest }

// loading returns a call that loads the script into the server. Nobody waits for its answer: if an
// ACL forbids it, the server will answer NOSCRIPT to the call that runs the script.
func (s *Script) loading(deadline clock.Instant) Call {
	return Call{Request: &Request{Words: s.encoded().load, Deadline: deadline, Sink: nobody{}}, given: told}
}

// batches reports whether calls of this request may be run together with others.
func (r *Request) batches() bool {
	return r.Script != nil && r.Script.batch != nil && r.Key != "" &&
		r.Words.keys == 1 && int(r.Words.count) == 1+r.Script.batch.args
}
