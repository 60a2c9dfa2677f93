package wire

import (
	"errors"
	"strconv"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// Extension builds a request that gives the keys of many locks a new time to live: first the keys
// of all locks, then their values in the same order.
type Extension struct {
	words   pipeline.Pairing
	keys    []string // of the last lock
	several bool     // kinds of locks: not mutexes only
	heals   string   // "!" before each time to live, or nothing
}

// NewExtension returns an empty extension with room for this many keys.
func NewExtension(keys int) *Extension {
	e := &Extension{}
	e.words.Grow(keys)
	return e
}

// Heal returns an empty extension that sets absent keys. It is only for nodes that have answered an
// extension that they lack them.
func Heal() *Extension { return &Extension{heals: "!"} }

// Add adds the keys of a lock, its value and its TTL.
func (e *Extension) Add(keys []string, value string, ttl time.Duration) {
	e.keys = keys
	for _, key := range keys {
		if e.heals == "" {
			e.words.Add(key, value, ttl.Milliseconds())
		} else {
			e.words.AddTexts(key, value, e.heals+strconv.FormatInt(ttl.Milliseconds(), 10))
		}
	}
}

// AddShared adds the key of a reader's lock, its value and its TTL.
func (e *Extension) AddShared(keys []string, value string, ttl time.Duration) {
	e.keys, e.several = keys, true
	for _, key := range keys {
		e.words.AddTexts(key, value, e.heals+"+"+strconv.FormatInt(ttl.Milliseconds(), 10))
	}
}

// Request returns the request. [ReadExtended] reads the answer.
func (e *Extension) Request() pipeline.Request {
	r := pipeline.Request{Script: extendScript, Words: e.words.Words(), Accept: isExtended, Prove: e.heals == ""}
	if e.several {
		r.Script = extendKindsScript
	}
	if e.words.Len() == 1 {
		r.Key = e.keys[0]
	}
	return r
}

// allExtended is the answer of extend.lua if it extended every key. No other request is answered
// like this.
const allExtended = "extended"

// isExtended reports whether a reply is of a kind that extend.lua can give.
func isExtended(reply any) bool { return reply == allExtended || isArray(reply) }

// Extended is a node's answer to an extension of many locks.
type Extended struct {
	all  bool
	rest []any // the answers for the keys of the locks whose votes have not been taken
}

// ReadExtended reads a node's answer.
func ReadExtended(reply any) Extended {
	rest, _ := reply.([]any)
	return Extended{all: reply == allExtended, rest: rest}
}

// Next takes the vote of the next lock, which has this many keys: it grants when all of them were
// extended. Absent reports whether the node lacks one of them, and taken, whether somebody else has
// one. The error is the node's, for the first key that failed.
func (e *Extended) Next(keys int) (v quorum.Vote, absent, taken bool, err error) {
	if e.all {
		return quorum.Granted, false, false, nil
	}
	n := min(keys, len(e.rest))
	if n < keys {
		v = quorum.Failed
	}
	for _, reply := range e.rest[:n] {
		switch reply {
		case int64(1):
			continue
		case int64(2):
			absent = true
		case int64(0):
			taken = true
		default:
			v = quorum.Failed
			if words, _ := reply.([]byte); err == nil {
				err = &pipeline.CallError{Fate: pipeline.Refused, Err: errors.New(string(words))}
			}
		}
	}
	if v != quorum.Failed && (absent || taken) {
		v = quorum.Refused
	}
	e.rest = e.rest[n:]
	return v, absent, taken, err
}
