package permit

import "fmt"

// A Kind is what a step is.
type Kind uint8

// What a step may be; [Kind.String] says it in words.
const (
	Takes Kind = iota
	TakesUnseen
	TakesSlot
	TakesSlotUnseen
	IsRefused
	HearsOther
	Joins
	HearsHandOver
	Holds
	Extends
	Heals
	Renews
	Ends
	Releases
	HandsOver
	Expires
	ExpiresPermits
	LateRelease
	LateTake
	Loses
	Begins
	Unlocks
	Cancels
	Leaves
	GoesBack
	Crashes
	numKinds
)

var kindNames = [numKinds]string{
	Takes:           "takes a slot",
	TakesUnseen:     "takes a slot, and the answer is lost",
	TakesSlot:       "takes the slot that it collects",
	TakesSlotUnseen: "takes the slot that it collects, and the answer is lost",
	IsRefused:       "is refused",
	HearsOther:      "hears of another number of permits",
	Joins:           "joins the wait list",
	HearsHandOver:   "hears that it was given a slot",
	Holds:           "takes a slot, and holds it",
	Extends:         "extends the slot",
	Heals:           "finds a key missing, and sets it again",
	Renews:          "extends the slot, and holds it for longer",
	Ends:            "attempt or lock is over",
	Releases:        "a slot is released",
	HandsOver:       "a slot is released, and handed over",
	Expires:         "the key of a slot expires",
	ExpiresPermits:  "the number of permits expires",
	LateRelease:     "a release arrives late",
	LateTake:        "a request of an attempt that is over arrives",
	Loses:           "loses its data",
	Begins:          "wants a permit",
	Unlocks:         "unlocks",
	Cancels:         "gives up waiting",
	Leaves:          "a waiter that gave up leaves the list",
	GoesBack:        "hears that it was given a slot, and goes back to the pilot",
	Crashes:         "crashes",
}

func (k Kind) String() string { return kindNames[k] }

// An event is one step, in words.
type event struct {
	kind   Kind
	client int8 // or nowhere
	node   int8 // or nowhere
	slot   int8 // or 0
	broken bool
}

// Which returns the kind of the step.
func (e event) Which() Kind { return e.kind }

// Broke reports whether a claim does not hold.
func (e event) Broke() bool { return e.broken }

func (e event) String() string {
	var who string
	if e.client != nowhere {
		who = "client " + string(rune('A'+e.client))
	}
	if e.node != nowhere {
		if who != "" {
			who += " at "
		}
		who += fmt.Sprintf("node %d", e.node+1)
	}
	text := who + ": " + e.kind.String()
	if e.slot != 0 {
		text += fmt.Sprintf(" [slot %d]", e.slot)
	}
	if e.broken {
		text += brokenText
	}
	return text
}

const brokenText = ", which is one too many"

func at(kind Kind, c, n int, slot int8) event {
	return event{kind: kind, client: int8(c), node: int8(n), slot: slot}
}
