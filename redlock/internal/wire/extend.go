package wire

import (
	"errors"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// Extension builds a request that gives the keys of many locks a new time to live: first the keys
// of all locks, then their values in the same order.
type Extension struct {
	words pipeline.Pairing
	keys  []string // of the last lock
}

// NewExtension returns an empty extension with room for this many keys.
func NewExtension(keys int) *Extension {
	e := &Extension{}
	e.words.Grow(keys)
	return e
}

// Add adds the keys of a lock, its value and its TTL.
func (e *Extension) Add(keys []string, value string, ttl time.Duration) {
	e.keys = keys
	for _, key := range keys {
		e.words.Add(key, value, ttl.Milliseconds())
	}
}

// Request returns the request. [Extended] reads the answer.
func (e *Extension) Request() pipeline.Request {
	r := pipeline.Request{Script: extendScript, Words: e.words.Words(), Accept: isArray, Prove: true}
	if e.words.Len() == 1 {
		r.Key = e.keys[0]
	}
	return r
}

// Extended reads a node's answers for the keys of one lock as one vote, which grants when all
// answers do. It takes them from the front of replies, and returns the rest. Touched reports
// whether the node holds the value under one of the keys, or may. The error is the node's, for a
// key that failed.
func Extended(replies []any, keys int) (v quorum.Vote, touched bool, rest []any, err error) {
	n := min(keys, len(replies))
	if n < keys {
		v, touched = quorum.Failed, true
	}
	for _, reply := range replies[:n] {
		switch reply {
		case int64(1):
			touched = true
		case int64(2): // set again
			touched = true
			if v != quorum.Failed {
				v = quorum.Refused
			}
		case int64(0):
			if v != quorum.Failed {
				v = quorum.Refused
			}
		default:
			v = quorum.Failed
			words, _ := reply.([]byte)
			err = &pipeline.CallError{Fate: pipeline.Refused, Err: errors.New(string(words))}
		}
	}
	return v, touched, replies[n:], err
}
