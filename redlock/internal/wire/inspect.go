package wire

import (
	"strconv"

	"github.com/redquorum/redquorum/internal/look"
	"github.com/redquorum/redquorum/internal/pipeline"
)

// Inspect returns a request for what a node knows of a lock. [ReadInspect] reads the answer.
func Inspect(key string) pipeline.Request {
	return pipeline.Request{Script: inspectScript, Words: pipeline.On([]string{key}), Accept: isArray, Prove: true}
}

// ReadInspect reads the answer to [Inspect], and reports whether it is well-formed.
func ReadInspect(reply any) (in look.Inspection, ok bool) {
	answers, _ := reply.([]any)
	if len(answers) < 6 || len(answers) > 7 {
		return in, false
	}
	in = readHolder(answers)
	waiting, _ := answers[3].(int64)
	terms, _ := answers[5].(int64)
	in.Waiting, in.Waiters, in.Terms = int(waiting), readTexts(answers[4]), int(terms)
	if len(answers) == 7 {
		in.Readers, ok = readReaders(answers[6])
		return in, ok
	}
	return in, true
}

// readTexts reads a list. What is no text is empty.
func readTexts(reply any) []string {
	entries, _ := reply.([]any)
	texts := make([]string, len(entries))
	for i, entry := range entries {
		text, _ := entry.([]byte)
		texts[i] = string(text)
	}
	return texts
}

func readReaders(reply any) (readers []look.Reader, ok bool) {
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
		readers = append(readers, look.Reader{Value: string(value), TTL: spanOf(millis)})
	}
	return readers, true
}

// InspectPermits returns a request for what a node knows of the semaphore with this key.
// [ReadPermits] reads the answer.
func InspectPermits(key string) pipeline.Request {
	return pipeline.Request{Script: permitInspectScript, Words: pipeline.On([]string{key}), Accept: isArray, Prove: true}
}

// ReadPermits reads the answer to [InspectPermits], and reports whether it is well-formed.
func ReadPermits(reply any) (p look.Permits, ok bool) {
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
func readHolder(answers []any) (in look.Inspection) {
	value, held := answers[0].([]byte)
	ttlMillis, _ := answers[1].(int64)
	fence, _ := answers[2].([]byte)
	if in.Held, in.Value = held, string(value); held {
		in.TTL = spanOf(ttlMillis)
	}
	in.Fence, _ = strconv.ParseInt(string(fence), 10, 64) //nolint:errcheck // not a number: 0
	return in
}
