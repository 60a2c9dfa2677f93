package fence

import (
	"fmt"

	"github.com/redquorum/redquorum/internal/proof/search"
)

// A system is a set of states of type S, with every step between them.
type system[S any] = search.System[S, code, event, Kind]

// A Report is what a search found.
type Report = search.Report[Kind]

// A claim is what a step can break.
type claim uint8

const (
	noClaim claim = iota
	unique        // two acquisitions have one token
	ordered       // an acquisition has no larger token than one that was complete before it began
)

func (c claim) String() string {
	return [...]string{"nothing", "tokens are unique", "a later acquisition has a larger token"}[c]
}

// An event is one step, in words.
type event struct {
	kind   Kind
	client int8  // or the ghost
	node   int8  // or nowhere
	number int64 // fence, token or target
	broken claim
}

const nowhere = -1

// Which returns the kind of the step.
func (e event) Which() Kind { return e.kind }

// Broke reports whether the step breaks a claim.
func (e event) Broke() bool { return e.broken != noClaim }

func (e event) String() string {
	who := "late"
	if e.client > ghostClient {
		who = "client " + string(rune('A'+e.client))
	}
	text := who + ": " + kindNames[e.kind]
	if e.node != nowhere {
		text += fmt.Sprintf(" at node %d", e.node+1)
	}
	if e.number > 0 {
		text += fmt.Sprintf(" (%d)", e.number)
	}
	if e.broken != noClaim {
		text += fmt.Sprintf(", against the claim that %v", e.broken)
	}
	return text
}
