package round

import (
	"errors"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/trouble"
)

// untouched reports whether a failed call certainly changed nothing at its node.
func untouched(err error) bool {
	var call *pipeline.CallError
	return errors.As(err, &call) && call.Fate != pipeline.Unknown
}

// midway reports whether a script that was answered with this error may have written before it
// failed.
func midway(err error) bool {
	words := refusal(err)
	return words != nil && trouble.StateOf(words) == ""
}

// refusal returns the error with which the server answered a call; nil if it has not.
func refusal(err error) error {
	var call *pipeline.CallError
	if errors.As(err, &call) && call.Fate == pipeline.Refused {
		return call.Err
	}
	return nil
}
