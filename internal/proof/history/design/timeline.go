package design

import (
	"fmt"

	"github.com/redquorum/redquorum/internal/proof/search/shared"
)

func letter(client int8) string { return string(rune('A' + client)) }

// say adds a line to the timeline.
func (w *world) say(format string, args ...any) {
	*w.log = append(*w.log, fmt.Sprintf("%11.6f  ", seconds(w.now))+fmt.Sprintf(format, args...))
}

// sayClient adds what a client does.
func (w *world) sayClient(c *client, what string) {
	if w.log == nil {
		return
	}
	text := fmt.Sprintf("client %s %s, as %d", letter(c.id), what, c.value)
	if c.phase == held && w.believing(c) {
		text += fmt.Sprintf(", until %.6f", seconds(c.believes))
		if c.token > 0 {
			text += fmt.Sprintf(", with token %d", c.token)
		}
		if c.slot > 0 {
			text += fmt.Sprintf(", slot %d of %d", c.slot, c.permits)
		}
	}
	w.say("%s", text)
}

// sayExecuted adds what a node did with a request.
func (w *world) sayExecuted(e *event) {
	m := &e.message
	text := fmt.Sprintf("node %d: %v of client %s", e.node+1, m.op, letter(e.client))
	if m.value != 0 {
		text += fmt.Sprintf(", as %d", m.value)
	}
	if m.reads {
		text += ", to read"
	}
	if m.again {
		text += ", again"
	}
	switch m.op {
	case acquire, take, extend, raise:
		text += [...]string{shared.Refused: ": no", shared.Extended: ": yes", shared.Healed: ": set again"}[m.answer]
		if m.slot > 0 {
			text += fmt.Sprintf(", slot %d", m.slot)
		}
		if m.op != raise && m.answer != shared.Refused {
			text += fmt.Sprintf(", for %d ms", m.ttl)
		}
		if m.fence > 0 && w.plan.fenced {
			text += fmt.Sprintf(", fence %d", m.fence)
		}
	case hello, look, swap, mend, release:
	}
	w.say("%s (marker %v)", text, w.nodes[e.node].marker.state)
}

// String says what an item is.
func (i *item) String() string {
	k := &kinds[i.kind]
	text := "client " + letter(i.client)
	switch k.hits {
	case aClient:
	case aNode:
		text = fmt.Sprintf("node %d", i.node+1)
	case connections:
		text += " and nodes"
		for n := range maxNodes {
			if i.mask>>n&1 == 1 {
				text += fmt.Sprintf(" %d", n+1)
			}
		}
	}
	text += ": " + k.name
	if i.kind == uses {
		text += fmt.Sprintf(" from %.6f, with %d ms, for %.6f s, in %d attempts", seconds(i.at), i.ttl, seconds(i.hold), i.tries)
		if i.reads {
			text += ", to read"
		}
		if i.renews {
			text += fmt.Sprintf(", and extends it, with %d ms every second time", i.other)
		}
	}
	switch k.unit {
	case nothing:
	case microseconds:
		text += fmt.Sprintf(": %.6f s", seconds(i.span))
	case number:
		text += fmt.Sprintf(": %d", i.span)
	}
	return text
}

func seconds(t int64) float64 { return float64(t) / million }
