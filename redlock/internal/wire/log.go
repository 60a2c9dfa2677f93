package wire

import (
	"time"

	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/internal/pipeline"
)

// LogKey is where a node keeps its part of the log (package journal).
const LogKey = Reserved + "log"

// Log returns a request that adds an entry to the log.
func Log(e *journal.Entry) pipeline.Request {
	return pipeline.Request{
		Script: logScript, Words: pipeline.On([]string{LogKey}, e.Encode(), journal.Kept, journal.Life.Milliseconds()),
		Key: LogKey, Accept: isInteger,
	}
}

// Logged returns a request for the entries that a node has. [ReadTexts] reads the answer.
func Logged() pipeline.Request {
	return pipeline.Request{Script: loggedScript, Words: pipeline.On([]string{LogKey}), Key: LogKey, Accept: isArray}
}

// ReadTexts reads a list of texts. What is no text is empty.
func ReadTexts(reply any) []string { return readTexts(reply) }

// ReadForced reads the answer to [Force]: what the node held, and for how long it would have, less
// than 0 if that did not expire. The value is empty if it held nothing.
func ReadForced(reply any) (value string, left time.Duration) {
	answers, _ := reply.([]any)
	if len(answers) != 2 {
		return "", 0
	}
	text, _ := answers[0].([]byte)
	millis, _ := answers[1].(int64)
	return string(text), spanOf(millis)
}
