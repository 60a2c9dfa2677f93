package design

import "github.com/redquorum/redquorum/internal/proof/search/shared"

// An op is what a message asks of a node.
type op uint8

const (
	hello   op = iota // the first message of a connection: it kills the one before, and looks
	look              // reads the marker and the server's identity
	swap              // writes a marker, if it is as it was seen
	acquire           // a lock
	take              // any slot of a semaphore, or one
	extend
	raise   // the counter to a token
	mend    // the counter down to a number
	release // kept until it is answered
)

var opNames = [...]string{"hello", "look", "swap", "acquire", "take", "extend", "raise", "mend", "release"}

func (o op) String() string { return opNames[o] }

// A message is a request, and then its reply.
type message struct {
	op      op
	reads   bool
	again   bool  // it came before on this connection
	only    bool  // of a take: the slot by its number
	last    bool  // of a release: the attempt is over
	kills   bool  // of a hello: the connection before
	slot    int8  // of a semaphore, counted from 1; of a release the one to keep, or 0
	permits int8  // that the client believes in; 0 for a lock
	value   int32 // of the attempt
	round   int32
	ttl     int64  // in milliseconds
	number  int64  // the timestamp, the token, or what the counter is brought down to
	given   int64  // of a mend: the fence that the client was given
	seen    marker // of a swap: what the client read
	marker  marker // of a swap: what to write; of a reply: what there is, read behind the vote

	answer  shared.Answer // Extended is a vote; of an acquisition, too
	fence   int64
	free    uint8 // slots, a bit each
	now     int64 // by the node's clock, in microseconds
	run     int32 // the process of the node
	durable bool
}

// An eventKind is what comes.
type eventKind uint8

const (
	request eventKind = iota // arrives at a node
	reply                    // arrives at a client
	timer                    // of a client
	connect                  // a client tries to
	restart                  // of a node that died
	restore                  // of a client that crashed
	save                     // the data of a node, for an item that brings it back
	strike                   // an item of the plan
)

// An event is what comes at a moment.
type event struct {
	kind       eventKind
	what       timerKind
	client     int8
	node       int8
	item       int16
	connection int32  // of a message
	order      uint64 // in which it was added
	message    message
}
