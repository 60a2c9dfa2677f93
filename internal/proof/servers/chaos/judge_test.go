//go:build linux

package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/redquorum/redquorum/clock"
)

// hold is a time during which a client had one name.
type hold struct {
	client  int
	kind    string
	name    string
	shared  bool
	permits int
	token   int64
	void    bool // it was over before the client looked

	// The call, the round that won, its return, and the end: the earliest of the release, the loss
	// and the end of the validity, and never before the end of a minimum hold.
	call, begin, got, end clock.Instant
}

func (h *hold) String() string {
	how := h.kind
	if h.token != 0 {
		how += fmt.Sprint(", token ", h.token)
	}
	return fmt.Sprintf("client %d has %s (%s)", h.client, h.name, how)
}

// holdsOf returns what the events of a client say. What had not ended when it was killed lasted
// until the end of its validity.
func holdsOf(client int, events []event) (holds []*hold) {
	open := make(map[int64][]*hold)
	for _, e := range events {
		switch e.Type {
		case gotEvent, voidEvent:
			for _, name := range e.Names {
				h := &hold{
					client: client, kind: e.Kind, name: name, shared: e.Shared, permits: e.Permits, token: e.Token, void: e.Type == voidEvent,
					call: e.Call, begin: e.Begin, got: e.At, end: max(e.At, e.Until, e.Taken),
				}
				holds = append(holds, h)
				open[e.ID] = append(open[e.ID], h)
			}
		case renewedEvent:
			for _, h := range open[e.ID] {
				h.end = max(h.end, e.Until)
			}
		case endEvent:
			for _, h := range open[e.ID] {
				h.end = e.At
			}
		}
	}
	for _, e := range events {
		for _, h := range open[e.ID] {
			if e.Type == gotEvent {
				h.end = max(h.end, h.got, e.Taken)
			}
		}
	}
	return holds
}

// violation is something that must not happen.
type violation struct {
	name     string
	what     string
	from, to clock.Instant
}

// judge sweeps over the holds of all names.
func judge(holds []*hold) (found []violation) {
	for name, list := range byName(holds) {
		found = append(found, judgeTokens(name, list)...)
		list = slices.DeleteFunc(list, func(h *hold) bool { return h.void })
		found = append(found, judgeExclusion(name, list)...)
	}
	for semaphore, list := range bySemaphore(holds) {
		found = append(found, judgePermits(semaphore, list)...)
	}
	slices.SortFunc(found, func(a, b violation) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.name, b.name)) })
	return found
}

// byName returns the holds of each name in the order in which they were acquired.
func byName(holds []*hold) map[string][]*hold {
	names := make(map[string][]*hold)
	for _, h := range holds {
		names[h.name] = append(names[h.name], h)
	}
	for _, list := range names {
		slices.SortFunc(list, func(a, b *hold) int { return cmp.Or(cmp.Compare(a.got, b.got), cmp.Compare(a.end, b.end)) })
	}
	return names
}

// bySemaphore is [byName] for permits.
func bySemaphore(holds []*hold) map[string][]*hold {
	var permits []*hold
	for _, h := range holds {
		if h.permits > 0 && !h.void {
			named := *h
			named.name, _, _ = strings.Cut(h.name, "#")
			permits = append(permits, &named)
		}
	}
	return byName(permits)
}

// judgeExclusion finds holders beside a writer.
func judgeExclusion(name string, list []*hold) (found []violation) {
	var writer, reader *hold // those that end last
	for _, h := range list {
		for _, other := range []*hold{writer, reader} {
			if other == nil || h.got >= other.end || h.shared && other.shared {
				continue
			}
			found = append(found, violation{
				name: name, from: h.got, to: min(h.end, other.end),
				what: fmt.Sprintf("%v, and until %v later %v", h, other.end.Sub(h.got), other),
			})
		}
		last := &writer
		if h.shared {
			last = &reader
		}
		if *last == nil || h.end > (*last).end {
			*last = h
		}
	}
	return found
}

// judgeTokens finds tokens that are not above those before: of writers for a reader, and of all for
// a writer.
func judgeTokens(name string, list []*hold) (found []violation) {
	seen := make(map[int64]*hold)
	var written, read *hold // those with the largest tokens
	for _, h := range list {
		if h.token == 0 {
			continue
		}
		if !h.shared {
			if other := seen[h.token]; other != nil {
				found = append(found, violation{name: name, from: h.got, to: h.end, what: fmt.Sprintf("%v, and so had before %v", h, other)})
				continue
			}
			seen[h.token] = h
		}
		switch {
		case h.void: // it has no place in the order: its client may have looked late
			continue
		case written != nil && h.token < written.token:
			found = append(found, violation{name: name, from: h.got, to: h.end, what: fmt.Sprintf("%v after %v", h, written)})
		case !h.shared && read != nil && h.token <= read.token:
			found = append(found, violation{name: name, from: h.got, to: h.end, what: fmt.Sprintf("%v after %v", h, read)})
		}
		largest := &written
		if h.shared {
			largest = &read
		}
		if *largest == nil || h.token > (*largest).token {
			*largest = h
		}
	}
	return found
}

// judgePermits finds more holders than permits.
func judgePermits(semaphore string, list []*hold) (found []violation) {
	var holding []*hold
	for _, h := range list {
		holding = slices.DeleteFunc(holding, func(other *hold) bool { return other.end <= h.got })
		holding = append(holding, h)
		if len(holding) > h.permits {
			found = append(found, violation{
				name: semaphore, from: h.got, to: h.end, what: fmt.Sprintf("%v, and %d others have one of %d permits", h, len(holding)-1, h.permits),
			})
		}
	}
	return found
}
