package design

import "github.com/redquorum/redquorum/internal/proof/search/memory"

// A marker is what a node keeps to prove that it remembers.
type marker struct {
	state       memory.State
	durable     bool
	incarnation int32
	run         int32
	until       int64 // T, by the node's clock
}

// proves reports whether a reply shows that the node has kept everything since it was admitted on
// this connection.
func (l *link) proves(m *message) bool {
	return l.admitted && m.marker.state == memory.Active && m.marker.incarnation == l.incarnation &&
		m.marker.run == l.run && m.run == l.run
}

// admit is what a client does with what it read of a node on a new connection, or again.
func (w *world) admit(c, n int8, m *message) {
	l := &w.links[c][n]
	seen := m.marker
	facts := memory.Facts{
		State: seen.state, Own: seen.run == m.run, Durable: seen.durable, DurableNow: m.durable,
		Known: l.known, Passed: m.now >= seen.until,
	}
	if w.rules.TrustDisk {
		facts.Durable, facts.DurableNow = true, true
	}
	write := seen
	verdict := memory.Judge(facts)
	switch verdict {
	case memory.Wait:
		w.count(quarantined)
		w.queue.add(w.now+seen.until-m.now+millisecond, &event{
			kind: connect, client: c, node: n, connection: l.connection, message: message{op: look},
		})
		return
	case memory.Vote:
		l.admitted, l.known, l.incarnation, l.run = true, true, seen.incarnation, m.run
		return
	case memory.WriteNew, memory.WriteLost:
		wait := int64(maxTTL) * millisecond
		if w.rules.ShortQuarantine {
			wait /= 4
		}
		w.incarnations++
		write = marker{memory.Lost, m.durable, w.incarnations, m.run, m.now + wait}
		if verdict == memory.WriteNew {
			write.state = memory.New
		}
	case memory.ToLost:
		write.state = memory.Lost
	case memory.Activate:
		write.state = memory.Active
	case memory.TakeRun:
		write.run = m.run
	}
	w.send(c, n, message{op: swap, seen: seen, marker: write})
}
