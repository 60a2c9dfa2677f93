package round

import (
	"errors"
	"slices"
	"strings"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// untouched reports whether a call that failed has certainly changed nothing at its node.
func untouched(err error) bool {
	var call *pipeline.CallError
	return errors.As(err, &call) && call.Fate != pipeline.Unknown
}

// unbegun are the codes of errors that a server answers to a script before its first write, if at
// all.
var unbegun = []string{"READONLY", "OOM", "MISCONF", "NOREPLICAS", "LOADING", "BUSY", "MASTERDOWN", "NOSCRIPT", "NOAUTH"}

// midway reports whether a script that was answered with this error may have written before.
func midway(err error) bool {
	var call *pipeline.CallError
	if !errors.As(err, &call) || call.Fate != pipeline.Refused {
		return false
	}
	code, _, _ := strings.Cut(call.Err.Error(), " ")
	return !slices.Contains(unbegun, code)
}
