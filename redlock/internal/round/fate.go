package round

import (
	"errors"
	"slices"
	"strings"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// untouched reports whether a failed call certainly changed nothing at its node.
func untouched(err error) bool {
	var call *pipeline.CallError
	return errors.As(err, &call) && call.Fate != pipeline.Unknown
}

// unbegun are the error codes that a server answers to a script only before its first write.
var unbegun = []string{"READONLY", "OOM", "MISCONF", "NOREPLICAS", "LOADING", "BUSY", "MASTERDOWN", "NOSCRIPT", "NOAUTH"}

// midway reports whether a script that was answered with this error may have written before it
// failed.
func midway(err error) bool {
	words := refusal(err)
	if words == nil {
		return false
	}
	code, _, _ := strings.Cut(words.Error(), " ")
	return !slices.Contains(unbegun, code)
}

// refusal returns the error with which the server answered a call; nil if it has not.
func refusal(err error) error {
	var call *pipeline.CallError
	if errors.As(err, &call) && call.Fate == pipeline.Refused {
		return call.Err
	}
	return nil
}
