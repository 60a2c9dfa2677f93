package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redquorum/redquorum/clock"
)

// Held is the end of a hold that has not ended.
const Held clock.Instant = -1

// Hold is a time during which somebody had a lock, a set of names or a permit.
type Hold struct {
	Who     string
	How     string // it was acquired, for people
	Names   []string
	Value   string
	Token   int64 // 0 without fencing
	Shared  bool  // readers may have it together
	Permits int   // of the semaphore, as the holder believes; 0 for another kind

	Since clock.Instant // when the call began, or the round of it that won
	From  clock.Instant // when it returned
	To    clock.Instant // when the holder ceased to believe in it
	Kept  clock.Instant // the end of its minimum hold; 0 for none

	// Late says that the validity was over at the holder's first look, which may have been long
	// after. Such a hold has a token, and no time.
	Late bool

	// Returned is when the call that released it did, 0 if there was none. Confirmed says that it
	// was told of the release.
	Returned  clock.Instant
	Confirmed bool
}

func (h *Hold) String() string {
	how := h.How
	if h.Token != 0 {
		how = strings.TrimPrefix(fmt.Sprintf("%s, token %d", how, h.Token), ", ")
	}
	if how != "" {
		how = " (" + how + ")"
	}
	return fmt.Sprintf("%s has %s%s", h.Who, strings.Join(h.Names, ", "), how)
}

// record adds a hold to a history. It is acquired at some time of the call, and released when it
// ended or later: its holder says when it stops to use the lock, and the release does its work
// after that. If there was none, or it was not confirmed, nobody knows when.
func (h *Hold) record(r *Recorder, name string) {
	op := Operation{Function: Acquire, Name: name, Permits: h.Permits}
	if h.Shared {
		op.Function = AcquireShared
	}
	call := r.Invoke(h.Since, op)
	call.Return(h.From, OK, h.Token)
	if h.To == Held {
		return
	}
	release := call.Release(h.To)
	switch {
	case h.Confirmed:
		release.Return(max(h.Returned, h.To), OK, 0)
	case h.Returned > 0:
		release.Return(max(h.Returned, h.To), Info, 0)
	}
}

// Events returns the holds of a name, or the permits of a semaphore, as a history.
func Events(name string, holds []*Hold) []Event {
	var r Recorder
	for _, h := range holds {
		if !h.Late {
			h.record(&r, name)
		}
	}
	return r.History()
}

// SemaphoreOf returns the name of the semaphore of which a name is a slot.
func SemaphoreOf(name string) string {
	name, _, _ = strings.Cut(name, "#")
	return name
}

// grouped returns the holds of each name, and the permits of each semaphore, in the order in which
// they were acquired.
func grouped(holds []*Hold) (names, semaphores map[string][]*Hold) {
	names, semaphores = make(map[string][]*Hold), make(map[string][]*Hold)
	for _, h := range holds {
		for _, name := range h.Names {
			names[name] = append(names[name], h)
		}
		if h.Permits > 0 {
			semaphore := SemaphoreOf(h.Names[0])
			semaphores[semaphore] = append(semaphores[semaphore], h)
		}
	}
	for _, all := range []map[string][]*Hold{names, semaphores} {
		for _, list := range all {
			slices.SortStableFunc(list, func(a, b *Hold) int { return int(a.From - b.From) })
		}
	}
	return names, semaphores
}
