package wire

import (
	"strconv"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// InspectPermits returns a request for what a node knows of the semaphore with this key.
// [ReadPermits] reads the answer.
func InspectPermits(key string) pipeline.Request {
	return pipeline.Request{Script: permitInspectScript, Words: pipeline.On([]string{key}), Accept: isArray, Prove: true}
}

// Permits is the answer to [InspectPermits].
type Permits struct {
	Waiting int          // processes on the wait list
	Waiters []string     // the owners of the oldest of them
	Slots   []Inspection // as many as the node knows; none if it knows no number
}

// ReadPermits reads the answer to [InspectPermits], and reports whether it is well-formed.
func ReadPermits(reply any) (p Permits, ok bool) {
	answers, _ := reply.([]any)
	if len(answers) != 4 {
		return p, false
	}
	permits, _ := answers[0].(int64)
	waiting, _ := answers[1].(int64)
	slots, _ := answers[3].([]any)
	if permits < 0 || permits > MaxPermits || int64(len(slots)) != 3*permits {
		return p, false
	}
	p.Waiting, p.Waiters = int(waiting), readTexts(answers[2])
	for ; len(slots) > 0; slots = slots[3:] {
		p.Slots = append(p.Slots, readHolder(slots))
	}
	return p, true
}

// readHolder reads what begins with a value, its time to live and its fencing counter.
func readHolder(answers []any) (in Inspection) {
	value, held := answers[0].([]byte)
	ttlMillis, _ := answers[1].(int64)
	fence, _ := answers[2].([]byte)
	if in.Held, in.Value = held, string(value); held {
		in.TTL = spanOf(ttlMillis)
	}
	in.Fence, _ = strconv.ParseInt(string(fence), 10, 64) //nolint:errcheck // not a number: 0
	return in
}
