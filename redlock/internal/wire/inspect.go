package wire

import (
	"strconv"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// Inspect returns a request for what a node knows of a lock. [ReadInspect] reads the answer.
func Inspect(key string) pipeline.Request {
	return pipeline.Request{Script: inspectScript, Words: pipeline.On([]string{key}), Accept: isArray, Prove: true}
}

// Inspection is the answer to [Inspect].
type Inspection struct {
	Value   string        // empty if the node holds nothing
	TTL     time.Duration // negative if it does not expire
	Fence   int64         // the fencing counter; 0 if there is none, or it is not a number
	Waiting int           // processes on the wait list
	Readers []Reader      // if the value is [Marker]: those that are alive
}

// A Reader is a reader that a node knows.
type Reader struct {
	Value string
	TTL   time.Duration
}

// ReadInspect reads the answer to [Inspect], and reports whether it is well-formed.
func ReadInspect(reply any) (in Inspection, ok bool) {
	answers, _ := reply.([]any)
	if len(answers) < 4 || len(answers) > 5 {
		return in, false
	}
	value, _ := answers[0].([]byte)
	ttlMillis, _ := answers[1].(int64)
	fence, _ := answers[2].([]byte)
	waiting, _ := answers[3].(int64)
	in.Value, in.Waiting = string(value), int(waiting)
	in.Fence, _ = strconv.ParseInt(string(fence), 10, 64) //nolint:errcheck // not a number: 0
	if in.Value != "" {
		in.TTL = time.Duration(ttlMillis) * time.Millisecond
	}
	if len(answers) == 5 {
		in.Readers, ok = readReaders(answers[4])
		return in, ok
	}
	return in, true
}

func readReaders(reply any) (readers []Reader, ok bool) {
	entries, _ := reply.([]any)
	if len(entries)%2 != 0 {
		return nil, false
	}
	for i := 0; i < len(entries); i += 2 {
		value, isText := entries[i].([]byte)
		millis, isNumber := entries[i+1].(int64)
		if !isText || !isNumber {
			return nil, false
		}
		readers = append(readers, Reader{string(value), time.Duration(millis) * time.Millisecond})
	}
	return readers, true
}
