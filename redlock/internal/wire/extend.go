package wire

import (
	"errors"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// Extension builds a request that gives the keys of many locks a new time to live: first the keys
// of all locks, then their values in the same order.
type Extension struct{ args []any }

// NewExtension returns an empty extension with room for this many keys.
func NewExtension(keys int) Extension {
	return Extension{make([]any, 2, 2+3*keys)} // digest and number come first
}

// AddKeys adds the keys of a lock.
func (e *Extension) AddKeys(keys []any) { e.args = append(e.args, keys...) }

// SetKeys completes the keys.
func (e *Extension) SetKeys() { e.args[0], e.args[1] = extendScript.Digest(), len(e.args)-2 }

// AddValue adds the value and the TTL of a lock with this many keys.
func (e *Extension) AddValue(value any, ttl time.Duration, keys int) {
	for range keys {
		e.args = append(e.args, value, ttl.Milliseconds())
	}
}

// Request returns the request.
func (e *Extension) Request() pipeline.Request {
	r := pipeline.Request{Script: extendScript, Args: e.args, Accept: isArray, Prove: true}
	if e.args[1] == 1 {
		r.Key = e.args[2].(string)
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
