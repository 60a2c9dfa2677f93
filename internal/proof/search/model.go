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

// A Symmetric model has nodes and clients (and other things) whose names mean nothing. Of the
// states that differ in names only, a search keeps one.
type Symmetric[S comparable] interface {
	Model[S]
	// Alike says which things may change places. It is asked once.
	Alike() Alike
	// Rename returns s with its things in another order, and everything renamed that is a name of
	// them: order.Nodes[i] is the node that comes i-th, and so on.
	Rename(s *S, order *Order) S
}

// Alike has a number for each thing. Those with equal numbers may change places. Numbers ascend.
type Alike struct {
	Nodes, Clients []int
	Others         []int // anything else: slots, copies
}

// An Order is an order of things.
type Order struct {
	Nodes, Clients, Others []int
}

// A Signed model says what tells things apart, whatever their names. Then only the orders of those
// are tried that look the same. A sign must not depend on the order of anything.
type Signed[S comparable] interface {
	Symmetric[S]
	// Sign is that of a client if the node is Nowhere, that of a node if the client is Nobody, and
	// otherwise of what is between the two.
	Sign(s *S, client, node int) uint64
}

// Same returns the numbers of so many things that may all change places.
func Same(things int) []int { return make([]int, things) }

// Bits packs answers into a sign.
func Bits(are ...bool) (sign uint64) {
	for i, is := range are {
		bit := uint64(0)
		if is {
			bit = 1
		}
		sign |= bit << (i & 63)
	}
	return sign
}

// Default sets a rule to the right one if it is not set.
func Default[F any](rule *F, right F) {
	if reflect.ValueOf(*rule).IsNil() {
		*rule = right
	}
}
