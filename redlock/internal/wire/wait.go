package wire

import (
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// maxWaiting is how many waiters a list can have, one per process and name.
const maxWaiting = 4096

// Wait asks a node for a lock, or for a place on the wait list of one of its keys.
type Wait struct {
	Keys    []string
	Value   string
	TTL     time.Duration
	Grace   time.Duration // of a waiter that gets a key the caller cannot use
	Target  int           // index of the key to wait for
	Process string        // on the wait list; empty for not waiting
	Waited  time.Duration // so far; the list is ordered by it
	Others  string        // the place of other libraries' clients: "others", "anyone" or ""
	Intent  time.Duration // how long it keeps new readers out; 0 until the caller has met readers
	Fencing Fencing
}

// Request returns the request of a writer. [Grant] and [ReadWait] read the answer.
func (w *Wait) Request() pipeline.Request {
	keys, fencing := len(w.Keys), w.Fencing
	args := fencing.appendTo([]any{
		w.Value, w.TTL.Milliseconds(), w.Grace.Milliseconds(), w.Target + 1, w.Process, w.Waited.Microseconds(), maxWaiting, w.Others,
	})
	if w.Intent > 0 {
		if fencing.Life == 0 {
			args = append(args, "", "")
		}
		args = append(args, w.Intent.Milliseconds())
	}
	return pipeline.Request{
		Script: waitScript, Words: pipeline.On(w.Keys, args...), Key: w.Keys[0], Prove: true,
		Accept: func(reply any) bool { return isWaitReply(reply, keys, fencing) },
	}
}

// WaitReply is the answer to [Wait] or [AwaitPermit].
type WaitReply struct {
	Granted bool
	Fence   int64         // not of a permit
	Slot    int           // of a permit: which the caller now holds; 0 for none
	Number  int           // the number of permits that the node knows instead of the caller's, or 0
	Taken   int           // index of the key that is taken
	Left    time.Duration // until it, or the first slot, expires; negative if it does not
	Holder  Holder        // who has it
	Client  int64         // which one that is, for HolderForeign
}

// Holder is who has a lock that is refused to a waiter.
type Holder uint8

// The holders. For a foreign one, or its turn, only one waiter polls: the oldest.
const (
	HolderOurs Holder = iota // a lock of this library

	// Readers. A writer that waits should announce itself, at all nodes: [Wait.Intent] and
	// [Intend].
	HolderReaders

	HolderForeign       // a client of another library; the caller polls for when it is free
	HolderForeignPolled // likewise, and an older waiter polls
	HolderTurn          // nobody: it is the turn of such clients; the caller polls whether they came
	HolderTurnPolled    // likewise, and an older waiter polls
)

// holderOf reads who has a lock, as wait.lua says it.
func holderOf(said int64) (h Holder, client int64) {
	switch said {
	case 0:
		return HolderForeignPolled, 0
	case -1:
		return HolderTurn, 0
	case -2:
		return HolderTurnPolled, 0
	case -4:
		return HolderReaders, 0
	default:
		return HolderForeign, said
	}
}

// isWaitReply reports whether wait.lua can give this reply about this many keys.
func isWaitReply(reply any, keys int, fencing Fencing) bool {
	answers, _ := reply.([]any)
	if len(answers) == 2 {
		return answers[0] == int64(1) && fencing.grants(answers[1])
	}
	for _, answer := range answers {
		if !isInteger(answer) {
			return false
		}
	}
	if len(answers) < 4 || len(answers) > 5 || answers[0] != int64(0) {
		return false
	}
	taken := answers[1].(int64)
	return taken >= 1 && taken <= int64(keys)
}

// ReadWait reads the answer to [Wait].
func ReadWait(reply any) WaitReply {
	answers := reply.([]any)
	if answers[0] == int64(1) {
		return WaitReply{Granted: true, Fence: Fence(reply, 0)}
	}
	r := WaitReply{
		Taken: int(answers[1].(int64)) - 1,
		Left:  spanOf(answers[2].(int64)),
	}
	if len(answers) == 5 {
		r.Holder, r.Client = holderOf(answers[4].(int64))
	}
	return r
}
