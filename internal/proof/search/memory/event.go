package memory

import "fmt"

// A Kind is what a step is.
type Kind uint8

// What a step may be; [Kind.String] says it in words.
const (
	Waits Kind = iota
	SeesNew
	Admits
	Intends
	WritesNew
	WritesLost
	MakesLost
	ActivatesByTime
	TakesRun
	SwapFails
	SeesNewAgain
	SeesOtherwise
	SeesOnce
	ActivatesCluster
	IsGranted
	Counts
	DoesNotCount
	ProvesFirst
	Holds
	HoldsByHurt
	Ends
	ClientRestarts
	Copies
	RestartsEmpty
	RestartsWithCopy
	RestartsDurable
	Flushed
	ReplicatesOther
	ReplicatesCopy
	ReplicatesItself
	RenewsReplid
	numKinds
)

var kindNames = [numKinds]string{
	Waits:            "connects, and waits",
	SeesNew:          "connects, and sees the marker new",
	Admits:           "connects, and admits",
	Intends:          "connects, and is about to write",
	WritesNew:        "writes new",
	WritesLost:       "writes lost",
	MakesLost:        "writes lost for new",
	ActivatesByTime:  "writes active, because T has passed, and admits",
	TakesRun:         "writes the present run id, and admits",
	SwapFails:        "writes in vain: the text has changed",
	SeesNewAgain:     "sees the marker new again",
	SeesOtherwise:    "looks again, and the marker has changed",
	SeesOnce:         "is content with one look",
	ActivatesCluster: "writes active, because all are new, and admits",
	IsGranted:        "SET is granted",
	Counts:           "GET proves the vote",
	DoesNotCount:     "GET does not prove the vote",
	ProvesFirst:      "GET comes before the vote",
	Holds:            "GET proves the vote, and the lock is held",
	HoldsByHurt:      "GET proves the vote, and the lock is held by a node that had a fault",
	Ends:             "attempt or lock is over",
	ClientRestarts:   "restarts, and knows nothing",
	Copies:           "data is copied",
	RestartsEmpty:    "crashes, and begins empty",
	RestartsWithCopy: "crashes, and begins with a copy",
	RestartsDurable:  "crashes, and begins with all its data",
	Flushed:          "data is flushed",
	ReplicatesOther:  "becomes a replica of another node, and a master again",
	ReplicatesCopy:   "becomes a replica of another node's copy, and a master again",
	ReplicatesItself: "becomes a replica of its own copy, and a master again",
	RenewsReplid:     "changes its replid",
}

func (k Kind) String() string { return kindNames[k] }

// An event is one step, in words.
type event struct {
	kind   Kind
	client int8 // or nowhere
	node   int8 // or nowhere
	state  State
	broken bool // two clients hold the lock
}

// Which returns the kind of the step.
func (e event) Which() Kind { return e.kind }

// Broke reports whether two clients hold the lock.
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
	if e.node != nowhere {
		text += fmt.Sprintf(" [%v]", e.state)
	}
	if e.broken {
		text += ", although another client holds it"
	}
	return text
}
