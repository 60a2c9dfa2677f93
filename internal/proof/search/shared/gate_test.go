package shared

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A Gate is what a resource remembers: the largest tokens of writers and of readers that it has
// seen. It refuses a lock as soon as it has seen a later one that excludes it.
type Gate struct{ Write, Read int64 }

// AdmitWrite reports whether a writer with this token may go on. A reader's token may be as large
// as that of the writer before it, so a writer must be above all readers.
func (g *Gate) AdmitWrite(token int64) bool {
	if token < g.Write || token <= g.Read {
		return false
	}
	g.Write = token
	return true
}

// AdmitRead reports whether a reader with this token may go on.
func (g *Gate) AdmitRead(token int64) bool {
	if token < g.Write {
		return false
	}
	g.Read = max(g.Read, token)
	return true
}

// A lock of a history, in the order in which they were acquired. Readers that follow each other may
// overlap.
type lock struct {
	reads bool
	token int64
}

// histories calls visit with all histories of so many locks whose tokens are in order.
func histories(locks, tokens int, visit func([]lock)) {
	history := make([]lock, 0, locks)
	var add func()
	add = func() {
		if len(history) == locks {
			visit(history)
			return
		}
		for token := range int64(tokens) {
			for _, l := range []lock{{true, token + 1}, {false, token + 1}} {
				ordered := true
				for _, before := range history {
					ordered = ordered && (l.token > before.token || l.reads && (before.reads || l.token == before.token))
				}
				if ordered {
					history = append(history, l)
					add()
					history = history[:len(history)-1]
				}
			}
		}
	}
	add()
}

// The order of tokens is what a resource needs: it never refuses the present lock, and never admits
// one after a later one that excludes it.
func TestGateAdmitsThePresentLockAndNoneThatIsStale(t *testing.T) {
	const locks = 4
	seen := 0
	histories(locks, locks+1, func(history []lock) {
		seen++
		type state struct {
			gate     Gate
			acquired int
			admitted uint8 // which locks have been admitted
		}
		known := map[state]bool{}
		var from func(s state)
		from = func(s state) {
			if known[s] {
				return
			}
			known[s] = true
			if s.acquired < locks {
				next := s
				next.acquired++
				from(next)
			}
			for i, l := range history[:s.acquired] {
				next := s
				admit := next.gate.AdmitWrite
				if l.reads {
					admit = next.gate.AdmitRead
				}
				admitted, stale, present := admit(l.token), false, true
				for later := i + 1; later < s.acquired; later++ {
					excludes := !l.reads || !history[later].reads
					stale = stale || excludes && s.admitted>>later&1 == 1
					present = present && !excludes
				}
				if stale && admitted || present && !admitted {
					t.Fatalf("%v: lock %d, admitted %t, at %+v", history, i, admitted, s)
				}
				if admitted {
					next.admitted |= 1 << i
					from(next)
				}
			}
		}
		from(state{})
	})
	t.Logf("%d histories", seen)
	assert.Positive(t, seen)
}
