package shared

import "fmt"

// A Kind is what a step is. A report counts them, so a test can see that a search went where it
// should.
type Kind uint8

// What a step may be; [Kind.String] says it in words.
const (
	BegunReading Kind = iota
	BegunWriting
	BegunForeign
	Granted
	GrantedAgain
	GrantedLate
	GrantedInTurn
	ServedInTurn
	Confirmed
	KeptOut
	Joined
	Announced
	Held
	WriteRaising
	WriteRaised
	WriteNotRaised
	ReadRaised
	ReadNotRaised
	Prolonged
	PutBack
	NotExtended
	ProlongedLate
	PutBackLate
	GaveUp
	Ended
	Expires
	LeftToOthers
	Freed
	HandedToWriter
	HandedToReaders
	LeftAsIs
	MessageLost
	Ticked
	Vanished
	Intended
	IntendedLate
	StrayIntent
	IntentExpired
	ListExpired
	KeyLost
	HandOverTrusted
	numKinds
)

var kindNames = [numKinds]string{
	BegunReading:    "begins to read",
	BegunWriting:    "begins to write",
	BegunForeign:    "begins to write, with another library",
	Granted:         "is granted the lock",
	GrantedAgain:    "is granted the lock again",
	GrantedLate:     "is granted the lock after its attempt is over",
	GrantedInTurn:   "is granted the lock in spite of an intent, because its turn has come",
	ServedInTurn:    "is granted the lock because its turn has come, and serves the readers behind it",
	Confirmed:       "confirms a vote that was handed over",
	KeptOut:         "is kept out by an intent",
	Joined:          "joins the waiters",
	Announced:       "announces itself to readers",
	Held:            "holds the lock",
	WriteRaising:    "begins the second round",
	WriteRaised:     "raises the counter to write",
	WriteNotRaised:  "does not raise the counter to write",
	ReadRaised:      "raises the counter to read",
	ReadNotRaised:   "does not raise the counter to read",
	Prolonged:       "extends the lock",
	PutBack:         "heals the lock",
	NotExtended:     "does not extend the lock",
	ProlongedLate:   "extends the lock after it is over",
	PutBackLate:     "heals the lock after it is over",
	GaveUp:          "gives up",
	Ended:           "ends the lock",
	Expires:         "is no longer sure of the lock",
	LeftToOthers:    "releases, and other readers remain",
	Freed:           "releases, and the key is free",
	HandedToWriter:  "releases, and a writer is handed the key",
	HandedToReaders: "releases, and readers are handed the key",
	LeftAsIs:        "releases nothing",
	MessageLost:     "loses the release",
	Ticked:          "time goes on",
	Vanished:        "has its key or member expire",
	Intended:        "announces itself, and asks for no vote",
	IntendedLate:    "announces itself after its attempt is over",
	StrayIntent:     "intent of a writer arrives that has long left",
	IntentExpired:   "intent expires",
	ListExpired:     "list of waiters expires",
	KeyLost:         "key is deleted by nobody who may",
	HandOverTrusted: "counts the vote that was handed over, as it is",
}

func (k Kind) String() string { return kindNames[k] }

// A claim is what a step can break.
type claim uint8

const (
	noClaim   claim = iota
	exclusive       // of the lock
	covered         // of a node
	lingering
	ownTime
	othersKey
	kept // of an extension
	extended
	respected // of intents
	admitted
	inTurn
	withdrawn
	together // of a hand-over
	woken
	inOrder
	peaceful // of tokens
	unique
	ordered
)

var claimNames = [...]string{
	noClaim:   "nothing",
	exclusive: "nobody holds the lock beside a writer",
	covered:   "what a node promised a client is there for as long as it promised",
	lingering: "the marker lives no longer than the reader that lives longest",
	ownTime:   "a reader lives no longer than it asked for",
	othersKey: "nobody touches a writer's key but that writer",
	kept:      "a node votes for an extension only if it kept the lock until then",
	extended:  "a node that kept the lock votes for its extension",
	respected: "an intent keeps new readers out",
	admitted:  "only a writer's key or an intent keeps a reader out",
	inTurn:    "only a writer's key keeps a reader out whose turn has come",
	withdrawn: "a writer that leaves takes its intent back, and nobody else's",
	together:  "readers that wait together are served together",
	woken:     "a release leaves nobody waiting who could go on",
	inOrder:   "waiters are served in order",
	peaceful:  "a reader's raise succeeds while it is a reader",
	unique:    "tokens of writers are unique",
	ordered:   "a later lock has a larger token, or, between readers or after a writer, as large a one",
}

func (c claim) String() string { return claimNames[c] }

// An event is one step, in words.
type event struct {
	kind   Kind
	client int8 // or nowhere
	node   int8 // or nowhere
	number int8 // fence, token or target
	broken claim
}

const nowhere = -1

// Which returns the kind of the step.
func (e event) Which() Kind { return e.kind }

// Broke reports whether the step breaks a claim.
func (e event) Broke() bool { return e.broken != noClaim }

func (e event) String() string {
	var text string
	if e.client != nowhere {
		text = "client " + string(rune('A'+e.client)) + " "
	}
	if e.node != nowhere {
		text += fmt.Sprintf("at node %d ", e.node+1)
	}
	text += e.kind.String()
	if e.number > 0 {
		text += fmt.Sprintf(" (%d)", e.number)
	}
	if e.broken != noClaim {
		text += fmt.Sprintf(", against the claim that %v", e.broken)
	}
	return text
}
