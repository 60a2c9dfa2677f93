package search

import (
	"fmt"
	"reflect"
)

// A Model is what is searched: states of type S, and every step from each of them. S has no
// pointers. Only one goroutine uses a Model at a time.
type Model[S comparable] interface {
	Start() S
	// Each visits every step from s. visit may change next, and uses it until it returns.
	Each(s *S, visit func(next *S, e Event))
}

// A Kind is what a step is, in words. A report counts them, so that a test can see that a search
// went where it was meant to go.
type Kind string

// Nobody and Nowhere are the client and the node of a step without one.
const (
	Nobody  = -1
	Nowhere = -1
)

// An Event is one step.
type Event struct {
	Kind   Kind
	Client int    // from 0, or Nobody
	Node   int    // from 0, or Nowhere
	Number int    // such as a token, a slot; 0 is none
	Note   string // anything else
	Broken string // the claim that the step breaks, or ""
}

// String returns the step as a line of a trace.
func (e Event) String() string {
	text := string(e.Kind)
	if e.Node != Nowhere {
		text = fmt.Sprintf("node %d: %s", e.Node+1, text)
	}
	if e.Client != Nobody {
		at := ": "
		if e.Node != Nowhere {
			at = " at "
		}
		text = "client " + string(rune('A'+e.Client)) + at + text
	}
	if e.Number != 0 {
		text += fmt.Sprintf(" (%d)", e.Number)
	}
	if e.Note != "" {
		text += " [" + e.Note + "]"
	}
	if e.Broken != "" {
		text += ", against the claim that " + e.Broken
	}
	return text
}

// Bits packs answers into a number.
func Bits(are ...bool) (number uint64) {
	for i, is := range are {
		if is {
			number |= 1 << i
		}
	}
	return number
}

// Default sets a rule to the right one if it is not set.
func Default[F any](rule *F, right F) {
	if reflect.ValueOf(*rule).IsNil() {
		*rule = right
	}
}
